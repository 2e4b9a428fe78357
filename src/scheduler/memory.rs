//! What is worth knowing the next time: a [`Snapshot`] of what a scheduler has learned, and its use
//! by a later one.
//!
//! It holds no secret, only fingerprints of keys, and is bounded whatever it was taken from. It is
//! a stranger's word when it comes back: numbers that make no sense are passed over, keys that are
//! not there any more are too, and what is old is believed less.
//!
//! | what | how it ages |
//! | --- | --- |
//! | a rate and its bounds | the bounds widen and the pace falls by a quarter of the doubt, the lower bound by all of it; the doubt grows from none to whole over seven days, and then it is forgotten |
//! | a number that may be in flight | falls by the doubt, and is forgotten with it |
//! | that the server bans who keeps knocking | not at all for thirty days, then it is forgotten |
//! | that a bucket is refused by itself | not at all for seven days, then it is forgotten |
//! | a park on the server's word, what a ceiling has spent | by the time that passed, exactly |
//!
//! A key's fault is not kept: whoever starts a program again may have mended it, and to find out
//! costs two requests.

use std::time::Duration;

use super::Scheduler;
use super::ceiling::Spent;
use super::events::{Fingerprint, KeyId, Name};
use super::names::Names;
use super::pace::{KeyPaceMemory, PaceMemory};
use super::time::Time;

/// What a scheduler has learned, to be given to a later one.
///
/// Made by [`Scheduler::snapshot`] or `Limiter::snapshot`; with the feature `serde` it can be
/// written and read in any format that knows maps. Another version of it than
/// [`Snapshot::VERSION`] does not read.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Snapshot {
    version: Version,
    /// Seconds since 1970, by the wall clock of whoever took it.
    taken: u64,
    pace: PaceMemory,
    /// The most in flight, over all keys, that was seen to slow nobody down.
    #[cfg_attr(feature = "serde", serde(default))]
    window: Option<f64>,
    /// Under the ceilings of all keys together.
    #[cfg_attr(feature = "serde", serde(default))]
    spent: Vec<Spent>,
    keys: Vec<KeyMemory>,
    /// Buckets that were refused by themselves.
    #[cfg_attr(feature = "serde", serde(default))]
    apart: Vec<ApartMemory>,
}

/// What was learned of a bucket that goes by a rate of its own.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
struct ApartMemory {
    bucket: String,
    pace: PaceMemory,
    #[cfg_attr(feature = "serde", serde(default))]
    keys: Vec<KeyApart>,
}

/// The rate of one key in such a bucket.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
struct KeyApart {
    key: Fingerprint,
    pace: KeyPaceMemory,
}

/// What was learned of one key.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
struct KeyMemory {
    key: Fingerprint,
    #[cfg_attr(feature = "serde", serde(default))]
    pace: Option<KeyPaceMemory>,
    /// The most in flight that the server takes.
    #[cfg_attr(feature = "serde", serde(default))]
    cap: Option<u32>,
    #[cfg_attr(feature = "serde", serde(default))]
    parks: Vec<Park>,
    #[cfg_attr(feature = "serde", serde(default))]
    spent: Vec<Spent>,
}

/// A time for which a key, or a bucket of it, is not used.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
struct Park {
    /// None is the whole key.
    #[cfg_attr(feature = "serde", serde(default))]
    bucket: Option<String>,
    /// In seconds from when it was taken.
    left: f64,
}

/// The form of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Version;

impl Snapshot {
    /// The version that this library writes and reads.
    pub const VERSION: u32 = 1;

    /// When it was taken, in seconds since 1970; 0 if nobody said.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Says when it was taken, in seconds since 1970.
    #[must_use]
    pub fn taken_at(mut self, seconds: u64) -> Self {
        self.taken = seconds;
        self
    }

    /// Whether nothing was learned that a later run could use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
            && self.window.is_none()
            && self.spent.is_empty()
            && self.apart.is_empty()
    }
}

impl Scheduler {
    /// What was learned so far.
    #[must_use]
    pub fn snapshot(&self, now: Time) -> Snapshot {
        let keys = self.keys.ids().take(MOST_KEYS);
        let remembered = |id: KeyId| {
            let memory = KeyMemory {
                key: self.keys.key(id).fingerprint,
                pace: self.control.remember_pace(Names::DEFAULT, id, now),
                cap: self.control.cap(id),
                parks: self.parks(id, now),
                spent: self.key_ceilings[id.index()].remember(now),
            };
            (!memory.is_empty()).then_some(memory)
        };
        Snapshot {
            version: Version,
            taken: 0,
            pace: self.control.remember_paces(Names::DEFAULT),
            window: self.control.verified_window(),
            spent: self.provider_ceilings.remember(now),
            keys: keys.filter_map(remembered).collect(),
            apart: self.remember_apart(now),
        }
    }

