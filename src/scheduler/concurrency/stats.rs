//! The latest response times, and their 95th percentile.

/// The last fifty response times, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    ring: [f32; Self::KEPT],
    count: usize,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            ring: [0.0; Self::KEPT],
            count: 0,
        }
    }
}

impl Latencies {
    /// As the system for the Rakuten Travel API keeps.
    const KEPT: usize = 50;

    pub(crate) fn push(&mut self, seconds: f64) {
        self.ring[self.count % Self::KEPT] = seconds as f32;
        self.count += 1;
    }

    /// Element ⌊0.95 n⌋ of the sorted list; none while it is empty.
    pub(crate) fn p95(&self) -> Option<f64> {
        let kept = self.count.min(Self::KEPT);
        if kept == 0 {
            return None;
        }
        let mut sorted = self.ring;
        let index = kept * 95 / 100;
        let (_, value, _) = sorted[..kept].select_nth_unstable_by(index, f32::total_cmp);
        Some(f64::from(*value))
    }

    pub(crate) fn forget(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_95th_percentile_is_an_element_of_the_last_fifty() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.p95(), None);
        latencies.push(3.0);
        assert_eq!(latencies.p95(), Some(3.0));
        for i in (1..=100).rev() {
            latencies.push(f64::from(i));
        }
        // The last fifty are 50 … 1; element 47 of them sorted is 48.
        assert_eq!(latencies.p95(), Some(48.0));
        latencies.forget();
        assert_eq!(latencies.p95(), None);
    }
}
