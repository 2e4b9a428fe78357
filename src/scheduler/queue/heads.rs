//! Whose turn it is: the heads of the lanes, in one order over all of them.

use smallvec::SmallVec;

use super::super::events::Ticket;
use super::super::time::Time;
use super::SlotQueue;
use super::lane::Head;

/// The lanes whose heads may go now, in their order.
pub(super) type Heads = SmallVec<[(u32, Ticket); 4]>;

impl SlotQueue {
    /// The lanes whose heads may go, in their order, and when the first of the others may. A lane
    /// is left out while it is known to be shut in this state of the scheduler.
    pub(crate) fn heads(&self, state: u64, now: Time) -> (Heads, Time) {
        if let Some(slot) = self.express {
            let head = (self.entries[slot as usize].lane, self.ticket(slot));
            return (SmallVec::from_slice(&[head]), Time::NEVER);
        }
        let mut next = Time::NEVER;
        let mut heads: SmallVec<[(u32, Head); 4]> = SmallVec::new();
        for (index, lane) in &self.lanes {
            if lane.shut_at == state && lane.shut_until > now {
                next = next.min(lane.shut_until);
            } else if let Some(head) = lane.head() {
                heads.push((index as u32, head));
            }
        }
        if heads.len() > 1 {
            self.sort(&mut heads);
        }
        (
            heads
                .into_iter()
                .map(|(lane, head)| (lane, self.ticket(head.age.slot)))
                .collect(),
            next,
        )
    }

    /// Sorts heads: the class that has waited longest for a turn in any lane first, and within a
    /// class by turn, so that a tenant's pinned and free asks share one turn.
    fn sort(&self, heads: &mut [(u32, Head)]) {
        let mut dues: SmallVec<[(u8, i64); 8]> = SmallVec::new();
        for (_, head) in heads.iter() {
            match dues
                .iter_mut()
                .find(|(priority, _)| *priority == head.priority)
            {
                Some((_, due)) => *due = (*due).min(head.due),
                None => dues.push((head.priority, head.due)),
            }
        }
        for (priority, due) in &mut dues {
            *due = (*due).max(self.due_since_served(*priority));
        }
        let due = |priority| {
            dues.iter()
                .find(|(other, _)| *other == priority)
                .map(|&(_, due)| due)
        };
        heads.sort_unstable_by_key(|(_, head)| (due(head.priority), head.turn, head.age));
    }
}
