//! A bound on interleaved pipelines whose memory is scarce: layers are treated as a fluid over devices, each of which
//! keeps some microbatches.
//!
//! Give every layer a value, V in total. A device that keeps n microbatches of each of its layers, with at most θ
//! seconds and M bytes for them, has layers of a total value of at most
//!
//! ```text
//! max over layers and configurations of worth / (λ · seconds / θ + (1 − λ) · (states + n · activations) / M)
//! ```
//!
//! for any share λ, by linear duality. If the values that all devices can have at θ add up to less than V, some device
//! works for more than θ seconds on a microbatch. The value of a layer of a stack is its fastest time. The fluid may
//! use any number of copies of a layer. Layers outside stacks take little memory, so their value is only their time on
//! the fastest device.

use super::table::LayerCosts;

/// Steps of the searches for θ and for λ.
const STEPS: usize = 30;

/// Layers with equal costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alike<'c> {
    pub(super) count: f64,
    /// Whether the layers belong to a stack.
    pub(super) is_numbered: bool,
    pub(super) costs: &'c LayerCosts,
}

impl Alike<'_> {
    fn worth(&self) -> f64 {
        self.costs.forward + self.costs.configurations[0].behind()
    }

    /// Minimum share of a device that a layer takes, over its configurations.
    fn taken(&self, share: f64, seconds: f64, kept: f64, capacity: f64) -> f64 {
        let takes = self.costs.configurations.iter().map(|configuration| {
            let bytes = self.costs.state + kept * configuration.activations;
            share * (self.costs.forward + configuration.behind()) / seconds + (1.0 - share) * bytes / capacity
        });
        takes.fold(f64::INFINITY, f64::min)
    }
}

/// Layers, and devices by the microbatches that they keep.
#[derive(Debug, Clone)]
pub(super) struct Fluid<'c> {
    pub(super) layers: Vec<Alike<'c>>,
    /// Numbers of microbatches, each with the number of devices that keep as many.
    pub(super) devices: Vec<(f64, f64)>,
    pub(super) capacity: f64,
}

impl Fluid<'_> {
    /// A lower bound on the seconds that the busiest device takes for a microbatch, between `least` and `enough`.
    /// O(kinds of layers · kinds of devices).
    pub(super) fn least_seconds(&self, mut least: f64, enough: f64) -> f64 {
        if self.is_too_short(enough) {
            return enough;
        }
        let mut enough = enough;
        for _ in 0..STEPS {
            let middle = (least + enough) / 2.0;
            if self.is_too_short(middle) {
                least = middle;
            } else {
                enough = middle;
            }
        }
        least
    }

    /// Whether every assignment of the layers keeps some device busy for more than `seconds`.
    pub(super) fn is_too_short(&self, seconds: f64) -> bool {
        let (numbered, others): (Vec<Alike>, Vec<Alike>) =
            self.layers.iter().partition(|layer| layer.is_numbered);
        let numbered: Vec<Alike> = numbered.into_iter().filter(|layer| layer.worth() > 0.0).collect();
        // Minimum over the layers of the share of a device that a layer takes, relative to the layer's value.
        let rate = |share: f64, kept: f64| {
            let each =
                numbered.iter().map(|layer| layer.taken(share, seconds, kept, self.capacity) / layer.worth());
            each.fold(f64::INFINITY, f64::min)
        };
        let mut worth: f64 = numbered.iter().map(|layer| layer.count * layer.worth()).sum();
        let mut least = vec![f64::INFINITY; others.len()];
        let mut all = 0.0;
        for &(kept, count) in &self.devices {
            let share = greatest(|share| rate(share, kept));
            let fastest = 1.0 / rate(share, kept);
            all += count * fastest;
            for (least, layer) in least.iter_mut().zip(&others) {
                *least = least.min(fastest * layer.taken(share, seconds, kept, self.capacity));
            }
        }
        worth += others
            .iter()
            .zip(least)
            .map(|(layer, least)| layer.count * least)
            .filter(|sum| sum.is_finite())
            .sum::<f64>();
        all < worth * (1.0 - 1e-9)
    }
}

/// Approximate maximiser of a concave function on [0, 1].
fn greatest(function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0f64, 1.0f64);
    for _ in 0..STEPS {
        let (first, second) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if function(first) < function(second) { low = first } else { high = second }
    }
    // At the ends, one of the two limits is not binding.
    [low, (low + high) / 2.0, high, 0.0, 1.0]
        .into_iter()
        .fold((0.0, f64::NEG_INFINITY), |best, share| {
            let value = function(share);
            if value > best.1 { (share, value) } else { best }
        })
        .0
}
