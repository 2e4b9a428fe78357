//! Which drafts of a response are one quota, and what they tell each other.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::super::Dimension;
use super::super::draft::{Draft, Source};
use super::super::vendors::{Own, Part};
use super::Tally;

impl Tally<'_> {
    /// Puts together what belongs together. `success` tells whether the request was served.
    pub(crate) fn settle(&mut self, own: &Own, success: bool) {
        if self.repeats {
            self.collapse();
        }
        if !self.labels.is_empty() {
            self.name();
        }
        if own.shared_reset {
            self.share_reset();
        }
        self.drafts.retain(|draft| {
            draft.repair();
            draft.know(own);
            draft.tells() && !(success && draft.empty())
        });
        if self.drafts.len() > 1 {
            self.merge();
        }
        for draft in &mut self.drafts {
            draft.derive();
        }
        if own.zero_is_concurrency && !success {
            for draft in self
                .drafts
                .iter_mut()
                .filter(|draft| draft.limit == Some(0.0))
            {
                (draft.limit, draft.dimension) = (None, Dimension::Concurrent);
            }
        }
    }

    /// The same name several times: as many of each part are as many quotas, told in order; else
    /// it is one, and the least that is left of it counts.
    fn collapse(&mut self) {
        let mut at = 0;
        while at < self.drafts.len() {
            let (_, rest) = self.drafts.split_at(at);
            let same = |draft: &Draft<'_>| draft.same_name(&rest[0]);
            if rest
                .iter()
                .any(|draft| same(draft) && draft.seen != rest[0].seen)
            {
                let mut one = rest[0].clone();
                for other in rest[1..].iter().filter(|draft| same(draft)) {
                    one.remaining = match (one.remaining, other.remaining) {
                        (Some(this), Some(that)) => Some(this.min(that)),
                        (this, that) => this.or(that),
                    };
                    one.absorb(other);
                }
                let mut place = 0;
                self.drafts.retain(|draft| {
                    place += 1;
                    place <= at || !draft.same_name(&one)
                });
                self.drafts.insert(at, one);
            }
            at += 1;
        }
    }

    /// Gives drafts the names that their family's headers tell.
    fn name(&mut self) {
        for draft in &mut self.drafts {
            if !draft.scope.is_empty() || draft.from != Source::Header {
                continue;
            }
            let label = self
                .labels
                .iter()
                .filter(|(family, part, _)| match *part {
                    Part::Reason => draft.plain && draft.spent(),
                    _ if *family == "*" => true,
                    _ => draft.plain && *family == draft.family,
                })
                .min_by_key(|(_, part, _)| match part {
                    Part::Bucket => 0,
                    Part::Scope => 1,
                    _ => 2,
                });
            if let Some((_, _, label)) = label {
                draft.scope = Cow::Borrowed(label);
            }
        }
    }

    fn share_reset(&mut self) {
        let plain = self
            .drafts
            .iter()
            .find(|draft| draft.plain && draft.reset.is_some());
        let Some(reset) = plain.and_then(|draft| draft.reset) else {
            return;
        };
        let mut given = false;
        for draft in self.drafts.iter_mut().filter(|draft| draft.reset.is_none()) {
            draft.reset = Some(reset);
            given = true;
        }
        if given {
            self.drafts.retain(|draft| {
                !draft.plain
                    || draft.limit.is_some()
                    || draft.remaining.is_some()
                    || draft.used.is_some()
            });
        }
    }

    fn merge(&mut self) {
        self.drop_echoes();
        let mut at = 0;
        while at < self.drafts.len() {
            let (before, rest) = self.drafts.split_at_mut(at);
            let Some((this, _)) = rest.split_first() else {
                return;
            };
            let twin = before.iter_mut().find(|draft| draft.twin(this));
            let gone = match twin {
                Some(twin) => {
                    twin.absorb(this);
                    true
                }
                // A sentence that names a limit which a header told already adds nothing.
                None => {
                    this.from == Source::Words
                        && this.limit.is_some()
                        && before.iter().any(|draft| {
                            draft.dimension == this.dimension && draft.limit == this.limit
                        })
                }
            };
            if gone {
                self.drafts.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Drops a reset alone that a reading with counts has too.
    fn drop_echoes(&mut self) {
        if self.drafts.iter().all(Draft::counts) {
            return;
        }
        let counted: SmallVec<[_; 8]> = self
            .drafts
            .iter()
            .filter(|draft| draft.counts())
            .filter_map(|draft| Some((draft.dimension, draft.reset?.after)))
            .collect();
        self.drafts.retain(|draft| {
            let echo = draft.reset.map(|reset| (draft.dimension, reset.after));
            draft.counts() || echo.is_none_or(|echo| !counted.contains(&echo))
        });
    }
}
