//! Lower bounds for every split rule that count communication, by minimum cuts around single units.
//!
//! A device pays for every net that leaves its units, so the minimum load of a set that contains a given unit is a
//! minimum cut with the unit tied to the source. The largest of these loads over all units is a lower bound on the
//! value ([`Anchored`]). The communication that each unit must pay per second of work, summed over all units,
//! strengthens the fluid bound, in which communication is free ([`AnchoredFluid`]).

mod around;
mod fluid;
mod unit;

pub use fluid::AnchoredFluid;
pub use unit::Anchored;

use stagewright_core::document::{Communication, ObjectiveKind};
use stagewright_core::problem::Problem;

/// Work limits of a bound, which is valid for every choice of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnchoredEffort {
    /// Maximum number of units around an anchor; the rest of the graph counts as free.
    pub neighbourhood: usize,
    /// Maximum total number of units and pins over all networks; when it is reached, the bound found so far is
    /// returned.
    pub work: usize,
}

impl AnchoredEffort {
    /// 2¹² units around an anchor and 2²⁴ units of work, a matter of seconds.
    pub const DEFAULT: AnchoredEffort = AnchoredEffort { neighbourhood: 1 << 12, work: 1 << 24 };
}

impl Default for AnchoredEffort {
    fn default() -> AnchoredEffort {
        AnchoredEffort::DEFAULT
    }
}

/// Whether a load is the sum of compute and communication, as the cuts assume.
fn serial_throughput(problem: &Problem) -> bool {
    let objective = problem.objective();
    objective.kind() == ObjectiveKind::Throughput && objective.rules().communication == Communication::Serial
}