    /// Goes on from what another scheduler had learned when `age` less of time had passed. For a
    /// scheduler that was not used yet.
    pub fn restore(&mut self, snapshot: &Snapshot, age: Duration, now: Time) {
        let doubt = Doubt::of(age);
        let known: Vec<_> = snapshot
            .keys
            .iter()
            .filter_map(|memory| Some((self.keys.find(memory.key)?, memory)))
            .collect();
        let paces: Vec<_> = known
            .iter()
            .filter_map(|(key, memory)| Some((*key, memory.pace.as_ref()?)))
            .collect();
        self.control
            .recall_paces(Names::DEFAULT, &snapshot.pace, &paces, doubt, now);
        self.control.recall_window(snapshot.window, doubt);
        self.provider_ceilings.recall(&snapshot.spent, age, now);
        for (key, memory) in known {
            self.control.recall_cap(key, memory.cap, doubt);
            self.key_ceilings[key.index()].recall(&memory.spent, age, now);
            for park in memory.parks.iter().take(MOST_PARKS) {
                let left = Duration::try_from_secs_f64(park.left).unwrap_or_default();
                let bucket = park.bucket.clone().map(Name::from);
                let bucket = bucket.map(|name| self.buckets.id(Some(&name)));
                self.keys.park(key, bucket, left.saturating_sub(age), now);
            }
        }
        let apart = snapshot.apart.iter().take(MOST_APART);
        for memory in apart.filter(|_| !doubt.is_whole()) {
            self.recall_apart(memory, doubt, now);
        }
        self.open_gates();
    }

    fn remember_apart(&self, now: Time) -> Vec<ApartMemory> {
        let buckets = self.control.apart().into_iter().take(MOST_APART);
        let remembered = buckets.filter_map(|bucket| {
            let keys = self.keys.ids().take(MOST_KEYS);
            let of_key = |id| {
                Some(KeyApart {
                    key: self.keys.key(id).fingerprint,
                    pace: self.control.remember_pace(bucket, id, now)?,
                })
            };
            Some(ApartMemory {
                bucket: self.buckets.name(bucket)?.to_string(),
                pace: self.control.remember_paces(bucket),
                keys: keys.filter_map(of_key).collect(),
            })
        });
        remembered.collect()
    }

    fn recall_apart(&mut self, memory: &ApartMemory, doubt: Doubt, now: Time) {
        let bucket = self.buckets.id(Some(&Name::from(memory.bucket.clone())));
        if !self.control.part(bucket, now) {
            return;
        }
        let keys = memory.keys.iter();
        let known = keys.filter_map(|known| Some((self.keys.find(known.key)?, &known.pace)));
        let known: Vec<_> = known.collect();
        self.control
            .recall_paces(bucket, &memory.pace, &known, doubt, now);
    }

    /// The buckets that go by rates of their own.
    #[cfg(feature = "reqwest")]
    pub(crate) fn apart(&self) -> impl Iterator<Item = &Name> {
        let apart = self.control.apart().into_iter();
        apart.filter_map(|bucket| self.buckets.name(bucket))
    }

    fn parks(&self, key: KeyId, now: Time) -> Vec<Park> {
        let parks = self.keys.key(key).parks();
        let lasting = parks.filter(|&(_, until)| until > now).take(MOST_PARKS);
        lasting
            .map(|(bucket, until)| Park {
                bucket: bucket.and_then(|id| Some(self.buckets.name(id)?.to_string())),
                left: until.secs_since(now),
            })
            .collect()
    }
}

impl KeyMemory {
    fn is_empty(&self) -> bool {
        let Self {
            pace,
            cap,
            parks,
            spent,
            ..
        } = self;
        pace.is_none() && cap.is_none() && parks.is_empty() && spent.is_empty()
    }
}

/// How little something that was learned a while ago is believed, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Doubt {
    share: f64,
    pub(super) age: Duration,
}

impl Doubt {
    pub(super) fn of(age: Duration) -> Self {
        let share = (age.as_secs_f64() / FORGOTTEN.as_secs_f64()).min(1.0);
        Self { share, age }
    }

    /// The share itself.
    pub(super) fn share(self) -> f64 {
        self.share
    }

    /// Whether nothing is believed any more.
    pub(super) fn is_whole(self) -> bool {
        self.share >= 1.0
    }

    /// The part of it by which bounds widen: limits change rarely, and a bound that is too wide
    /// costs refusals as well.
    pub(super) fn quarter(self) -> f64 {
        0.25 * self.share
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(Snapshot::VERSION)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u32::deserialize(from)? {
            Snapshot::VERSION => Ok(Self),
            other => Err(serde::de::Error::custom(format!(
                "version is {other}: this paceline reads version {}",
                Snapshot::VERSION
            ))),
        }
    }
}

