//! A limiter for each host, made when it is first needed and forgotten when it is idle.

use std::collections::HashMap;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Error as ChainError, Middleware, Next, Result};

use crate::Time;
use crate::error::Error;
use crate::scheduler::events::What;

use super::builder::LimiterBuilder;
use super::clock::Clock;
use super::limiter::Limiter;
#[cfg(feature = "metrics")]
use super::telemetry::Labels;

/// One [`Limiter`] for each host: the whole configuration of a program that calls many APIs.
///
/// ```
/// # fn build() -> Result<reqwest_middleware::ClientWithMiddleware, Box<dyn std::error::Error>> {
/// let client = reqwest_middleware::ClientBuilder::new(paceline::http_client().build()?)
///     .with(paceline::Limiters::by_host())
///     .build();
/// # Ok(client) }
/// ```
///
/// Each knows its vendor by the host. Of the idle ones 1,024 are kept, and each for an hour; one
/// that has work, or a word given to a server, is not idle.
#[derive(Clone)]
pub struct Limiters(Arc<Hosts>);

struct Hosts {
    build: Box<Build>,
    clock: Clock,
    #[cfg(feature = "metrics")]
    labels: Arc<Labels>,
    known: Mutex<Known>,
    /// For those that are made from now on.
    closed: AtomicBool,
}

type Build = dyn Fn(&str) -> LimiterBuilder + Send + Sync;

#[derive(Default)]
struct Known {
    limiters: HashMap<Box<str>, Used>,
    /// When those that are idle for too long were last looked for.
    swept: Time,
}

struct Used {
    limiter: Limiter,
    last: Time,
}

impl Limiters {
    /// Limiters that learn everything.
    #[must_use]
    pub fn by_host() -> Self {
        Self::by_host_with(|_| Limiter::builder())
    }

    /// Limiters that are set up by their host (with its port, where that is not the scheme's own).
    /// If `build` panics the host gets a limiter that learns everything, and a change of it says
    /// so.
    #[must_use]
    pub fn by_host_with(build: impl Fn(&str) -> LimiterBuilder + Send + Sync + 'static) -> Self {
        Self(Arc::new(Hosts {
            build: Box::new(build),
            clock: Clock::new(),
            #[cfg(feature = "metrics")]
            labels: Arc::default(),
            known: Mutex::default(),
            closed: AtomicBool::new(false),
        }))
    }

    /// The limiter of a URL's host.
    ///
    /// # Errors
    ///
    /// If what [`Limiters::by_host_with`] was given sets it up wrongly.
    pub fn of(&self, url: &Url) -> std::result::Result<Limiter, Error> {
        let now = self.0.clock.now();
        let host = url.authority();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = known.limiters.get_mut(host) {
            used.last = now;
            return Ok(used.limiter.clone());
        }
        known.make_room(now);
        let limiter = self.build(host)?;
        if self.0.closed.load(Ordering::SeqCst) {
            limiter.close_now();
        }
        let used = Used {
            limiter: limiter.clone(),
            last: now,
        };
        known.limiters.insert(host.into(), used);
        Ok(limiter)
    }

