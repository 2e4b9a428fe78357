//! The provider behind a lock, and what turns callers into its keys.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

use paceline::Time;
use paceline::client::Clock;
use paceline::sim::{Provider, Reply, Request, Scenario};

use super::audit::Audit;

/// A provider that real requests are made to.
pub(super) struct Practice {
    clock: Clock,
    desk: Mutex<Desk>,
    audit: Option<Audit>,
}

struct Desk {
    provider: Provider,
    /// Credentials in the order in which they first came.
    callers: HashMap<String, usize>,
}

/// A request that the provider has decided on. Dropped, it is no longer in flight: also when its
/// caller hangs up, for the work was begun and a real server would have counted it.
pub(super) struct Visit<'a> {
    practice: &'a Practice,
    request: Request,
    pub(super) reply: Reply,
}

impl Practice {
    /// The provider of a scenario, not used yet.
    pub(super) fn new(scenario: &Scenario, seed: u64, log: Option<&Path>) -> Result<Self, String> {
        let clock = Clock::new();
        // A clock before 1970 is as good as any for practice.
        let wall = clock
            .wall()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let keys = scenario.load.keys;
        let provider = Provider::new(&scenario.provider, keys, wall.as_secs_f64(), seed);
        Ok(Self {
            clock,
            desk: Mutex::new(Desk {
                provider,
                callers: HashMap::new(),
            }),
            audit: log.map(Audit::create).transpose()?,
        })
    }

    /// Decides on a request.
    pub(super) fn decide(&self, credential: &str, id: &str, number: u64, tokens: f64) -> Visit<'_> {
        let now = self.clock.now();
        let (request, reply) = self.desk().decide(credential, number, tokens, now);
        if let Some(audit) = &self.audit {
            audit.note(request.key, id, reply.status, now);
        }
        Visit {
            practice: self,
            request,
            reply,
        }
    }

    /// How many requests were refused.
    pub(super) fn refused(&self) -> u64 {
        self.desk().provider.counts().total().refused
    }

    /// The counts as JSON.
    pub(super) fn stats(&self) -> String {
        let desk = self.desk();
        let counts = desk.provider.counts();
        let total = counts.total();
        let seconds = match (total.first, total.last) {
            (Some(first), Some(last)) => last.secs_since(first),
            _ => 0.0,
        };
        serde_json::json!({
            "seconds": seconds,
            "in_flight": desk.provider.in_flight(),
            "total": total,
            "keys": counts.keys(),
        })
        .to_string()
    }

    /// Prints the counts for a person.
    pub(super) fn print_summary(&self) {
        let desk = self.desk();
        let counts = desk.provider.counts();
        let total = counts.total();
        eprintln!(
            "{} served ({} of them again), {} refused, {} failed, {} unauthorized, {} banned, \
             {} unanswered; at most {} in flight",
            total.served,
            total.twice,
            total.refused,
            total.errors,
            total.unauthorized,
            total.banned,
            total.unanswered,
            total.max_in_flight
        );
        for (index, key) in counts.keys().iter().enumerate() {
            let refused: u64 = key.refused_by.iter().sum();
            eprintln!(
                "  key {index}: {} served, {refused} refused, at most {} in flight",
                key.served, key.max_in_flight
            );
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk
            .lock()
            .expect("nothing panics while it holds the provider")
    }
}

impl Desk {
    fn decide(
        &mut self,
        credential: &str,
        number: u64,
        tokens: f64,
        now: Time,
    ) -> (Request, Reply) {
        let key = match self.callers.get(credential) {
            Some(&key) => key,
            None => self.welcome(credential),
        };
        let request = Request {
            id: number,
            key,
            tokens,
        };
        (request, self.provider.arrive(request, now))
    }

    /// Beyond the scenario's keys no caller is remembered: the provider answers 401 to all of them.
    fn welcome(&mut self, credential: &str) -> usize {
        let key = self.callers.len();
        if key < self.provider.counts().keys().len() {
            self.callers.insert(credential.to_owned(), key);
        }
        key
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if self.reply.admitted {
            let now = self.practice.clock.now();
            let served = self.reply.status == 200;
            self.practice
                .desk()
                .provider
                .finish(self.request, served, now);
        }
    }
}
