//! A controller of the application's own, held so that its panics harm nobody else.
//!
//! It is called in the middle of a decision: a panic let through would leave that half done, in a
//! machine that every other request shares.

use std::panic::{self, AssertUnwindSafe};

use crate::scheduler::events::What;
use crate::scheduler::time::Time;

use super::{Controller, Sample};

/// Calls a controller until it panics; from then on its last limit stands.
#[derive(Debug)]
pub(super) struct Contained {
    controller: Box<dyn Controller>,
    /// What it answered last.
    limit: u32,
    has_panicked: bool,
}

impl Contained {
    pub(super) fn new(controller: Box<dyn Controller>) -> Self {
        let mut contained = Self {
            controller,
            limit: 1,
            has_panicked: false,
        };
        contained.ask();
        contained
    }

    /// Asks for the limit anew.
    fn ask(&mut self) {
        // Nothing of it is used again after a panic.
        let limit = panic::catch_unwind(AssertUnwindSafe(|| self.controller.limit()));
        match limit {
            Ok(limit) => self.limit = limit.max(1),
            Err(_) => self.has_panicked = true,
        }
    }
}

impl Controller for Contained {
    fn on_sample(&mut self, sample: &Sample, now: Time) -> Option<What> {
        if self.has_panicked {
            return None;
        }
        let controller = &mut self.controller;
        let change = panic::catch_unwind(AssertUnwindSafe(|| controller.on_sample(sample, now)));
        match change {
            Ok(change) => {
                self.ask();
                change.or_else(|| self.has_panicked.then_some(PANICKED))
            }
            Err(_) => {
                self.has_panicked = true;
                Some(PANICKED)
            }
        }
    }

    fn limit(&self) -> u32 {
        self.limit
    }
}

const PANICKED: What = What::HookPanicked { hook: "controller" };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::feedback::Feedback;
    use crate::scheduler::Scheduler;
    use crate::scheduler::concurrency::{Concurrency, CustomController};
    use crate::scheduler::events::{Ask, Outcome, Verdict};

    /// Allows three, and panics at the second sample.
    #[derive(Debug, Default)]
    struct Brittle(u32);

    impl Controller for Brittle {
        fn on_sample(&mut self, _: &Sample, _: Time) -> Option<What> {
            self.0 += 1;
            assert!(self.0 < 2, "a bug of the application's");
            None
        }

        fn limit(&self) -> u32 {
            3
        }
    }

    #[test]
    fn a_controller_that_panics_leaves_its_last_limit_and_is_told_once() {
        let settings = Settings {
            concurrency: Concurrency::Custom(CustomController::new(Brittle::default)),
            ..Settings::default()
        };
        let mut scheduler = Scheduler::new(settings, &[], 1).expect("valid settings");
        let now = Time::from_secs_f64(1.0);
        for _ in 0..5 {
            let tickets: Vec<_> = (0..4)
                .map(|_| scheduler.submit(Ask::new(), now).expect("room"))
                .collect();
            let granted = std::iter::from_fn(|| scheduler.poll_grant(now)).count();
            assert_eq!(granted, 3);
            for ticket in tickets {
                let served = Outcome::Answered(Feedback::default());
                let verdict = scheduler.complete(ticket, &served, now);
                assert!(matches!(verdict, Verdict::Return { .. }));
                scheduler.cancel(ticket);
            }
            assert_eq!(scheduler.depth(), (0, 0));
        }
        let told = std::iter::from_fn(|| scheduler.poll_change());
        assert_eq!(told.filter(|change| change.what == PANICKED).count(), 1);
    }
}
