//! A Valkey or Redis server (6.2 or newer) as the store: one script a decision, on the server's
//! clock.
//!
//! Everything lies under keys that begin with `paceline:{scope}:`, in one hash slot, and each key
//! has an end. A user of its own needs no more than [`LEAST_PRIVILEGES`].

mod link;
mod script;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, UNIX_EPOCH};

use crate::client::Clock;

use super::store::{
    Alive, Answer, Beat, Claim, Epoch, FACTS_AT_ONCE, Fact, Heard, Known, Lent, MOST_FACTS, OpId,
    Owner, Refund, Release, Scope, Slot, Standing, Store, StoreError, Take, Taken, micros,
    remembered,
};
use link::Link;
use script::{BEAT, Call, FACTS, LEND, PUBLISH, REFUND, RELEASE, TAKE};

/// The rule of an access list that suffices, for `ACL SETUSER name on >password …`. With `+info`
/// beside it paceline can tell when the server may evict its keys. `ping` and `cluster|slots` are
/// for a cluster; without `client|setinfo` it works too, but each connection stands in the server's
/// list of what it denied.
pub const LEAST_PRIVILEGES: &str = "resetchannels ~paceline:* &paceline:* -@all +eval +evalsha +time +hget +hset \
     +hmget +hgetall +hdel +hsetnx +hincrby +zadd +zrem +zcard +zscore +zcount +zrangebyscore \
     +zremrangebyscore +pexpire +pttl +publish +subscribe +ping +cluster|slots +client|setinfo";

/// Shares limits through a Valkey or Redis server.
///
/// It connects at the first call, and again whenever the connection is lost. Clones of it are not
/// needed: keep it in an `Arc`.
pub struct RedisStore {
    link: Link,
    told: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl RedisStore {
    /// A store at this URL, `redis://[user:password@]host[:port][/db]`.
    ///
    /// # Errors
    ///
    /// If the URL cannot be understood. Nothing is connected yet.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        Self::with_timeout(url, COMMAND_TIMEOUT)
    }

    /// The same, with the longest time that a command may take, 250 ms by default.
    ///
    /// # Errors
    ///
    /// If the URL cannot be understood.
    pub fn with_timeout(url: &str, timeout: Duration) -> Result<Self, StoreError> {
        let clock = Clock::new();
        Ok(Self {
            link: Link::open(url, timeout)?,
            told: Box::new(move || {
                let wall = clock.wall().duration_since(UNIX_EPOCH);
                micros(wall.unwrap_or_default())
            }),
        })
    }

