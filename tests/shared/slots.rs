//! What every store promises of slots that are leased, and of those who hold them. The suite runs
//! it on every store.

use std::sync::Arc;
use std::time::Duration;

use paceline::shared::store::*;
use tokio::task::JoinSet;

use super::server::pause;
use super::suite::{granted, limit, op, scope, take};

pub(super) async fn a_slot_is_free_again_after_its_lease(store: Arc<impl Store>) {
    let limit = limit("k", Law::Slots, 2, 300);
    assert_eq!(granted(&store, op(1, 1), &limit, 2, 1).await, 2);
    let ask = take(op(2, 1), std::slice::from_ref(&limit), 1, 1);
    let refused = store.take(&scope(), &ask).await.unwrap();
    assert!(refused.wait.unwrap() <= Duration::from_millis(300));
    tokio::time::sleep(refused.wait.unwrap()).await;
    assert_eq!(store.take(&scope(), &ask).await.unwrap().granted, 1);
}

fn beat(owner: u64, limit: &Limit, slots: &[Slot]) -> Beat {
    Beat {
        owner: Owner::new(owner),
        epoch: None,
        lasts: Duration::from_secs(1),
        limits: vec![limit.clone()],
        slots: slots.iter().map(|&slot| (0, slot)).collect(),
    }
}

fn release(limit: &Limit, slot: Slot) -> Release {
    Release {
        limits: vec![limit.clone()],
        slots: vec![(0, slot)],
    }
}

pub(super) async fn a_slot_that_somebody_else_has_is_told_of_and_counts_beyond_the_limit(
    store: Arc<impl Store>,
) {
    // SS-17: a late renewal took over the lease of another, and both believed that they held it.
    // SS-20: a reaper freed what had been renewed meanwhile.
    // All that is done between two beats lies within a lease.
    const LEASE: u64 = 5000;
    let limit = limit("k", Law::Slots, 1, LEASE);
    assert_eq!(granted(&store, op(1, 1), &limit, 1, 1).await, 1);
    let slot = Slot {
        op: op(1, 1),
        item: 0,
    };
    let alive = store
        .beat(&scope(), &beat(1, &limit, &[slot]))
        .await
        .unwrap();
    assert_eq!((alive.owners, alive.gone), (1, vec![]));
    pause(Duration::from_millis(LEASE + 10));
    assert_eq!(granted(&store, op(2, 1), &limit, 1, 1).await, 1);
    let alive = store
        .beat(&scope(), &beat(1, &limit, &[slot]))
        .await
        .unwrap();
    assert_eq!(alive.gone, vec![slot]);
    // What holds it is in flight all the same: when the other's is free, nobody gets it.
    let others = Slot {
        op: op(2, 1),
        item: 0,
    };
    store
        .release(&scope(), &release(&limit, others))
        .await
        .unwrap();
    assert_eq!(granted(&store, op(3, 1), &limit, 1, 1).await, 0);
    store
        .release(&scope(), &release(&limit, slot))
        .await
        .unwrap();
    assert_eq!(granted(&store, op(3, 2), &limit, 1, 1).await, 1);
    // Nor does freeing it again free the other's.
    store
        .release(&scope(), &release(&limit, slot))
        .await
        .unwrap();
    assert_eq!(granted(&store, op(4, 1), &limit, 1, 1).await, 0);
}

pub(super) async fn a_slot_that_was_never_freed_ends_under_a_steady_load(store: Arc<impl Store>) {
    // SS-03: one lost decrement, and every touch renewed the life of the count.
    let limit = limit("k", Law::Slots, 2, 400);
    assert_eq!(granted(&store, op(1, 1), &limit, 1, 1).await, 1);
    let mut free = 0;
    for number in 0..60 {
        free = granted(&store, op(2, number), &limit, 2, 1).await;
        for item in 0..free {
            let op = op(2, number);
            let slot = release(&limit, Slot { op, item });
            store.release(&scope(), &slot).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(free, 2);
}

pub(super) async fn whoever_died_is_counted_for_no_longer_than_it_said(store: Arc<impl Store>) {
    // SS-06: a restart a minute for weeks, and 17,000 clients that nobody removed.
    let limit = limit("k", Law::Slots, 1, 300);
    for owner in 0..200 {
        let mut beat = beat(owner, &limit, &[]);
        beat.lasts = Duration::from_millis(300);
        store.beat(&scope(), &beat).await.unwrap();
    }
    pause(Duration::from_millis(350));
    let alive = store.beat(&scope(), &beat(999, &limit, &[])).await.unwrap();
    assert_eq!(alive.owners, 1);
}

pub(super) async fn renewed_slots_are_never_lost_while_many_compete(store: Arc<impl Store>) {
    // SS-19: 32 workers reported lost locks within seconds.
    // So long that only a store that loses slots can end one here, however busy the machine is.
    let limit = limit("k", Law::Slots, 20, 60_000);
    let mut workers = JoinSet::new();
    for worker in 0..32 {
        let (store, limit) = (Arc::clone(&store), limit.clone());
        workers.spawn(async move {
            for number in 0..10 {
                let mine = op(worker, number);
                if granted(&store, mine, &limit, 1, 1).await == 0 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
                let slot = Slot { op: mine, item: 0 };
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    let mut beat = beat(worker, &limit, &[slot]);
                    beat.lasts = Duration::from_secs(60);
                    let alive = store.beat(&scope(), &beat).await.unwrap();
                    assert_eq!(alive.gone, vec![]);
                }
                store
                    .release(&scope(), &release(&limit, slot))
                    .await
                    .unwrap();
            }
        });
    }
    workers.join_all().await;
    assert_eq!(granted(&store, op(99, 1), &limit, 40, 1).await, 20);
}
