//! In every scenario the explanation names what really binds: the head goes when the named gate
//! opens, not before, and being asked changes nothing.

use std::collections::BTreeMap;

use paceline::Time;
use paceline::scheduler::events::Reason;
use paceline::sim::{self, Attempt, Client, End, Job, Next, Paceline};

use super::scenarios;

/// Asks its scheduler for an explanation whenever nobody may go, and checks the last one.
struct Explained {
    client: Paceline,
    /// What was said last, and that nothing has happened since but time.
    said: Option<Said>,
    /// How long which reason bound the head, in seconds.
    bound: BTreeMap<String, f64>,
    wrong: Vec<String>,
}

struct Said {
    reason: Reason,
    opens: Option<Time>,
    at: Time,
}

impl Explained {
    fn new(client: Paceline) -> Self {
        Self {
            client,
            said: None,
            bound: BTreeMap::new(),
            wrong: Vec::new(),
        }
    }

    /// Something other than time may have opened a gate.
    fn on_event(&mut self, now: Time) {
        if let Some(said) = self.said.take() {
            let kind = format!("{:?}", said.reason);
            let kind = kind.split('(').next().unwrap_or_default().to_owned();
            *self.bound.entry(kind).or_default() += now.secs_since(said.at);
        }
    }
}

impl Client for Explained {
    fn submit(&mut self, job: &Job, now: Time) {
        self.on_event(now);
        self.client.submit(job, now);
    }

    fn poll_send(&mut self, now: Time) -> Option<Attempt> {
        let attempt = self.client.poll_send(now);
        if attempt.is_some() {
            if let Some(said) = &self.said
                && said.opens.is_none_or(|opens| now < opens)
            {
                self.wrong.push(format!(
                    "sent at {now:?}, though {:?} was to bind from {:?} until {:?}",
                    said.reason, said.at, said.opens
                ));
            }
            self.on_event(now);
            return attempt;
        }
        let explanation = self.client.explain(now);
        let Some(head) = explanation.head() else {
            if explanation.waiting > 0 {
                self.wrong.push(format!("{now:?}: nobody is the head"));
            }
            return None;
        };
        let Some(reason) = head.waits_for else {
            self.wrong
                .push(format!("{now:?}: the head may go and does not"));
            return None;
        };
        let opens = head.opens.map(|opens| now + opens);
        if opens.is_some_and(|opens| opens <= now) {
            self.wrong.push(format!("{now:?}: {reason:?} opens now"));
        }
        self.on_event(now);
        self.said = Some(Said {
            reason,
            opens,
            at: now,
        });
        None
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        self.client.poll_timeout(now)
    }

    fn on_end(&mut self, attempt: Attempt, end: End<'_>, now: Time) -> Next {
        self.on_event(now);
        self.client.on_end(attempt, end, now)
    }

    fn poll_given_up(&mut self, now: Time) -> Option<u32> {
        self.client.poll_given_up(now)
    }
}

/// What binds longest in a scenario, by what its provider limits and tells.
fn binding(name: &str) -> &'static [&'static str] {
    let quotas = [
        "reported",
        "quota",
        "first-reading",
        "limit-of-one",
        "never-answer",
        "revoked-key",
        "sliding-window-",
        "window-may",
        "window-of-a-second",
        "whole-seconds",
        "epoch-seconds",
        "an-edge",
        "small-bucket",
        "outage",
        "errors",
        "connections",
        "whole-bucket",
        "others",
        "requests-and-tokens",
        "sends-of-a-burst",
        "jitter",
        "clock",
        "first-answer",
        "last-requests",
        "a-second-and-a-minute",
        "two-limits",
        "windows-may",
        "windows-of-both",
    ];
    let numbers = [
        "-cap-",
        "on-the-way",
        "crowded",
        "hint-of-zero",
        "late-answers",
        "long-tail",
        "knee",
        "without-any-limit",
    ];
    let is = |kinds: &[&str]| kinds.iter().any(|kind| name.contains(kind));
    match name {
        "a-hint-of-a-minute-is-true" => &["Hint"],
        // It is slow enough for every limit.
        "a-load-below-the-limit-waits-for-nothing" => &["Resume"],
        // Most of its time is the ban's.
        "a-ban-that-is-a-wait-is-met-at-most-once" => &["Hint", "Pace"],
        // A question that is refused at the end of a minute is told to wait for the rest of it.
        "windows-may-be-told-by-their-names" => &["Quota", "Hint"],
        // Two limits at once, of which one is not reported.
        "a-knee-may-lie-below-a-reported-quota" => &["Slots", "Limit", "Quota"],
        "a-cap-and-a-bucket-may-hide-together" => &["Limit", "Pace"],
        "a-cap-may-hide-behind-a-reported-bucket" => &["Limit"],
        "a-burst-of-one-is-kept" => &["Quota"],
        "refusals-may-use-up-quota" | "a-silent-sliding-window-is-found" => &["Pace"],
        _ if is(&quotas) => &["Quota"],
        _ if is(&numbers) => &["Limit"],
        _ => &["Pace"],
    }
}

#[test]
fn every_scenario_is_explained_by_what_binds() {
    let mut wrong = Vec::new();
    for (name, scenario) in scenarios("") {
        let seed = scenario.first_seed;
        let make = |keys, wall, seed| Explained::new(Paceline::new(keys, wall, seed));
        let (run, explained) = sim::run(&scenario, seed, make, None);
        let (plain, _) = sim::run(&scenario, seed, Paceline::new, None);
        if run != plain {
            wrong.push(format!("{name}: being asked changed the run"));
        }
        wrong.extend(
            explained
                .wrong
                .iter()
                .take(3)
                .map(|what| format!("{name}: {what}")),
        );
        let most = explained.bound.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let most = most.map_or("nothing", |(reason, _)| reason);
        let binding = binding(&name);
        if !binding.contains(&most) {
            let bound = &explained.bound;
            wrong.push(format!(
                "{name}: {most} binds longest, not {binding:?}: {bound:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
