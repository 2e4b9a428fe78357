//! Chance that repeats: everything random in a simulation is drawn from here, by seed.
//!
//! One seed feeds several independent streams, so that drawing once more from one of them (a
//! latency, say) does not move the others (the network).

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// A stream of random numbers that depends on nothing but its seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Xoshiro256PlusPlus);

/// What a stream is for. Its number is part of the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    /// The provider: latencies, errors, where its windows stand.
    Provider = 1,
    /// The way of requests and answers.
    Network = 2,
    /// What the requests cost and when they come.
    Load = 3,
    /// How a scenario is varied.
    Variation = 4,
    /// What a compared client draws.
    Client = 5,
}

impl Dice {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(
            seed ^ ((stream as u64) << 56),
        ))
    }

    /// From 0 up to but not including 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// From `low` up to but not including `high`; `low` if they are the same.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Normally distributed around 0 with deviation 1, by the method of Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        // 1 - unit() is never zero, so the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_stream_repeat_and_another_stream_differs() {
        let draw = |stream| {
            let mut dice = Dice::new(7, stream);
            [dice.unit(), dice.unit(), dice.normal()]
        };
        assert_eq!(draw(Stream::Network), draw(Stream::Network));
        assert_ne!(draw(Stream::Network), draw(Stream::Provider));
    }

    #[test]
    fn normal_draws_have_mean_zero_and_deviation_one() {
        let mut dice = Dice::new(1, Stream::Provider);
        let draws: Vec<f64> = (0..20_000).map(|_| dice.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.05, "variance {variance}");
    }
}
