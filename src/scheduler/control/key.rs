//! The estimators of one key.

use crate::scheduler::concurrency::{Aimd, Cap, Concurrency, Controller, Fixed, Gradient, Room};
use crate::scheduler::names::Names;
use crate::scheduler::quota::Ledger;
use crate::scheduler::resume::SlowResume;

/// The estimators of one key.
#[derive(Debug)]
pub(super) struct KeyControl {
    pub(super) default_ledger: Ledger,
    /// The ledgers of named buckets, by their numbers, which are given in a row.
    ledgers: Vec<Option<Box<Ledger>>>,
    pub(super) cap: Cap,
    pub(super) resume: SlowResume,
    /// In place of cap and window, if another controller was chosen.
    pub(super) controller: Option<Box<dyn Controller>>,
    pub(super) in_flight: u32,
}

impl KeyControl {
    pub(super) fn new(concurrency: &Concurrency) -> Self {
        Self {
            default_ledger: Ledger::default(),
            ledgers: Vec::new(),
            cap: Cap::default(),
            resume: SlowResume::default(),
            controller: controller(concurrency),
            in_flight: 0,
        }
    }

    pub(super) fn room(&self) -> Room {
        match &self.controller {
            Some(_) if self.is_full() => Room::Full,
            Some(_) => Room::AtPace,
            None => self.cap.room(self.in_flight),
        }
    }

    /// Whether as many are in flight as a controller allows that was chosen.
    pub(super) fn is_full(&self) -> bool {
        let controller = self.controller.as_ref();
        controller.is_some_and(|controller| self.in_flight >= controller.limit().max(1))
    }

    pub(super) fn ledger(&self, bucket: u32) -> Option<&Ledger> {
        if bucket == Names::DEFAULT {
            Some(&self.default_ledger)
        } else {
            self.ledgers.get(bucket as usize)?.as_deref()
        }
    }

    /// The ledgers that there are, by the numbers of their buckets.
    pub(super) fn ledgers(&self) -> impl Iterator<Item = (u32, &Ledger)> {
        let named = self.ledgers.iter().zip(0..);
        let named = named.filter_map(|(ledger, bucket)| Some((bucket, ledger.as_deref()?)));
        [(Names::DEFAULT, &self.default_ledger)]
            .into_iter()
            .chain(named)
    }

    pub(super) fn ledger_mut(&mut self, bucket: u32) -> &mut Ledger {
        if bucket == Names::DEFAULT {
            &mut self.default_ledger
        } else {
            let index = bucket as usize;
            if index >= self.ledgers.len() {
                self.ledgers.resize_with(index + 1, || None);
            }
            self.ledgers[index].get_or_insert_default()
        }
    }
}

/// What sets the limit of one key in place of the law's own.
pub(super) fn controller(concurrency: &Concurrency) -> Option<Box<dyn Controller>> {
    Some(match concurrency {
        Concurrency::Adaptive => return None,
        Concurrency::Aimd(settings) => Box::new(Aimd::new(*settings)),
        Concurrency::Fixed(settings) => Box::new(Fixed::new(*settings)),
        Concurrency::Gradient(settings) => Box::new(Gradient::new(*settings)),
        Concurrency::Custom(custom) => custom.make(),
    })
}