    /// Tells a server that forbids `TIME` this clock, in microseconds since the Unix epoch,
    /// instead of the wall clock. Of all clocks told the latest counts.
    #[must_use]
    pub fn told(mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.told = Box::new(clock);
        self
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn take<'a>(&'a self, scope: &'a Scope, take: &'a Take) -> Answer<'a, Taken> {
        let longest = remembered(&take.limits);
        let mut call = Call::new(&TAKE, scope, take.epoch.as_ref(), longest, (self.told)());
        call.limits(&take.limits).record(take.op, &take.limits);
        call.flag(take.is_sent).number(take.runs.len() as u64);
        for run in &take.runs {
            call.number(run.count.into());
            run.costs.iter().for_each(|&cost| {
                call.number(cost);
            });
        }
        Box::pin(async {
            let (granted, wait, is_lost, age, standing): (u32, u64, bool, u64, Told) =
                self.link.call(call).await?;
            Ok(Taken {
                granted,
                wait: (wait > 0).then(|| Duration::from_micros(wait)),
                is_lost,
                age: Duration::from_micros(age),
                standing: standing.into(),
            })
        })
    }

    fn refund<'a>(&'a self, scope: &'a Scope, refund: &'a Refund) -> Answer<'a, Standing> {
        let longest = remembered(&refund.limits);
        let mut call = Call::new(
            &REFUND,
            scope,
            refund.epoch.as_ref(),
            longest,
            (self.told)(),
        );
        call.limits(&refund.limits)
            .record(refund.op, &refund.limits);
        call.number(refund.items.len() as u64);
        for (item, costs) in &refund.items {
            call.number((*item).into());
            costs.iter().for_each(|&cost| {
                call.number(cost);
            });
        }
        Box::pin(async { Ok(self.link.call::<Told>(call).await?.into()) })
    }

    fn beat<'a>(&'a self, scope: &'a Scope, beat: &'a Beat) -> Answer<'a, Alive> {
        let longest = remembered(&beat.limits);
        let mut call = Call::new(&BEAT, scope, beat.epoch.as_ref(), longest, (self.told)());
        call.limits(&beat.limits).key(format_args!("alive"));
        call.owner(beat.owner).number(micros(beat.lasts));
        call.slots(&beat.slots);
        Box::pin(async {
            let (owners, gone, standing): (u32, Vec<String>, Told) = self.link.call(call).await?;
            let gone = gone.iter().map(|name| parse_slot(name));
            Ok(Alive {
                owners,
                gone: gone.collect::<Option<_>>().ok_or_else(garbled)?,
                standing: standing.into(),
            })
        })
    }

    fn release<'a>(&'a self, scope: &'a Scope, release: &'a Release) -> Answer<'a, Standing> {
        let longest = remembered(&release.limits);
        let mut call = Call::new(&RELEASE, scope, None, longest, (self.told)());
        call.limits(&release.limits).slots(&release.slots);
        Box::pin(async { Ok(self.link.call::<Told>(call).await?.into()) })
    }

    fn lend<'a>(&'a self, scope: &'a Scope, claim: &'a Claim) -> Answer<'a, Lent> {
        let lease = micros(claim.lease);
        let longest = lease.max(micros(claim.limit.window));
        let mut call = Call::new(&LEND, scope, claim.epoch.as_ref(), longest, (self.told)());
        let window = micros(claim.limit.window);
        call.key(format_args!("lent:{window}:{}", claim.limit.name))
            .owner(claim.owner)
            .number(claim.want)
            .number(claim.has)
            .number(claim.limit.amount)
            .number(lease)
            .number(micros(claim.owes))
            .flag(claim.is_last);
        Box::pin(async {
            let (share, owners, is_short, standing): (u64, u32, bool, Told) =
                self.link.call(call).await?;
            Ok(Lent {
                share,
                lasts: claim.lease,
                owners,
                is_short,
                standing: standing.into(),
            })
        })
    }

    fn publish<'a>(&'a self, scope: &'a Scope, fact: &'a Fact) -> Answer<'a, bool> {
        let mut call = Call::new(&PUBLISH, scope, None, micros(fact.lasts), (self.told)());
        call.facts()
            .key(format_args!("facts:ends"))
            .channel()
            .word(&fact.subject)
            .word(&fact.value)
            .number(micros(fact.age))
            .number(micros(fact.lasts))
            .flag(fact.extends)
            .number(MOST_FACTS as u64);
        Box::pin(async { self.link.call(call).await })
    }

    fn facts<'a>(&'a self, scope: &'a Scope, since: u64) -> Answer<'a, Heard> {
        let mut call = Call::reading(&FACTS, scope, (self.told)());
        call.facts().number(since).number(FACTS_AT_ONCE as u64);
        Box::pin(async {
            let fields: Vec<String> = self.link.call(call).await?;
            let [now, version, facts @ ..] = &fields[..] else {
                return Err(garbled());
            };
            let now = now.parse().map_err(|_| garbled())?;
            let facts = facts.chunks(4).map(|fact| parse_fact(fact, now));
            Ok(Heard {
                facts: facts.collect::<Result<_, _>>()?,
                version: version.parse().map_err(|_| garbled())?,
            })
        })
    }

    fn news<'a>(&'a self, scope: &'a Scope) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {
            let channel = Call::reading(&FACTS, scope, 0).channel_name();
            self.link.news(&channel).await;
        })
    }

    fn risk(&self) -> Answer<'_, Option<String>> {
        Box::pin(async {
            // Who may not ask is not told.
            let info = self.link.ask("INFO", "memory").await.unwrap_or_default();
            Ok(eviction(&info))
        })
    }
}

/// Why a server may forget keys that have not ended, by what it says of its memory. Everything
/// kept here has an end, so every policy but one can reach it.
fn eviction(info: &str) -> Option<String> {
    let field = |name: &str| {
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    let (most, policy) = (field("maxmemory")?, field("maxmemory_policy")?);
    (most != "0" && policy != "noeviction").then(|| {
        format!(
            "the store evicts keys when it has {most} bytes (maxmemory-policy {policy}), and with \
             them what was sent: give paceline a store with maxmemory-policy noeviction"
        )
    })
}

/// A standing as the scripts tell it.
type Told = (u64, String, u64, bool, u64, u64);

impl From<Told> for Standing {
    fn from((now, id, sequence, is_lost, born, facts): Told) -> Self {
        Self {
            now,
            epoch: Epoch { id, sequence },
            is_lost,
            born,
            facts,
        }
    }
}

fn parse_slot(name: &str) -> Option<Slot> {
    let (op, item) = name.rsplit_once(':')?;
    let (owner, number) = op.split_once('-')?;
    let owner = Owner::new(u64::from_str_radix(owner, 16).ok()?);
    let number = u64::from_str_radix(number, 16).ok()?;
    Some(Slot {
        op: OpId { owner, number },
        item: item.parse().ok()?,
    })
}

fn parse_fact(fields: &[String], now: i64) -> Result<Known, StoreError> {
    let [subject, value, observed, ends] = fields else {
        return Err(garbled());
    };
    let since = |from: i64, to: i64| Duration::from_micros(to.saturating_sub(from).max(0) as u64);
    Ok(Known {
        subject: subject.clone(),
        value: value.clone(),
        age: since(observed.parse().map_err(|_| garbled())?, now),
        lasts: since(now, ends.parse().map_err(|_| garbled())?),
    })
}

fn garbled() -> StoreError {
    StoreError::refused("the store answered with something that paceline did not write")
}

/// A local server answers in well under a millisecond, one in the same region in a few; whoever
/// takes longer would be the slowest part of every request.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(250);
