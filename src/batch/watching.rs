//! A run looks around now and then: what its limiters have decided, what holds requests up, whether
//! anything can still come of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Time;
use crate::scheduler::events::What;

use super::board::Board;
use super::counted::counted;
use super::holdup::HoldUp;
use super::hosts::Client;
use super::progress::Status;
use super::run::{Run, Stop};

impl Run<'_> {
    pub(super) fn look(&mut self) {
        let now = self.clock.now();
        if self
            .keeper
            .as_ref()
            .is_some_and(|keeper| keeper.is_due(now))
        {
            self.keep_state();
        }
        let Some(sender) = &self.sender else { return };
        let clients = sender.hosts.all();
        if let (Some(news), false) = (sender.oversized.get(), self.told_of_size) {
            self.told_of_size = true;
            self.progress.note(news);
        }
        self.hear();
        self.look_at_crowd(&clients);
        let mut waits_for = None;
        for client in &clients {
            waits_for = waits_for.or_else(|| client.limiter.waits_for());
            for news in client.outage.news(now) {
                self.progress.note(&news);
            }
            if !client.outage.lasts(now).is_zero() {
                return self.tally.on_wait("a provider that is away".to_owned());
            }
        }
        let (flying, waiting) = (self.door.flying(), self.door.waiting());
        let reason = match self.door.is_full() && waiting == 0 {
            true => "the memory that lines in flight take".to_owned(),
            false => self.board.named(waits_for, flying, waiting),
        };
        self.tally.on_wait(reason);
        if flying == 0 && waiting > 0 && self.stop.is_none() && self.holdup.is_due(now) {
            self.look_at_holdup(&clients);
        }
    }

    /// Hears what was decided about keys and quotas since.
    pub(super) fn hear(&mut self) {
        for client in self.sender.iter().flat_map(|sender| sender.hosts.all()) {
            let mut retired = Vec::new();
            client.changes(|change| {
                self.board.on_change(change, client.began);
                if let (What::Retired(_), Some(key)) = (&change.what, change.key) {
                    retired.push(key);
                }
                if let Some(news) = Board::news(&change.what) {
                    self.progress.note(&news);
                }
            });
            for (key, times, left_out) in client.forbidden.outdone() {
                if self.board.on_outdone(key, times, left_out) {
                    retired.push(key);
                }
            }
            for key in retired.into_iter().filter(|_| client.has_others()) {
                let name = self.options.key_names.get(&key);
                let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
                let why = self.board.key(key).fault().unwrap_or_default();
                self.progress.note(&format!(
                    "key {key}{name} is left out: {why}; the others do its requests"
                ));
            }
        }
    }

    /// Whether one provider's lines take all the room of what waits, while another one, that has
    /// served, has nothing to do.
    fn look_at_crowd(&mut self, clients: &[Arc<Client>]) {
        if self.told_of_crowd || clients.len() < 2 || self.door.has_room() {
            return;
        }
        let crowded = clients
            .iter()
            .max_by_key(|client| client.limiter.depth().0)
            .expect("there are two");
        let is_idle = |client: &&Arc<Client>| {
            client.limiter.depth() == (0, 0) && client.outage.has_served_since(Time::START)
        };
        let Some(idle) = clients.iter().find(is_idle) else {
            return;
        };
        self.told_of_crowd = true;
        let waiting = counted(crowded.limiter.depth().0 as u64, "[line waits|lines wait]");
        self.progress.note(&format!(
            "{waiting} for {}, and no line behind them is begun, not those for {} either: an input \
             for each provider, run side by side, keeps them apart",
            crowded.name, idle.name
        ));
    }

    /// Nothing is on the wire though lines wait: says so where it will last, and stops where nothing
    /// is to be waited for.
    fn look_at_holdup(&mut self, clients: &[Arc<Client>]) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut all_broke = true;
        for client in clients {
            let why = client.limiter.explain();
            all_broke &= HoldUp::is_broke(&why);
            if let Some(news) = self.holdup.news(&client.name, &why, now, wall) {
                self.progress.note(&news);
            }
        }
        if all_broke && !self.options.keep_going {
            self.stop(Stop::Hopeless(HoldUp::broke(
                clients.iter().any(|client| client.has_keys()),
            )));
        }
    }

    pub(super) fn show(&mut self) {
        let now = self.clock.now();
        let away = self.sender.as_ref().and_then(|sender| {
            let all = sender.hosts.all();
            let lasting = all.iter().map(|client| (client.outage.lasts(now), client));
            let (time, client) = lasting.max_by_key(|(time, _)| *time)?;
            (!time.is_zero()).then(|| (client.name.clone(), time))
        });
        let mut classes = BTreeMap::new();
        for client in self.sender.iter().flat_map(|sender| sender.hosts.all()) {
            for class in client.limiter.explain().classes {
                *classes.entry(class.priority.0).or_default() += class.waiting;
            }
        }
        let status = Status {
            classes: classes.into_iter().rev().collect(),
            tally: &self.tally,
            board: &self.board,
            names: &self.options.key_names,
            flying: self.door.flying(),
            waiting: self.door.waiting(),
            away,
        };
        self.progress.show(&status, now);
    }
}
