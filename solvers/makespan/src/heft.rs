//! Heterogeneous earliest finish time.
//!
//! Operators are placed in order of decreasing upward rank, each on the device on which it ends first; they may fill
//! gaps. If transfers queue for ports, the estimated end accounts for the transfers added before.
//!
//! Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
//! computing", IEEE TPDS 2002. With ports as in Sinnen and Sousa, "Communication contention in task scheduling",
//! IEEE TPDS 2005.

use stagewright_core::solver::Stop;

use super::list::{ListScheduler, fill_in_order};
use super::partial_schedule::PartialSchedule;
use super::rank;

/// Earliest finish by upward rank.
pub static HEFT: ListScheduler = ListScheduler {
    name: "heft",
    summary: "heterogeneous earliest finish time (makespan)",
    fill,
    is_one_pass: true,
};

/// Fills a partial schedule by HEFT. O(operators · devices · (inputs + gaps)).
fn fill(partial: &mut PartialSchedule<'_, '_>, stop: &Stop) -> Option<()> {
    let ranks = rank::upward(partial.instance());
    let order = rank::falling(partial.instance(), &ranks);
    fill_in_order(partial, &order, stop, |partial, op, device| partial.probe(op, device)[1])
}
