//! Keys that an application's function brings, and brings anew before they expire.
//!
//! Each has one function, which runs once at a time, as a task of its own: whoever waits for what
//! it brings may be dropped. It is called when a request comes and the secret is due; nobody is
//! called for a limiter that has nothing to do. A secret that is still good is used until it is
//! not, whatever becomes of the function meanwhile.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::Time;
use crate::scheduler::Scheduler;
use crate::scheduler::events::{Fingerprint, KeyId, Name};

use super::gate::Gate;
use super::key::ApiKey;

/// What the function of [`LimiterBuilder::renewed_key`](crate::LimiterBuilder::renewed_key)
/// brings: a key, and for how long it is good.
#[derive(Clone, Debug)]
#[must_use]
pub struct Renewed {
    key: ApiKey,
    life: Option<Duration>,
}

impl Renewed {
    /// A key that is good until the server refuses it.
    pub fn new(key: ApiKey) -> Self {
        Self { key, life: None }
    }

    /// It is good for so long, counted from when the function was called (`expires_in` in an
    /// answer of OAuth 2.0). It is renewed after four fifths of that.
    pub fn expires_in(mut self, life: Duration) -> Self {
        self.life = Some(life);
        self
    }
}

/// The keys of a limiter that are renewed. Guarded by the gate's lock.
#[derive(Debug, Default)]
pub(crate) struct Renewals(Vec<Renewal>);

impl Renewals {
    /// Adds a key; the machine learns of it by [`Renewals::fingerprints`].
    pub(super) fn add(&mut self, renewal: Renewal) {
        self.0.push(renewal);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A name that two of them have.
    pub(super) fn double(&self) -> Option<&Name> {
        let before = |n: usize| self.0[..n].iter().map(|earlier| &earlier.name);
        let mut all = self.0.iter().enumerate();
        all.find_map(|(n, renewal)| before(n).find(|&name| *name == renewal.name))
    }

    pub(super) fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        self.0.iter().map(|renewal| renewal.fingerprint)
    }

    /// The secret of one of them as it is now.
    pub(super) fn key(&self, fingerprint: Fingerprint) -> Option<&ApiKey> {
        let renewal = self.0.iter().find(|one| one.fingerprint == fingerprint)?;
        renewal.current.as_ref().map(|(key, _)| key)
    }

    /// Whether the secret of a key is here; that of a key which is not renewed always is.
    pub(super) fn have(&self, fingerprint: Fingerprint) -> bool {
        let renewal = self.0.iter().find(|one| one.fingerprint == fingerprint);
        renewal.is_none_or(|renewal| renewal.current.is_some())
    }

    /// Takes the secrets that have expired out of use.
    pub(super) fn expire(&mut self, machine: &mut Scheduler, now: Time) {
        for renewal in &mut self.0 {
            renewal.expire(machine, now);
        }
    }

    /// The server refuses the key of an attempt that was sent at `sent`.
    pub(super) fn on_fault(&mut self, key: KeyId, sent: Time, machine: &mut Scheduler, now: Time) {
        let fingerprint = machine.fingerprint(key);
        let renewal = self.0.iter_mut().find(|one| one.fingerprint == fingerprint);
        if let Some(renewal) = renewal {
            renewal.on_fault(sent, machine, now);
        }
    }

    /// When the first function is to be called.
    pub(super) fn due(&self) -> Time {
        let due = self.0.iter().map(Renewal::due).min();
        due.unwrap_or(Time::NEVER)
    }

    /// The calls that are due.
    pub(super) fn calls(&mut self, gate: &Weak<Gate>, now: Time) -> Vec<Call> {
        let all = self.0.iter_mut().enumerate();
        all.filter_map(|(index, renewal)| renewal.call(index, gate, now))
            .collect()
    }

    /// A call has ended; none: it was dropped, for its runtime is gone.
    pub(super) fn on_ended(
        &mut self,
        which: Which,
        brought: Option<Result<Renewed, Box<str>>>,
        machine: &mut Scheduler,
        now: Time,
    ) {
        let renewal = &mut self.0[which.index];
        let Some(began) = renewal.running.filter(|_| which.call == renewal.calls) else {
            return;
        };
        renewal.running = None;
        match brought {
            Some(brought) => renewal.on_brought(brought, began, machine, now),
            None => renewal.due = now,
        }
    }

    /// Why there is no secret, and when it is tried again, if there is trouble.
    pub(super) fn trouble(&self) -> Option<(Arc<str>, Time)> {
        let troubled = self.0.iter().filter(|renewal| renewal.current.is_none());
        let mut troubled = troubled.filter_map(|renewal| Some((renewal.why.clone()?, renewal.due)));
        troubled.next()
    }
}

/// One call of one function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Which {
    index: usize,
    call: u64,
}

/// One key that is renewed.
pub(super) struct Renewal {
    name: Name,
    fingerprint: Fingerprint,
    renew: Arc<Renew>,
    /// The secret, and until when it is good.
    current: Option<(ApiKey, Time)>,
    /// When the function is to be called next.
    due: Time,
    /// When the call that is running began. Its number tells it from one that was given up.
    running: Option<Time>,
    calls: u64,
    /// When the secret came.
    came: Time,
    failures: u32,
    /// What the last failure said, if there was no success since.
    why: Option<Arc<str>>,
}

type Renew = dyn Fn() -> Bringing + Send + Sync;
type Bringing = Pin<Box<dyn Future<Output = Result<Renewed, Box<str>>> + Send>>;

