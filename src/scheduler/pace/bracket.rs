//! What is known of a rate that nobody tells: two bounds and the pace between them.
//!
//! The only evidence is refusals. At a refusal the credit was about nothing, so it is an *anchor*:
//! what was accepted from one anchor to the next, over the time between them, bounds the rate from
//! both sides. "The pace held for a while" bounds nothing: saved-up credit hides a pace that is too
//! high. Between the bounds the pace is found by bisection, from the slow side, because accepted
//! steps are free and refused ones are not.

use super::regrowth::Before;
use super::window::SilentWindow;
use crate::scheduler::time::Time;

/// Bounds for a rate in sends per second, shared by the keys that agree.
#[derive(Clone, Debug)]
pub(super) struct Bracket {
    /// Sends per second on each key; infinite while nothing is known.
    pub(super) pace: f64,
    /// The rate is at least this.
    pub(super) low: f64,
    /// The rate is below this.
    pub(super) high: f64,
    /// The most that can have been saved up when nothing was sent.
    pub(super) credit: f64,
    /// The limit lets much through, then nothing for long: counts between anchors do not bound it.
    pub(super) windowed: bool,
    /// What is known of that.
    pub(super) window: Option<SilentWindow>,
    /// What was known before a window was assumed: it holds if it is none.
    pub(super) if_no_window: Option<Before>,
    /// What was known before the block that runs.
    pub(super) before_block: Option<Before>,
    /// What the pace grows back to after a block whose bounds are doubted.
    pub(super) regrowth: Option<Before>,
    /// Long blocks so far.
    pub(super) blocks: u32,
    /// The bounds and the credit that are doubted meanwhile.
    pub(super) doubted: Option<(f64, f64, f64)>,
    /// Whose evidence the low bound is.
    pub(super) low_of: Option<usize>,
    /// Sends since the pace last changed.
    pub(super) held: f64,
    /// Sends since the last refusal or probe.
    pub(super) quiet: f64,
    /// The pace that held before the probe that runs.
    pub(super) before_probe: Option<f64>,
    /// By how much the next step of a probe raises the pace.
    probe_gain: f64,
    /// How often the bounds met without a probe between.
    collapses: u32,
    /// The highest lower bound since the limit last fell.
    proven: f64,
    /// What was proven before it fell, and when it did.
    former: Option<(f64, Time)>,
    /// When the last refusal came or the last probe began.
    quiet_since: Time,
    /// In seconds without either, after which a bound is asked for again.
    patience: f64,
    /// Its last refused key contradicts what the others were granted.
    pub(super) odd: bool,
    /// Which key was refused last, and how often in a row.
    pub(super) refused_last: Option<usize>,
    pub(super) refused_in_a_row: u32,
}

impl Default for Bracket {
    fn default() -> Self {
        Self {
            pace: f64::INFINITY,
            low: 0.0,
            high: f64::INFINITY,
            credit: f64::INFINITY,
            windowed: false,
            window: None,
            if_no_window: None,
            before_block: None,
            regrowth: None,
            blocks: 0,
            doubted: None,
            low_of: None,
            held: 0.0,
            quiet: 0.0,
            before_probe: None,
            probe_gain: FIRST_GAIN,
            collapses: 0,
            proven: 0.0,
            former: None,
            quiet_since: Time::START,
            patience: PATIENCE,
            odd: false,
            refused_last: None,
            refused_in_a_row: 0,
        }
    }
}

impl Bracket {
    pub(super) fn is_known(&self) -> bool {
        self.pace.is_finite()
    }

    /// Forgets the bounds, and goes no faster than this.
    pub(super) fn seek_anew(&mut self, pace: f64) {
        *self = Self {
            pace: pace.min(self.pace),
            credit: self.credit,
            ..Self::default()
        };
    }

