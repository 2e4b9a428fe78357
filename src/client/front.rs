//! What a limiter knows of the requests that come to it: for which hosts it is, what they ask for,
//! and what it has told about them already.

#[cfg(feature = "reqwest")]
use std::fmt;
#[cfg(feature = "reqwest")]
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "reqwest")]
use reqwest::Request;

use crate::error::Error;
use crate::feedback::Profile;
#[cfg(feature = "reqwest")]
use crate::scheduler::events::Ask;
use crate::scheduler::events::What;

use super::limiter::Limiter;
#[cfg(feature = "reqwest")]
use super::places::Places;
use super::scope::{Scope, There};

/// The request's side of one limiter.
#[derive(Debug)]
pub(super) struct Front {
    /// Tells limiters apart; never used again.
    id: u64,
    scope: Scope,
    #[cfg(feature = "reqwest")]
    ask_with: Option<AskWith>,
    #[cfg(feature = "reqwest")]
    pub(super) places: Places,
    pub(super) has_keys: AtomicBool,
    told_passed_by: Mutex<Vec<Box<str>>>,
    told_retried_outside: AtomicBool,
}

/// The application's hook that says what a request asks for.
#[cfg(feature = "reqwest")]
pub(super) struct AskWith(pub(super) Box<dyn Fn(&Request) -> Ask + Send + Sync>);

impl Front {
    pub(super) fn new(
        hosts: &[String],
        profile: Option<Profile>,
        #[cfg(feature = "reqwest")] ask_with: Option<AskWith>,
        has_keys: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            id: MADE.fetch_add(1, Ordering::Relaxed),
            scope: Scope::new(hosts, profile)?,
            #[cfg(feature = "reqwest")]
            ask_with,
            #[cfg(feature = "reqwest")]
            places: Places::default(),
            has_keys: AtomicBool::new(has_keys),
            told_passed_by: Mutex::default(),
            told_retried_outside: AtomicBool::new(false),
        })
    }
}

impl Limiter {
    pub(super) fn id(&self) -> u64 {
        self.front().id
    }

    /// What is known about the vendor of what goes there, if the limiter is for it.
    pub(super) fn admits<'a>(&self, there: impl Into<There<'a>>) -> Option<Profile> {
        let (front, there) = (self.front(), there.into());
        let has_keys = front.has_keys.load(Ordering::Relaxed);
        let admits = front.scope.admits(&there, has_keys);
        if admits.is_none() {
            self.on_passed_by(&there.host);
        }
        admits
    }

    fn on_passed_by(&self, host: &str) {
        let mut told = {
            let told = self.front().told_passed_by.lock();
            told.unwrap_or_else(PoisonError::into_inner)
        };
        if told.len() < MOST_TOLD && !told.iter().any(|known| **known == *host) {
            told.push(host.into());
            drop(told);
            self.gate().remark(What::PassedBy { host: host.into() });
        }
    }

    /// What the application's hook says that a request asks for.
    #[cfg(feature = "reqwest")]
    pub(super) fn hooked_ask(&self, request: &Request) -> Ask {
        let Some(AskWith(hook)) = &self.front().ask_with else {
            return Ask::new();
        };
        // The hook gets a reference and gives a value: a panic leaves nothing half done.
        panic::catch_unwind(AssertUnwindSafe(|| hook(request))).unwrap_or_else(|_| {
            self.gate().remark(What::HookPanicked { hook: "ask_with" });
            Ask::new()
        })
    }

    /// A mark of an earlier walk was found: a retry layer stands outside.
    pub(super) fn on_retried_outside(&self) {
        if !self
            .front()
            .told_retried_outside
            .swap(true, Ordering::Relaxed)
        {
            self.gate().remark(What::RetriedOutside);
        }
    }
}

#[cfg(feature = "reqwest")]
impl fmt::Debug for AskWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskWith")
    }
}

/// Hosts told of that requests went to past the limiter: a crawler has any number.
const MOST_TOLD: usize = 32;
/// Limiters made so far.
static MADE: AtomicU64 = AtomicU64::new(0);
