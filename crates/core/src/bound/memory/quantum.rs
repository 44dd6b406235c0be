//! Memory in whole quanta.

use crate::tolerance::{MEMORY_RELATIVE, OPTIMAL_RELATIVE, fits, round_down};

/// Number of quanta into which the finest quantum divides the memory of a device.
const FINE: f64 = (1u64 << 30) as f64;

/// A few large classes may fill a device, so these numbers of classes per device are tried whatever the sizes of the
/// classes.
const FEW: [f64; 3] = [1.0, 2.0, 3.0];

/// Maximum number of class sizes from which quanta are derived; those with the most bytes in total come first.
const MAX_SIZES: usize = 8;

/// The devices of a kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Store {
    pub(super) devices: f64,
    /// Usable bytes of each device; infinite if unlimited.
    pub(super) memory: f64,
}

/// A unit of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quantum {
    pub(super) bytes: f64,
    /// Whole quanta of one device.
    pub(super) capacity: f64,
}

impl Quantum {
    fn new(memory: f64, bytes: f64) -> Quantum {
        Quantum { bytes, capacity: (memory / bytes).floor() }
    }
}

/// Whole quanta of a class; if rounding leaves the last one in doubt, it is not counted.
pub(super) fn slots(bytes: f64, quantum: f64) -> f64 {
    (round_down(bytes) / quantum).floor()
}

impl Store {
    /// Whether a device may hold a class.
    pub(super) fn holds(&self, bytes: f64) -> bool {
        fits(round_down(bytes), self.memory)
    }

    /// The scarce quanta: those of which all classes, given by bytes and number, need more than all devices have. If
    /// the finest is scarce, it comes first. O(classes · quanta).
    pub(super) fn scarce(&self, classes: impl Iterator<Item = (f64, f64)> + Clone) -> Vec<Quantum> {
        let total: f64 = classes.clone().map(|(bytes, count)| count * bytes).sum();
        let limit = self.memory * (1.0 + MEMORY_RELATIVE);
        if self.devices == 0.0 || limit.is_infinite() || limit <= 0.0 || total <= self.memory {
            return Vec::new();
        }
        let mut sizes: Vec<(f64, f64)> = classes.clone().filter(|class| class.0 > 0.0).collect();
        sizes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let merged = sizes.chunk_by(|a, b| a.0 == b.0);
        let mut sizes: Vec<(f64, f64)> =
            merged.map(|alike| (alike[0].0, alike.iter().map(|class| class.0 * class.1).sum())).collect();
        sizes.sort_by(|a, b| b.1.total_cmp(&a.1));
        // For each size, the number of such classes that fit into one device.
        let of_sizes = sizes.iter().take(MAX_SIZES).map(|&(bytes, _)| (limit / bytes).floor());
        let mut counts: Vec<f64> = FEW.into_iter().chain(of_sizes).filter(|&count| count >= 1.0).collect();
        counts.sort_unstable_by(f64::total_cmp);
        counts.dedup();
        // Quanta such that `count` + 1 classes of one quantum each just fail to fit.
        let coarse = counts.into_iter().map(|count| limit / (count + 1.0) * (1.0 + OPTIMAL_RELATIVE));
        let all = std::iter::once(self.memory / FINE).chain(coarse);
        all.map(|bytes| Quantum::new(limit, bytes))
            .filter(|quantum| {
                let needed: f64 =
                    classes.clone().map(|(bytes, count)| count * slots(bytes, quantum.bytes)).sum();
                needed > self.devices * quantum.capacity
            })
            .collect()
    }
}
