//! The nets of a problem as minimum cuts see them.

use rustc_hash::FxHashMap;
use stagewright_core::contract::Units;

/// Nets with the same pins as one, at the least time of any pool; those that cost nothing are left out.
#[derive(Debug)]
pub(super) struct MergedNets {
    /// One of the nets that have these pins.
    pub(super) representative: Vec<usize>,
    /// Seconds to move all of them once, on the kind of device where that takes least.
    pub(super) seconds: Vec<f64>,
}

impl MergedNets {
    pub(super) fn new(units: &Units) -> MergedNets {
        let mut place: FxHashMap<&[u32], usize> = FxHashMap::default();
        let mut merged = MergedNets { representative: Vec::new(), seconds: Vec::new() };
        for net in 0..units.nets().len() {
            let pools = 0..units.pools();
            let seconds = pools.map(|pool| units.transfer(net, pool)).fold(f64::INFINITY, f64::min);
            if seconds > 0.0 && seconds.is_finite() {
                let at = *place.entry(units.pins(net)).or_insert_with(|| {
                    merged.representative.push(net);
                    merged.seconds.push(0.0);
                    merged.representative.len() - 1
                });
                merged.seconds[at] += seconds;
            }
        }
        merged
    }

    /// Number of nets.
    pub(super) fn len(&self) -> usize {
        self.seconds.len()
    }
}
