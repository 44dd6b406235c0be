//! Earliest task first, with memory (m-ETF).
//!
//! Repeatedly takes the pair of a ready operator and a device with room for it that can start first; ties go to the
//! operator with the highest upward rank.
//!
//! Hwang, Chow, Anger and Lee, "Scheduling precedence graphs in systems with interprocessor communication times",
//! SIAM J. Comput. 1989; with memory as in Jeon et al., "Baechi: fast device placement of machine learning graphs",
//! SoCC 2020.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

use super::list::{BETWEEN_CHECKS, ListScheduler, cheapest};
use super::partial_schedule::PartialSchedule;
use super::rank;

/// A ready operator with its last computed earliest start.
#[derive(Debug, PartialEq)]
struct Offer {
    start: f64,
    rank: f64,
    op: OpId,
}

impl Eq for Offer {}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Offer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Offer {
    fn cmp(&self, other: &Offer) -> Ordering {
        let by_rank = || other.rank.total_cmp(&self.rank);
        self.start.total_cmp(&other.start).then_with(by_rank).then(self.op.cmp(&other.op))
    }
}

/// Start times of operators, for a scheduler that takes the earliest.
pub(super) trait Earliest {
    /// Start of an operator on a device.
    fn start(&mut self, partial: &mut PartialSchedule<'_, '_>, op: OpId, device: DeviceId) -> f64;

    /// Called after an operator was placed on a device.
    fn took(&mut self, partial: &PartialSchedule<'_, '_>, op: OpId, device: DeviceId);
}

/// Start times of the partial schedule, without restrictions.
struct AnyTime;

impl Earliest for AnyTime {
    fn start(&mut self, partial: &mut PartialSchedule<'_, '_>, op: OpId, device: DeviceId) -> f64 {
        partial.probe(op, device)[0]
    }

    fn took(&mut self, _: &PartialSchedule<'_, '_>, _: OpId, _: DeviceId) {}
}

/// Earliest task first.
pub static EARLIEST_TASK_FIRST: ListScheduler = ListScheduler {
    name: "m-etf",
    summary: "earliest task first, with memory (makespan)",
    fill,
    is_one_pass: false,
};

/// Fills a partial schedule by m-ETF.
fn fill(partial: &mut PartialSchedule<'_, '_>, stop: &Stop) -> Option<()> {
    fill_by_start(partial, &mut AnyTime, stop)
}

/// Repeatedly adds the ready operator that can start first to the device on which it does. Start times only increase
/// while the partial schedule fills, unless another operator has already brought an input. A single offer per ready
/// operator, updated when its turn comes, is therefore enough.
pub(super) fn fill_by_start(
    partial: &mut PartialSchedule<'_, '_>,
    rule: &mut impl Earliest,
    stop: &Stop,
) -> Option<()> {
    let graph = partial.instance().graph();
    let ranks = rank::upward(partial.instance());
    let mut waits: Keyed<OpId, usize> = graph.operators().map(|op| graph.predecessors(op).len()).collect();
    let mut devices = Vec::new();
    let mut offers: BinaryHeap<Reverse<Offer>> = BinaryHeap::new();
    let offer = |start, op: OpId| Reverse(Offer { start, rank: ranks[op.index()], op });
    for op in graph.operators().filter(|&op| graph.predecessors(op).is_empty()) {
        offers.push(offer(0.0, op));
    }
    let mut looks = 0;
    while let Some(Reverse(Offer { op, .. })) = offers.pop() {
        if looks % BETWEEN_CHECKS == 0 && stop.reason().is_some() {
            return None;
        }
        looks += 1;
        let mut least = f64::INFINITY;
        let device = cheapest(partial, op, &mut devices, &mut |partial, op, device| {
            let start = rule.start(partial, op, device);
            least = least.min(start);
            start
        })?;
        let now = offer(least, op);
        // The order is reversed: a greater item is a lower offer.
        if offers.peek().is_some_and(|next| *next > now) {
            offers.push(now);
            continue;
        }
        partial.add(op, device);
        rule.took(partial, op, device);
        for &next in graph.successors(op) {
            waits[next] -= 1;
            if waits[next] == 0 {
                // A lower bound on the start of `next` on every device.
                let made = graph.predecessors(next).iter().map(|&before| partial.end(before));
                offers.push(offer(made.fold(0.0, f64::max), next));
            }
        }
    }
    Some(())
}
