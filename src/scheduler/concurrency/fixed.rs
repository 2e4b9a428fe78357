//! A number in flight that never changes: for those who know it, and to compare with.

use crate::scheduler::events::What;
use crate::scheduler::time::Time;

use super::{Controller, Sample};

/// Settings of the fixed limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct FixedSettings {
    /// In flight per key. At least 1. Default 10.
    pub limit: u32,
}

impl Default for FixedSettings {
    fn default() -> Self {
        // As promptfoo's start, so that the two compare.
        Self { limit: 10 }
    }
}

/// The fixed limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed {
    limit: u32,
}

impl Fixed {
    pub(crate) fn new(settings: FixedSettings) -> Self {
        Self {
            limit: settings.limit.max(1),
        }
    }
}

impl Controller for Fixed {
    fn on_sample(&mut self, _: &Sample, _: Time) -> Option<What> {
        None
    }

    fn limit(&self) -> u32 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_it_and_it_is_at_least_one() {
        let mut fixed = Fixed::new(FixedSettings { limit: 0 });
        assert!(
            fixed
                .on_sample(&Sample::served(Time::START, 1.0), Time::START)
                .is_none()
        );
        assert_eq!(fixed.limit(), 1);
    }
}
