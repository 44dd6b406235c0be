//! Lower bounds for every split rule that count communication, by minimum cuts around single units.
//!
//! Whatever a device holds besides a unit, it pays for the nets that leave it: the least load of any set that holds the
//! unit is a minimum cut with the unit tied to the source. The largest of these over the units bounds the value
//! ([`Anchored`]); and what each unit must pay in communication for every second of work, summed over all of them,
//! bounds it as the fluid bound does, with communication no longer free ([`AnchoredFluid`]).

mod around;
mod fluid;
mod unit;

pub use fluid::AnchoredFluid;
pub use unit::Anchored;

use stagewright_core::document::{Communication, ObjectiveKind};
use stagewright_core::problem::Problem;

/// How much a bound may look at. The bounds are valid whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Units around an anchor beyond which the rest of the graph is left out, as costing nothing.
    pub neighbourhood: usize,
    /// Units and pins of all networks together after which the bound so far stands.
    pub work: usize,
}

impl Effort {
    /// 2¹² units around an anchor; a work of 2²⁴, which is a matter of seconds.
    pub const DEFAULT: Effort = Effort { neighbourhood: 1 << 12, work: 1 << 24 };
}

impl Default for Effort {
    fn default() -> Effort {
        Effort::DEFAULT
    }
}

/// Whether a load is the sum of compute and communication, which is what the cuts add up.
fn serial_throughput(problem: &Problem) -> bool {
    let objective = problem.objective();
    objective.kind == ObjectiveKind::Throughput && objective.communication == Communication::Serial
}