    pub(super) fn middle(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    pub(super) fn quarter(&self) -> f64 {
        self.low + 0.25 * (self.high - self.low)
    }

    /// Whether the bounds are further apart than this share of the upper one.
    pub(super) fn is_wider(&self, share: f64) -> bool {
        self.high - self.low > share * self.high
    }

    pub(super) fn lower_high(&mut self, bound: f64) {
        self.high = self.high.min(bound);
    }

    /// The bounds met or crossed: the limit fell, or jitter made one of them false. Cuts deeper
    /// each time, for a limit that fell far.
    pub(super) fn uncross(&mut self, near: f64) {
        if self.low >= near * self.high {
            let cut = COLLAPSE * 2_f64.powi(self.collapses.min(MOST_COLLAPSES) as i32);
            self.low = self.high * (1.0 - cut).max(0.0);
            self.collapses += 1;
        }
    }

    pub(super) fn raise_low(&mut self, bound: f64, of: usize) {
        if !self.windowed && bound > self.low {
            self.low = bound.min(self.high);
            self.low_of = Some(of);
            self.proven = self.proven.max(self.low);
        }
    }

    /// A refusal ends whatever was tried, and may show that the limit fell.
    pub(super) fn on_refused(&mut self, probed: bool, now: Time) {
        self.restart();
        self.quiet_since = now;
        if probed {
            self.patience = (2.0 * self.patience).min(MOST_PATIENCE);
        }
        if FELL * self.high < self.proven {
            self.former = Some((self.proven, now));
            self.proven = self.low;
            self.patience = PATIENCE;
        }
    }

    pub(super) fn restart(&mut self) {
        self.held = 0.0;
        self.quiet = 0.0;
        self.probe_gain = FIRST_GAIN;
    }

    /// One step up to look whether the limit rose.
    pub(super) fn probe(&mut self, timed: bool, now: Time) {
        if self.before_probe.is_none() {
            self.before_probe = Some(self.pace);
            if timed {
                self.probe_gain = TIMED_GAIN;
            }
            if let Some((former, _)) = self.former.filter(|former| former.0 > 1.5 * self.pace) {
                self.probe_gain = former / self.pace - 1.0;
            }
        } else if self
            .before_probe
            .is_some_and(|before| self.pace > 1.4 * before)
        {
            // It rose indeed.
            self.patience = PATIENCE;
        }
        self.quiet_since = now;
        self.collapses = 0;
        self.pace *= 1.0 + self.probe_gain;
        self.probe_gain = (2.0 * self.probe_gain).min(MOST_GAIN);
        self.high = self.high.max(1.001 * self.pace);
        self.quiet = 0.0;
    }

    /// A key was refused, whichever: counts how often the same one was in a row.
    pub(super) fn note_refused(&mut self, key: usize) {
        if self.refused_last == Some(key) {
            self.refused_in_a_row += 1;
        } else {
            self.refused_last = Some(key);
            self.refused_in_a_row = 1;
        }
    }

    /// The odd key has left: what it made the others believe is taken back.
    pub(super) fn widen_after_split(&mut self) {
        self.high = 2.0 * self.pace;
        self.refused_last = None;
        self.refused_in_a_row = 0;
        self.held = 0.0;
        self.quiet = f64::MAX;
        self.before_probe = Some(self.pace);
        self.probe_gain = 0.25;
    }

    /// Whether the pace has stood long enough for a step up. Of its sends so many may be refused yet.
    pub(super) fn is_due(&self, keys: f64, unheard: f64) -> bool {
        let near = self.high - self.pace < NEAR * self.pace;
        let enough = if self.windowed {
            // Less than a window's worth says nothing about it.
            self.credit.max(NEAR_SENDS)
        } else if near {
            NEAR_SENDS
        } else {
            self.credit.clamp(3.0, 8.0) * keys.min(3.0)
        };
        self.low >= 0.95 * self.pace || self.held - unheard >= enough
    }

    /// Whether it fell a short while ago.
    pub(super) fn fell_lately(&self, now: Time) -> bool {
        self.former
            .is_some_and(|(_, at)| now.secs_since(at) < REMEMBERED)
    }

    /// Whether nothing was refused or tried for so long that a bound may have gone.
    pub(super) fn is_aged(&self, now: Time) -> bool {
        let quiet = now.secs_since(self.quiet_since);
        let fell = self.fell_lately(now);
        self.before_probe.is_none()
            && !self.windowed
            && if fell {
                quiet >= AFTER_FALL
            } else {
                quiet >= self.patience && self.quiet >= AGED_SENDS * self.patience / PATIENCE
            }
    }

    /// Whether a running probe has stood long enough for its next step.
    pub(super) fn probe_is_due(&self, keys: f64, unheard: f64) -> bool {
        if self.before_probe.is_none() {
            return self.quiet >= QUIET;
        }
        // So many sends take what is saved up where it is too much.
        let spent = self.credit / (0.5 * self.probe_gain);
        let step = spent.clamp(FEWEST_AT_STEP, NEAR_SENDS) * keys.min(3.0);
        self.held - unheard >= step
    }
}

/// A first step of a probe: what jitter alone would refuse is not worth asking.
const FIRST_GAIN: f64 = 0.02;
/// A limit that rose far is found in a few steps, and the refusal that ends a probe stays one.
const MOST_GAIN: f64 = 0.5;
/// A first step where time, not sends, asks for it: at such rates small steps take minutes.
const TIMED_GAIN: f64 = 0.25;
/// In seconds, doubled with each refusal that confirms the bound: a limit that rose is found
/// within seconds, and one that never does costs the logarithm of the time in refusals.
const PATIENCE: f64 = 8.0;
const MOST_PATIENCE: f64 = 600.0;
/// Sends in the first [`PATIENCE`], so that a slow pace is not asked at every other.
const AGED_SENDS: f64 = 24.0;
/// In seconds: a limit that fell far often comes back, and then is what it was.
const AFTER_FALL: f64 = 3.0;
const REMEMBERED: f64 = 30.0;
/// Times less than was proven: it fell.
pub(super) const FELL: f64 = 1.5;
/// 3, 6, 12 … %: the first is what jitter can do, three of them find a limit that fell to a half.
const COLLAPSE: f64 = 0.03;
const MOST_COLLAPSES: u32 = 5;
/// Within a tenth of the upper bound a step gains little, so it waits for [`NEAR_SENDS`].
const NEAR: f64 = 0.1;
/// As many sends as make a tenth above the pace visible over a credit of a few.
const NEAR_SENDS: f64 = 60.0;
/// Sends at a step of a probe, however little is saved up.
const FEWEST_AT_STEP: f64 = 4.0;
/// Sends without a refusal before a limit is asked whether it rose: with one refusal each, well
/// within the budget of 1 %.
const QUIET: f64 = 150.0;
