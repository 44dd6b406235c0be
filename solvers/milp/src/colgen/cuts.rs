//! The nets of column generation: nets with equal pins are merged, nets without cost are dropped.

use rustc_hash::FxHashMap;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::id;
use stagewright_core::ids::Keyed;

id! {
    /// Index of a merged net.
    pub CutId;
}

/// Nets over units, with their seconds on the link of each pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cuts {
    pins: Keyed<CutId, Vec<UnitId>>,
    seconds: Keyed<CutId, Vec<f64>>,
}

impl Cuts {
    /// The nets of a contracted problem. O(pools · nets + pins).
    pub fn new(units: &Units) -> Cuts {
        let mut cuts = Cuts::default();
        let mut at_pins: FxHashMap<&[UnitId], CutId> = FxHashMap::default();
        for net in units.nets().ids() {
            let seconds: Vec<f64> = (0..units.pools()).map(|pool| units.transfer(net, pool)).collect();
            if seconds.iter().all(|&seconds| seconds == 0.0) {
                continue;
            }
            let index = *at_pins.entry(units.pins(net)).or_insert_with_key(|pins| {
                cuts.pins.push(pins.to_vec());
                cuts.seconds.push(vec![0.0; units.pools()])
            });
            for (sum, seconds) in cuts.seconds[index].iter_mut().zip(seconds) {
                *sum += seconds;
            }
        }
        cuts
    }

    /// Number of nets.
    pub fn len(&self) -> usize {
        self.pins.len()
    }

    /// Whether there are no nets.
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// The nets.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = CutId> + ExactSizeIterator + Clone + use<> {
        self.pins.ids()
    }

    /// The pins of a net: at least two units, ascending.
    pub fn pins(&self, net: CutId) -> &[UnitId] {
        &self.pins[net]
    }

    /// Seconds of a net over the link of a pool.
    pub fn seconds(&self, net: CutId, pool: usize) -> f64 {
        self.seconds[net][pool]
    }

    /// Maximum seconds of a net over all pools.
    pub fn most_seconds(&self, net: CutId) -> f64 {
        self.seconds[net].iter().copied().fold(0.0, f64::max)
    }

    /// The nets for which `keep` holds. Dropping nets relaxes every load.
    pub fn only(&self, keep: impl Fn(CutId) -> bool) -> Cuts {
        let kept = || self.ids().filter(|&net| keep(net));
        Cuts {
            pins: kept().map(|net| self.pins[net].clone()).collect(),
            seconds: kept().map(|net| self.seconds[net].clone()).collect(),
        }
    }
}