/// A batch that is run every week finds little of the last, one that is run every night nearly all.
const FORGOTTEN: Duration = Duration::from_secs(7 * 86_400);
/// Whoever has more keys than this learns the rest anew.
const MOST_KEYS: usize = 1024;
/// Buckets that are refused by themselves: features that a plan lacks, models with limits of their
/// own.
const MOST_APART: usize = 64;
/// Parks of one key: models and routes are tens.
const MOST_PARKS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::feedback::{Class, Feedback};
    use crate::scheduler::events::{Ask, Outcome, Reason, Refusal, Verdict};

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn key(n: u8) -> Fingerprint {
        Fingerprint::from_hash([n; 6])
    }

    fn scheduler(settings: Settings, keys: &[Fingerprint]) -> Scheduler {
        Scheduler::new(settings, keys, 1).expect("valid settings")
    }

    fn send(scheduler: &mut Scheduler, class: Class, now: Time) {
        scheduler.submit(Ask::new(), now).expect("room");
        let grant = scheduler.poll_grant(now).expect("every gate is open");
        scheduler.start(grant.ticket, now);
        let said = Feedback {
            class,
            ..Feedback::default()
        };
        let again = matches!(
            scheduler.complete(grant.ticket, &Outcome::Answered(said), now),
            Verdict::Again { .. }
        );
        assert_eq!(again, class == Class::RateLimited);
        scheduler.cancel(grant.ticket);
    }

    /// One that was refused once.
    fn refused() -> Scheduler {
        let mut scheduler = scheduler(Settings::default(), &[key(1)]);
        for n in 0..40 {
            send(&mut scheduler, Class::Ok, at(0.1 * f64::from(n)));
        }
        send(&mut scheduler, Class::RateLimited, at(4.0));
        scheduler
    }

    #[test]
    fn a_scheduler_that_learned_nothing_leaves_nothing() {
        let scheduler = scheduler(Settings::default(), &[key(1)]);
        assert!(scheduler.snapshot(at(0.0)).is_empty());
    }

    #[test]
    fn a_rate_is_believed_and_forgotten_after_a_week() {
        let snapshot = refused().snapshot(at(5.0));
        let paced = |age: Duration| {
            let mut next = scheduler(Settings::default(), &[key(1)]);
            next.restore(&snapshot, age, Time::START);
            next.explain(at(0.0)).keys[0].pace
        };
        let learned = refused().explain(at(5.0)).keys[0].pace.expect("a pace");
        assert_eq!(paced(Duration::ZERO), Some(learned));
        let after_a_day = paced(Duration::from_secs(86_400)).expect("it is believed");
        assert!(
            (0.95..0.97).contains(&(after_a_day / learned)),
            "{after_a_day}"
        );
        assert_eq!(paced(FORGOTTEN), None);
    }

    #[test]
    fn what_is_about_other_keys_is_passed_over() {
        let snapshot = refused().snapshot(at(5.0));
        let mut next = scheduler(Settings::default(), &[key(2)]);
        next.restore(&snapshot, Duration::ZERO, Time::START);
        assert_eq!(next.explain(at(0.0)).keys[0].pace, None);
    }

    #[test]
    fn a_wait_that_the_server_asked_for_outlives_its_scheduler() {
        let mut first = scheduler(Settings::default(), &[key(1)]);
        first
            .keys
            .park(KeyId(0), None, Duration::from_secs(100), at(0.0));
        let bucket = first.buckets.id(Some(&"gpt-5".into()));
        first
            .keys
            .park(KeyId(0), Some(bucket), Duration::from_secs(500), at(0.0));
        let snapshot = first.snapshot(at(30.0));
        let mut next = scheduler(Settings::default(), &[key(1)]);
        next.restore(&snapshot, Duration::from_secs(10), Time::START);
        let hurried = |bucket: Option<&'static str>| {
            let mut ask = Ask::new().deadline(Duration::from_secs(1));
            ask.bucket = bucket.map(Name::from);
            ask
        };
        let until = |seconds| Err(Refusal::AllKeysParked { until: at(seconds) });
        assert_eq!(next.submit(hurried(None), at(0.0)), until(60.0));
        assert_eq!(next.submit(hurried(Some("gpt-5")), at(0.0)), until(460.0));
    }

    #[test]
    fn a_ceiling_goes_on_where_it_was() {
        let settings = Settings {
            ceilings: vec!["2/1h".parse().expect("a ceiling")],
            max_wait: None,
            ..Settings::default()
        };
        let mut first = scheduler(settings.clone(), &[key(1)]);
        send(&mut first, Class::Ok, at(0.0));
        send(&mut first, Class::Ok, at(600.0));
        let snapshot = first.snapshot(at(601.0));
        let mut next = scheduler(settings, &[key(1)]);
        next.restore(&snapshot, Duration::from_secs(99), Time::START);
        next.submit(Ask::new(), at(0.0)).expect("room");
        assert_eq!(next.poll_grant(at(2880.0)), None);
        assert_eq!(next.waits_for(), Some(Reason::Ceiling));
        assert!(next.poll_grant(at(2901.0)).is_some());
    }

    #[test]
    fn a_bucket_that_is_refused_by_itself_is_so_the_next_time_and_not_after_a_week() {
        let mut first = scheduler(Settings::default(), &[key(1)]);
        first.part(&"feature".into(), Some(key(1)), at(0.0));
        let snapshot = first.snapshot(at(1.0));
        assert!(!snapshot.is_empty());
        for (age, known) in [(Duration::ZERO, 1), (FORGOTTEN, 0)] {
            let mut next = scheduler(Settings::default(), &[key(1)]);
            next.restore(&snapshot, age, Time::START);
            assert_eq!(next.explain(at(0.0)).keys[0].apart.len(), known, "{age:?}");
        }
    }

    #[test]
    fn a_bucket_that_was_apart_for_an_hour_rejoins_with_its_next_request() {
        let mut scheduler = scheduler(Settings::default(), &[key(1)]);
        scheduler.part(&"feature".into(), None, at(0.0));
        let mut apart = |seconds: f64| {
            let ask = Ask::new().bucket("feature");
            let ticket = scheduler.submit(ask, at(seconds)).expect("room");
            scheduler
                .poll_grant(at(seconds))
                .expect("every gate is open");
            scheduler.cancel(ticket);
            scheduler.explain(at(seconds)).keys[0].apart.len()
        };
        assert_eq!([3599.0, 3601.0].map(&mut apart), [1, 0]);
    }

    #[cfg(feature = "serde")]
    mod written {
        use super::*;

        fn read(text: &str) -> Result<Snapshot, String> {
            serde_json::from_str(text).map_err(|error| error.to_string())
        }

        #[test]
        fn what_is_written_reads_back_the_same_and_shows_fingerprints_only() {
            let snapshot = refused().snapshot(at(5.0)).taken_at(1_700_000_000);
            let text = serde_json::to_string(&snapshot).expect("numbers are finite");
            assert!(text.contains(r#""key":"010101010101""#), "{text}");
            assert_eq!(read(&text), Ok(snapshot));
        }

        #[test]
        fn another_version_or_another_file_does_not_read() {
            let text = serde_json::to_string(&Snapshot::default()).expect("numbers are finite");
            assert_eq!(read(&text), Ok(Snapshot::default()));
            let newer = read(&text.replace(r#""version":1"#, r#""version":2"#));
            assert!(
                newer.as_ref().is_err_and(|e| e.contains("version is 2")),
                "{newer:?}"
            );
            for foreign in ["{}", "[]", r#"{"name":"x","version":"1.0.0"}"#] {
                assert!(read(foreign).is_err(), "{foreign}");
            }
        }

        #[test]
        fn numbers_that_make_no_sense_are_passed_over() {
            let sane = r#"{"version":1,"taken":0,"window":null,"spent":[],"pace":{"rates":[
                {"pace":PACE,"low":LOW,"high":9.0,"credit":1.0}],"budget":-3e300},
                "keys":[{"key":"010101010101","pace":{"rate":RATE,"wait":-1e300,"counting":1e300},
                "cap":4294967295,"parks":[{"left":-5.0},{"left":1e300}],
                "spent":[{"dimension":"requests","sent":[[-1e300,18446744073709551615]]}]}]}"#;
            for (pace, low, rate, known) in [
                ("5.0", "1.0", "0", true),
                ("-5.0", "1.0", "0", false),
                ("0.0", "0.0", "0", false),
                ("5.0", "10.0", "0", false),
                ("1e300", "1.0", "0", false),
                ("5.0", "1.0", "7", false),
                ("5.0", "1.0", "18446744073709551615", false),
            ] {
                let text = sane
                    .replace("PACE", pace)
                    .replace("LOW", low)
                    .replace("RATE", rate);
                let snapshot = read(&text).expect("it has the form");
                let settings = Settings {
                    ceilings: vec!["2/1s".parse().expect("a ceiling")],
                    ..Settings::default()
                };
                let mut next = scheduler(settings, &[key(1)]);
                next.restore(&snapshot, Duration::ZERO, Time::START);
                assert_eq!(
                    next.explain(at(0.0)).keys[0].pace.is_some(),
                    known,
                    "{text}"
                );
                next.submit(Ask::new(), at(0.0)).expect("room");
                let granted = next.poll_grant(at(90_000.0));
                assert!(granted.is_some(), "{text}");
            }
        }
    }
}
