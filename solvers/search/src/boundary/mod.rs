//! Stage boundaries as minimum cuts: a lower bound that counts communication, and a refinement of plans.
//!
//! A contiguous split is a chain of ideals, sets of units closed under predecessors, and the communication between its
//! stages is what the boundaries of the chain cut. A minimum cut over the units that may be on either side of a
//! boundary bounds the cost of the boundary from below ([`BoundaryCuts`]), and a minimum cut between two neighbouring
//! stages improves a plan ([`Boundaries::refined`]). Both methods scale to graphs of 10⁵ operators, whose ideals cannot
//! be enumerated.

mod cuts;
mod reach;
mod refine;
mod region;

pub use cuts::{BoundaryCuts, NoCuts};

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

use crate::flow::MergedNets;
use reach::Reach;

/// Data of a problem's units shared by the bound and the refinement.
#[derive(Debug)]
pub struct Boundaries<'a> {
    units: &'a Units,
    /// Minimum seconds of each unit over the pools.
    weight: Keyed<UnitId, f64>,
    total: f64,
    nets: MergedNets,
    reach: Reach,
}

impl<'a> Boundaries<'a> {
    /// Prepares units; `None` if no net costs anything, some unit can run nowhere, or the solve is stopped. O(units² /
    /// 64).
    pub fn new(units: &'a Units, stop: &Stop) -> Option<Boundaries<'a>> {
        let least = |unit| {
            let on_pools = (0..units.pools()).filter_map(|pool| units.seconds(unit, pool));
            on_pools.min_by(f64::total_cmp)
        };
        let weight: Keyed<UnitId, f64> = units.ids().map(least).collect::<Option<_>>()?;
        let nets = MergedNets::new(units);
        if nets.len() == 0 {
            return None;
        }
        let reach = Reach::new(units, &weight, stop)?;
        Some(Boundaries { units, total: weight.iter().sum(), weight, nets, reach })
    }
}