/// A call of one of the functions, to be run by somebody.
pub(super) type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Renewal {
    pub(super) fn new<F, E>(name: Name, renew: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Renewed, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let hash: [u8; 32] = Sha256::digest(format!("renewed key {name}")).into();
        let [a, b, c, d, e, f, ..] = hash;
        let renew = move || -> Bringing {
            let brought = renew();
            Box::pin(async move { brought.await.map_err(|error| told(&*error.into())) })
        };
        Self {
            name,
            fingerprint: Fingerprint::from_hash([a, b, c, d, e, f]),
            renew: Arc::new(renew),
            current: None,
            due: Time::START,
            running: None,
            calls: 0,
            came: Time::START,
            failures: 0,
            why: None,
        }
    }

    /// When its function is to be called.
    fn due(&self) -> Time {
        match self.running {
            // Its runtime may not be driven any more.
            Some(since) => since + GIVEN_UP,
            None => self.due,
        }
    }

    fn expire(&mut self, machine: &mut Scheduler, now: Time) {
        if self.current.take_if(|&mut (_, end)| end <= now).is_some() {
            self.due = self.due.min(now);
            machine.await_secret(self.fingerprint);
        }
    }

    /// Unless the secret has just come, a new one may help.
    fn on_fault(&mut self, sent: Time, machine: &mut Scheduler, now: Time) {
        if self.current.is_some() && sent >= self.came && now.since(self.came) >= YOUNG {
            self.current = None;
            self.due = now;
            machine.await_secret(self.fingerprint);
        }
    }

    fn call(&mut self, index: usize, gate: &Weak<Gate>, now: Time) -> Option<Call> {
        if self.due() > now {
            return None;
        }
        self.running = Some(now);
        self.calls += 1;
        let renew = Arc::clone(&self.renew);
        let mut running = Running {
            gate: Weak::clone(gate),
            which: Which {
                index,
                call: self.calls,
            },
            is_over: false,
        };
        Some(Box::pin(async move {
            let brought = tokio::time::timeout(LONGEST, async { renew().await }).await;
            let late = || Err(format!("it took longer than {LONGEST:?}").into());
            running.end(Some(brought.unwrap_or_else(|_| late())));
        }))
    }

    fn on_brought(
        &mut self,
        brought: Result<Renewed, Box<str>>,
        began: Time,
        machine: &mut Scheduler,
        now: Time,
    ) {
        match brought.and_then(Renewed::checked) {
            Ok(Renewed { key, life }) => {
                let (end, due) = match life {
                    Some(life) => (began + life, began + life.mul_f64(RENEWED_AFTER)),
                    None => (Time::NEVER, Time::NEVER),
                };
                self.current = Some((key.known_as(self.fingerprint), end));
                (self.due, self.came) = (due, now);
                (self.failures, self.why) = (0, None);
                machine.on_secret(self.fingerprint, now);
            }
            Err(why) => {
                self.failures += 1;
                let pause = FIRST_PAUSE.saturating_mul(1 << (self.failures - 1).min(16));
                self.due = now + pause.min(LAST_PAUSE);
                let is_missed = self.current.is_none() && self.failures >= TRIES;
                let why = format!("renewing {:?} failed: {why}", self.name.as_str());
                self.why = Some(why.as_str().into());
                machine.on_secret_failed(self.fingerprint, why.into(), is_missed, now);
            }
        }
    }
}

impl Renewed {
    fn checked(self) -> Result<Self, Box<str>> {
        if let Err(error) = self.key.check() {
            return Err(error.to_string().into());
        }
        if self.life.is_some_and(|life| life < SHORTEST) {
            return Err(format!("it is good for {:?} only", self.life.unwrap_or_default()).into());
        }
        Ok(self)
    }
}

/// A call that is running.
struct Running {
    gate: Weak<Gate>,
    which: Which,
    is_over: bool,
}

impl Running {
    fn end(&mut self, brought: Option<Result<Renewed, Box<str>>>) {
        self.is_over = true;
        if let Some(gate) = self.gate.upgrade() {
            gate.renewal_ended(self.which, brought);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let has_panicked = std::thread::panicking();
        self.end(has_panicked.then(|| Err("its function panicked".into())));
    }
}

impl fmt::Debug for Renewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewal")
            .field("name", &self.name)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

/// All that an error says, without what stands in queries: a secret may have been sent there.
fn told(error: &(dyn StdError + 'static)) -> Box<str> {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    let mut shown = String::with_capacity(text.len());
    let mut is_query = false;
    for letter in text.chars() {
        match letter {
            '?' => is_query = true,
            ' ' | ')' | '"' | '\'' | '\n' | '>' => is_query = false,
            _ => {}
        }
        if !is_query {
            shown.push(letter);
        }
    }
    shown.into()
}

/// A secret is renewed after this share of its life: the fifth that is left is time for some
/// failures.
const RENEWED_AFTER: f64 = 0.8;
/// A secret that is good for less than this is worth no call.
const SHORTEST: Duration = Duration::from_secs(1);
/// One that the server refuses so soon after it came is not better the next time.
const YOUNG: Duration = Duration::from_secs(10);
/// A function that has failed is called again after this, then after twice that, …
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// … and at most this.
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// So many failures in a row are told to those who wait.
const TRIES: u32 = 3;
/// The longest that one call may take.
const LONGEST: Duration = Duration::from_secs(30);
/// A call that is not over by then is not driven any more.
const GIVEN_UP: Duration = Duration::from_secs(35);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_says_is_told_without_queries() {
        let inner = std::io::Error::other("refused (http://a.test/t?secret=1&b=2) by peer");
        let error = std::io::Error::other(inner);
        assert_eq!(&*told(&error), "refused (http://a.test/t) by peer");
    }
}
