//! What calls the store: one task for each limiter that shares, while anything is wanted.
//!
//! The desk decides under its own lock; the agent makes the calls, tells the desk what it heard,
//! and lets the gate trade again. It keeps no limiter alive: when that is closed or gone, it gives
//! back what is held and ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::Time;
use crate::client::{self, Buyer, Clock, Gate, Traded};
use crate::scheduler::Scheduler;

use super::desk::{Call, Desk, Heard};
use super::sharing::Sharing;

/// The desk of a limiter, as its gate sees it.
#[derive(Debug)]
pub(super) struct Counter {
    desk: Arc<Mutex<Desk>>,
    bell: Arc<Notify>,
    sharing: Sharing,
    is_running: Arc<AtomicBool>,
}

impl Counter {
    pub(super) fn new(desk: Desk, sharing: Sharing) -> Self {
        Self {
            desk: Arc::new(Mutex::new(desk)),
            bell: Arc::default(),
            sharing,
            is_running: Arc::default(),
        }
    }

    fn is_running(&self) -> bool {
        self.is_running.load(Ordering::SeqCst)
    }
}

impl Buyer for Counter {
    fn trade(&mut self, machine: &mut Scheduler, now: Time) -> Traded {
        let mut desk = lock(&self.desk);
        let mut traded = Traded::default();
        let mut has_work = false;
        desk.on_waiting(machine.depth().0);
        while let Some(settled) = machine.poll_settled() {
            desk.on_settled(settled, now);
            has_work = true;
        }
        while let Some(purchase) = machine.poll_purchase() {
            desk.on_purchase(purchase, now);
            has_work = true;
        }
        while let Some(told) = machine.poll_told() {
            desk.on_told(told, now);
            has_work = true;
        }
        while let Some((told, observed)) = desk.poll_heard() {
            machine.hear(&told, observed, now);
            traded.told = true;
        }
        while let Some((purchase, allowance)) = desk.poll_answer() {
            machine.on_allowance(&purchase, allowance, now);
            traded.told = true;
        }
        while let Some(change) = desk.poll_change() {
            machine.remark(change, now);
        }
        if has_work && desk.has_call(now) {
            if self.is_running() {
                traded.bell = Some(Arc::clone(&self.bell));
            } else {
                traded.wants_agent = true;
            }
        }
        traded
    }

    fn is_settled(&self) -> bool {
        lock(&self.desk).has_left()
    }

    fn close(&mut self) {
        lock(&self.desk).close();
        self.bell.notify_one();
    }

    fn agent(&mut self, gate: Weak<Gate>, now: Time) -> Option<client::Agent> {
        let mut desk = lock(&self.desk);
        if self.is_running() {
            return None;
        }
        // An agent may have ended with its runtime, and its calls with it.
        desk.call_again(now);
        if !desk.has_call(now) {
            return None;
        }
        self.is_running.store(true, Ordering::SeqCst);
        let agent = Agent {
            desk: Arc::clone(&self.desk),
            bell: Arc::clone(&self.bell),
            sharing: self.sharing.clone(),
            clock: Clock::new(),
            began: now,
            running: Running(Arc::clone(&self.is_running), gate.clone()),
            gate,
            calls: JoinSet::new(),
            news: JoinSet::new(),
        };
        Some(Box::pin(agent.run()))
    }
}

/// Notes that an agent has ended, perhaps with its runtime: whoever waits may have to start
/// another.
struct Running(Arc<AtomicBool>, Weak<Gate>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
        if let Some(gate) = self.1.upgrade() {
            gate.agent_gone();
        }
    }
}

struct Agent {
    desk: Arc<Mutex<Desk>>,
    bell: Arc<Notify>,
    sharing: Sharing,
    /// Its own clock, for when the gate's is gone.
    clock: Clock,
    began: Time,
    gate: Weak<Gate>,
    calls: JoinSet<(Call, Heard)>,
    /// Ends when somebody may have published.
    news: JoinSet<()>,
    running: Running,
}

impl Agent {
    async fn run(mut self) {
        loop {
            let now = self.now();
            self.make_calls(now);
            let next = {
                let desk = lock(&self.desk);
                if self.calls.is_empty() && desk.is_done() {
                    break;
                }
                desk.next(now)
            };
            let wait = next.since(now).min(SLICE);
            let is_alone = self.gate.strong_count() == 0;
            tokio::select! {
                Some(heard) = self.calls.join_next(), if !self.calls.is_empty() => {
                    if let Ok((call, heard)) = heard {
                        self.hear(call, heard);
                    }
                }
                Some(_) = self.news.join_next(), if !self.news.is_empty() => {
                    lock(&self.desk).on_news();
                }
                () = self.bell.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
            if is_alone {
                // The limiter is gone, and with it all who waited.
                lock(&self.desk).close();
                if self.calls.is_empty() && lock(&self.desk).has_left() {
                    break;
                }
            }
        }
        drop(self.running);
    }

    fn now(&self) -> Time {
        match self.gate.upgrade() {
            Some(gate) => gate.now(),
            None => self.began + self.clock.now().since(Time::START),
        }
    }

    fn make_calls(&mut self, now: Time) {
        if self.news.is_empty() {
            let (store, scope) = (Arc::clone(&self.sharing.store), self.sharing.scope.clone());
            self.news.spawn(async move { store.news(&scope).await });
        }
        let mut desk = lock(&self.desk);
        while let Some(call) = desk.poll_call(now) {
            let (store, scope) = (Arc::clone(&self.sharing.store), self.sharing.scope.clone());
            self.calls.spawn(call.make(store, scope));
        }
    }

    fn hear(&self, call: Call, heard: Heard) {
        let now = self.now();
        lock(&self.desk).on_heard(call, heard, now);
        if let Some(gate) = self.gate.upgrade() {
            gate.tick();
        }
    }
}

fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest sleep, as the driver's: a suspended machine is noticed this soon after it wakes.
const SLICE: Duration = Duration::from_secs(30);
