//! What a refusal costs the key, and whom a hint stops: the settings.

use std::time::Duration;

/// What a refusal without a hint costs the key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case", deny_unknown_fields)
)]
#[non_exhaustive]
pub enum Penalty {
    /// Only what the server's hint says; without one the pace alone is cut. The default.
    #[default]
    Hint,
    /// So long for each refusal in a row, or the hint if that is longer.
    Streak {
        /// Per refusal in a row. The Rakuten system uses 3 s.
        #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
        each: Duration,
        /// At most. The Rakuten system's 60 s.
        #[cfg_attr(feature = "serde", serde(with = "crate::config::duration"))]
        most: Duration,
    },
}

impl Penalty {
    /// 3 s for each refusal in a row, at most 60 s: the Rakuten Travel system's key manager.
    #[must_use]
    pub const fn streak() -> Self {
        Self::Streak {
            each: Duration::from_secs(3),
            most: Duration::from_secs(60),
        }
    }
}

/// Whom a whole-second hint stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum HintScope {
    /// The key, except for a single whole-second `1` between successes: that is any wait up to a
    /// second rounded up, so only the refused request waits and the key is paced. The default.
    #[default]
    Auto,
    /// The key.
    Key,
    /// The refused request.
    Request,
}
