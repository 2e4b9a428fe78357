//! The scripts do what the memory store does, step by step and to the bit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paceline::shared::store::*;
use paceline::shared::{MemoryStore, RedisStore};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use smallvec::SmallVec;

use super::server::{Kind, Server};
use super::suite::limit;

/// One step of a history that both stores go through.
#[derive(Clone, Debug)]
enum Step {
    Take {
        payer: u64,
        limits: Vec<usize>,
        runs: Vec<(u32, u64)>,
        is_sent: bool,
        knows: Knows,
    },
    Repeat(usize),
    Refund {
        which: usize,
        items: Vec<u32>,
    },
    RefundOfAStranger(u64),
    Beat {
        owner: u64,
        lasts: u64,
        slots: Vec<usize>,
        knows: Knows,
    },
    Release(Vec<usize>),
    Lend {
        owner: u64,
        want: u64,
        has: u64,
        owes: u64,
        is_last: bool,
        knows: Knows,
    },
    Publish {
        subject: u8,
        value: u8,
        age: u64,
        lasts: u64,
        extends: bool,
    },
    Facts(u64),
}

/// What the caller knows of the store's story.
#[derive(Clone, Copy, Debug)]
enum Knows {
    Nothing,
    TheLast,
    Another,
    MoreThanTheStore,
}