    /// The hosts that have a limiter now, and it, in the order of their names: to look at each
    /// ([`Limiter::explain`], [`Limiter::changes`], [`Limiter::snapshot`]) or to change it.
    #[must_use]
    pub fn known(&self) -> Vec<(Box<str>, Limiter)> {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let limiters = known.limiters.iter();
        let mut all: Vec<_> = limiters
            .map(|(host, used)| (host.clone(), used.limiter.clone()))
            .collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// [`Limiter::close`] for all of them, and for the host of every later request.
    pub async fn close(&self) {
        self.close_now();
        for (_, limiter) in self.known() {
            limiter.close().await;
        }
    }

    /// [`Limiter::close_now`] for all of them, and for the host of every later request.
    pub fn close_now(&self) {
        // Before the known ones are looked at, so that none slips in between.
        self.0.closed.store(true, Ordering::SeqCst);
        for (_, limiter) in self.known() {
            limiter.close_now();
        }
    }

    fn build(&self, host: &str) -> std::result::Result<Limiter, Error> {
        match panic::catch_unwind(AssertUnwindSafe(|| (self.0.build)(host))) {
            Ok(builder) => {
                let builder = builder.named(host);
                #[cfg(feature = "metrics")]
                let builder = builder.labelled(&self.0.labels);
                builder.build()
            }
            Err(_) => {
                let limiter = Limiter::new();
                let hook = "by_host_with";
                limiter.gate().remark(What::HookPanicked { hook });
                Ok(limiter)
            }
        }
    }
}

impl Known {
    /// Forgets who has been idle for too long, and the longest idle where there are too many.
    fn make_room(&mut self, now: Time) {
        if now.since(self.swept) >= SWEEP {
            self.swept = now;
            let fresh = |used: &Used| now.since(used.last) < IDLE_FOR;
            self.limiters
                .retain(|_, used| fresh(used) || !used.limiter.gate().is_idle());
        }
        if self.limiters.len() < IDLE {
            return;
        }
        let idle = self.limiters.iter();
        let mut idle: Vec<_> = idle
            .filter(|(_, used)| used.limiter.gate().is_idle())
            .map(|(host, used)| (used.last, host.clone()))
            .collect();
        // Some at a time, so that not every new host has to look through all of them.
        let most = IDLE - IDLE / 8;
        if idle.len() >= IDLE {
            idle.sort_unstable();
            for (_, host) in &idle[..idle.len() - most] {
                self.limiters.remove(host);
            }
        }
    }
}

#[async_trait]
impl Middleware for Limiters {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let limiter = self.of(request.url()).map_err(ChainError::middleware)?;
        limiter.handle(request, extensions, next).await
    }
}

impl fmt::Debug for Limiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Limiters")
            .field("hosts", &known.limiters.len())
            .finish_non_exhaustive()
    }
}

/// Idle limiters kept: a crawler of a million hosts must not keep a million limiters.
const IDLE: usize = 1024;
/// How long an idle one is kept: what it has learned is stale by then.
const IDLE_FOR: Duration = Duration::from_secs(3600);
/// How often those are looked for.
const SWEEP: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("a URL")
    }

    #[test]
    fn a_host_and_port_has_one_limiter_whatever_the_path() {
        let limiters = Limiters::by_host();
        let of = |text| limiters.of(&url(text)).expect("the defaults are valid");
        assert!(of("https://a.test/x").is_same(&of("https://me@A.test:443/y?z")));
        assert!(!of("https://a.test/").is_same(&of("https://a.test:8443/")));
        assert!(!of("https://a.test/").is_same(&of("https://b.test/")));
    }

    #[test]
    fn idle_limiters_are_bounded_and_busy_ones_stay() {
        let limiters = Limiters::by_host();
        let busy = limiters.of(&url("https://busy.test/")).expect("valid");
        let permit = busy.try_acquire(crate::Ask::new()).expect("nobody refuses");
        for n in 0..5_000 {
            limiters
                .of(&url(&format!("https://{n}.test/")))
                .expect("valid");
        }
        assert!(busy.is_same(&limiters.of(&url("https://busy.test/")).expect("valid")));
        let known = limiters.0.known.lock().expect("no panic");
        assert!(known.limiters.len() <= IDLE + 1, "{}", known.limiters.len());
        assert!(known.limiters.contains_key("4999.test"));
        drop((known, permit));
    }

    #[test]
    fn a_set_up_that_panics_or_is_wrong_harms_its_host_only() {
        let limiters = Limiters::by_host_with(|host| match host {
            "panic.test" => panic!("a bug"),
            "wrong.test" => Limiter::builder().queue(0),
            _ => Limiter::builder().ceiling("1/1h").max_wait(None),
        });
        let limiter = limiters.of(&url("https://panic.test/")).expect("a default");
        let told = limiter.changes().try_next().expect("it is told");
        assert!(matches!(told.what, What::HookPanicked { .. }));
        let error = limiters.of(&url("https://wrong.test/")).expect_err("0");
        assert!(error.to_string().contains("queue"), "{error}");
        let limited = limiters.of(&url("https://a.test/")).expect("valid");
        drop(limited.try_acquire(crate::Ask::new()).expect("valid"));
        assert!(
            limited
                .try_acquire(crate::Ask::new())
                .expect("valid")
                .is_none()
        );
    }
}