fn knows() -> impl Strategy<Value = Knows> {
    prop_oneof![
        5 => Just(Knows::Nothing),
        20 => Just(Knows::TheLast),
        1 => Just(Knows::Another),
        1 => Just(Knows::MoreThanTheStore),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let subset = proptest::sample::subsequence((0..limits().len()).collect::<Vec<_>>(), 1..4);
    let run = (1u32..6, 0u64..4);
    let runs = proptest::collection::vec(run, 1..4);
    let some = proptest::collection::vec(0usize..1000, 0..4);
    prop_oneof![
        12 => (0u64..3, subset, runs, proptest::bool::weighted(0.1), knows()).prop_map(
            |(payer, limits, runs, is_sent, knows)| Step::Take { payer, limits, runs, is_sent, knows }
        ),
        2 => (0usize..1000).prop_map(Step::Repeat),
        4 => (0usize..1000, proptest::collection::vec(0u32..8, 0..5))
            .prop_map(|(which, items)| Step::Refund { which, items }),
        1 => (0u64..3).prop_map(Step::RefundOfAStranger),
        3 => (0u64..4, prop_oneof![Just(0), 1u64..30_000_000], some.clone(), knows())
            .prop_map(|(owner, lasts, slots, knows)| Step::Beat { owner, lasts, slots, knows }),
        2 => some.prop_map(Step::Release),
        5 => (0u64..4, (0u64..60, 0u64..20_000_000), 0u64..40, proptest::bool::weighted(0.1), knows())
            .prop_map(|(owner, (want, owes), has, is_last, knows)| Step::Lend {
                owner, want, has, owes, is_last, knows,
            }),
        3 => (0u8..3, any::<u8>(), 0u64..20_000_000, 1u64..20_000_000, any::<bool>())
            .prop_map(|(subject, value, age, lasts, extends)| Step::Publish {
                subject, value, age, lasts, extends,
            }),
        2 => (0u64..8).prop_map(Step::Facts),
    ]
}

/// One limit of each law; the clock moves through several of their windows.
fn limits() -> Vec<Limit> {
    vec![
        limit("a", Law::FixedWindow, 9, 10_000),
        limit("a", Law::SlidingCounter, 11, 10_000),
        limit("a", Law::SlidingLog, 10, 10_000),
        limit("a", Law::Bucket { burst: 5 }, 7, 10_000),
        limit("a", Law::Slots, 6, 15_000),
        limit("b", Law::SlidingLog, 3, 1),
        limit("b", Law::Bucket { burst: 1 }, 3, 997),
        limit("b", Law::FixedWindow, 4, 30_000),
    ]
}

/// A store with what its callers remember of it.
struct Side {
    store: Box<dyn Store>,
    scope: Scope,
    last: Option<Epoch>,
    taken: Vec<(Take, u64)>,
    next: u64,
}

impl Side {
    fn epoch(&self, knows: Knows) -> Option<Epoch> {
        let last = self.last.clone();
        match knows {
            Knows::Nothing => None,
            Knows::TheLast => last,
            Knows::Another => Some(Epoch {
                id: "another".to_owned(),
                sequence: 1,
            }),
            Knows::MoreThanTheStore => last.map(|epoch| Epoch {
                sequence: epoch.sequence + 1000,
                ..epoch
            }),
        }
    }

    /// A standing without the name of its epoch, which each store draws for itself.
    fn note(&mut self, standing: Standing) -> String {
        let is_new = self
            .last
            .as_ref()
            .is_none_or(|last| last.id != standing.epoch.id);
        let Standing {
            now,
            is_lost,
            born,
            facts,
            ..
        } = standing;
        let sequence = standing.epoch.sequence;
        self.last = Some(standing.epoch);
        format!("{now} {is_new} {sequence} {is_lost} {born} {facts}")
    }

    /// Slots of payments so far.
    fn slots(&self, which: &[usize]) -> Vec<(u32, Slot)> {
        let paid = which.iter().filter_map(|&which| {
            let (take, _) = self.taken.get(which % self.taken.len().max(1))?;
            let slot = Slot {
                op: take.op,
                item: (which % 3) as u32,
            };
            Some((0, slot))
        });
        paid.collect()
    }

    async fn take(&mut self, take: Take, now: u64) -> String {
        let taken = self.store.take(&self.scope, &take).await.unwrap();
        self.taken.push((take, now));
        let standing = self.note(taken.standing);
        format!(
            "{} {:?} {} {:?} {standing}",
            taken.granted, taken.wait, taken.is_lost, taken.age
        )
    }

    async fn step(&mut self, step: &Step, now: u64) -> String {
        let slots = vec![limits().swap_remove(4)];
        match step.clone() {
            Step::Take {
                payer,
                limits: which,
                runs,
                is_sent,
                knows,
            } => {
                self.next += 1;
                let run = |(count, cost): (u32, u64)| Run {
                    count,
                    costs: (0..which.len() as u64)
                        .map(|place| cost + place % 2)
                        .collect(),
                };
                let take = Take {
                    op: OpId {
                        owner: Owner::new(payer),
                        number: self.next,
                    },
                    epoch: self.epoch(knows),
                    limits: which
                        .iter()
                        .map(|&place| limits().swap_remove(place))
                        .collect(),
                    runs: runs.into_iter().map(run).collect(),
                    is_sent,
                };
                self.take(take, now).await
            }
            Step::Repeat(which) => {
                let Some((take, paid)) = self.taken.get(which % self.taken.len().max(1)).cloned()
                else {
                    return String::new();
                };
                // A payment is remembered for its longest window at least, not exactly.
                let shortest = take.limits.iter().map(|limit| limit.window).max().unwrap();
                if now >= paid + shortest.as_micros() as u64 {
                    return String::new();
                }
                self.take(take, paid).await
            }
            Step::Refund { which, items } => {
                let Some((take, paid)) = self.taken.get(which % self.taken.len().max(1)).cloned()
                else {
                    return String::new();
                };
                let longest = take.limits.iter().map(|limit| limit.window).max().unwrap();
                if now >= paid + longest.as_micros() as u64 {
                    return String::new();
                }
                let costs = |item: u32| -> SmallVec<[u64; 4]> {
                    let mut runs = take
                        .runs
                        .iter()
                        .flat_map(|run| std::iter::repeat_n(&run.costs, run.count as usize));
                    runs.nth(item as usize).cloned().unwrap_or_default()
                };
                let items = items.iter().map(|&item| (item, costs(item)));
                let refund = Refund {
                    op: take.op,
                    epoch: self.epoch(Knows::TheLast),
                    items: items.filter(|(_, costs)| !costs.is_empty()).collect(),
                    limits: take.limits,
                };
                let standing = self.store.refund(&self.scope, &refund).await.unwrap();
                self.note(standing)
            }
            Step::RefundOfAStranger(payer) => {
                self.next += 1;
                let take = Take {
                    op: OpId {
                        owner: Owner::new(payer),
                        number: self.next,
                    },
                    epoch: None,
                    limits: limits(),
                    runs: Vec::new(),
                    is_sent: false,
                };
                let refund = Refund {
                    op: take.op,
                    epoch: None,
                    limits: limits(),
                    items: Vec::new(),
                };
                self.taken.push((take, now));
                let standing = self.store.refund(&self.scope, &refund).await.unwrap();
                self.note(standing)
            }
            Step::Beat {
                owner,
                lasts,
                slots: which,
                knows,
            } => {
                let beat = Beat {
                    owner: Owner::new(owner),
                    epoch: self.epoch(knows),
                    lasts: Duration::from_micros(lasts),
                    limits: slots,
                    slots: self.slots(&which),
                };
                let alive = self.store.beat(&self.scope, &beat).await.unwrap();
                let standing = self.note(alive.standing);
                format!("{} {:?} {standing}", alive.owners, alive.gone)
            }
            Step::Release(which) => {
                let release = Release {
                    limits: slots,
                    slots: self.slots(&which),
                };
                let standing = self.store.release(&self.scope, &release).await.unwrap();
                self.note(standing)
            }
            Step::Lend {
                owner,
                want,
                has,
                owes,
                is_last,
                knows,
            } => {
                let claim = Claim {
                    owner: Owner::new(owner),
                    epoch: self.epoch(knows),
                    limit: limits().swap_remove(0),
                    want,
                    has,
                    lease: Duration::from_secs(5),
                    owes: Duration::from_micros(owes),
                    is_last,
                };
                let lent = self.store.lend(&self.scope, &claim).await.unwrap();
                let standing = self.note(lent.standing);
                format!(
                    "{} {} {} {standing}",
                    lent.share, lent.owners, lent.is_short
                )
            }
            Step::Publish {
                subject,
                value,
                age,
                lasts,
                extends,
            } => {
                let fact = Fact {
                    subject: subject.to_string(),
                    value: format!("value {value}"),
                    age: Duration::from_micros(age),
                    lasts: Duration::from_micros(lasts),
                    extends,
                };
                self.store
                    .publish(&self.scope, &fact)
                    .await
                    .unwrap()
                    .to_string()
            }
            Step::Facts(since) => {
                let heard = self.store.facts(&self.scope, since).await.unwrap();
                format!("{heard:?}")
            }
        }
    }
}

/// Runs random histories on the memory store and on a server that is told the same time.
fn same_as_memory(kind: Kind) {
    let server = Server::start(kind);
    // Without TIME the scripts take their callers' time, and so can be driven.
    server.command(&[
        "ACL", "SETUSER", "driven", "on", ">secret", "~*", "&*", "+@all", "-time",
    ]);
    let url = format!("redis://driven:secret@127.0.0.1:{}", server.port());
    let clock = Arc::new(AtomicU64::new(0));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let told = |clock: &Arc<AtomicU64>| {
        let clock = Arc::clone(clock);
        move || clock.load(Ordering::SeqCst)
    };
    // A debug build of both sides and a server on a busy machine may take longer than a command.
    let redis = RedisStore::with_timeout(&url, Duration::from_secs(20)).unwrap();
    let redis = Arc::new(redis.told(told(&clock)));
    let histories = AtomicU64::new(0);
    let gap = prop_oneof![Just(0), 1u64..50_000, 1u64..4_000_000, 1u64..40_000_000];
    let history = proptest::collection::vec((gap, step()), 1..40);
    let mut runner = TestRunner::new(Config {
        cases: 150,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&history, |steps| {
            let history = histories.fetch_add(1, Ordering::SeqCst);
            clock.store(1_795_994_854_207_701, Ordering::SeqCst);
            let side = |store: Box<dyn Store>| Side {
                store,
                scope: Scope::new(format!("history-{history}")).unwrap(),
                last: None,
                taken: Vec::new(),
                next: 0,
            };
            let mut memory = side(Box::new(MemoryStore::with_clock(told(&clock))));
            let mut redis = side(Box::new(Arc::clone(&redis)));
            for (gap, step) in &steps {
                let now = clock.fetch_add(*gap, Ordering::SeqCst) + gap;
                let (expected, found) = runtime.block_on(async {
                    (memory.step(step, now).await, redis.step(step, now).await)
                });
                prop_assert_eq!(&expected, &found, "{:?}", step);
            }
            Ok(())
        })
        .unwrap();
    let immortal: Vec<_> = server
        .keys()
        .into_iter()
        .filter(|(_, left)| *left == -1)
        .collect();
    assert!(immortal.is_empty(), "keys without an end: {immortal:?}");
}

#[test]
fn the_scripts_agree_with_the_memory_store_on_valkey() {
    same_as_memory(Kind::Valkey);
}

#[test]
fn the_scripts_agree_with_the_memory_store_on_an_old_redis() {
    same_as_memory(Kind::OldRedis);
}
