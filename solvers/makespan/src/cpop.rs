//! Critical path on a processor.
//!
//! The priority of an operator is the sum of its upward and downward rank: the longest path through it. The
//! operators of one longest path all go to the device that runs them fastest, the others to the device on
//! which they end first. Among ready operators, the one with the highest priority is next.
//!
//! Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
//! computing", IEEE TPDS 2002.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::solver::Stop;

use super::instance::Instance;
use super::list::{ListScheduler, fill_in_order, ready_order};
use super::partial_schedule::PartialSchedule;
use super::rank;

/// List scheduling with the critical path on one device.
pub static CPOP: ListScheduler = ListScheduler {
    name: "cpop",
    summary: "critical path on a processor (makespan)",
    fill,
    is_one_pass: true,
};

/// Fills a partial schedule by CPOP. O(operators · devices · (inputs + gaps)).
fn fill(partial: &mut PartialSchedule<'_, '_>, stop: &Stop) -> Option<()> {
    let instance = partial.instance();
    let (up, down) = (rank::upward(instance), rank::downward(instance));
    let through: Vec<f64> = up.iter().zip(&down).map(|(up, down)| up + down).collect();
    let critical = critical_path(instance, &through);
    let home = fastest(instance, &critical);
    let mut is_critical = vec![false; through.len()];
    critical.iter().for_each(|op| is_critical[op.index()] = true);
    let order = ready_order(instance.graph(), &through);
    fill_in_order(partial, &order, stop, |partial, op, device| {
        match is_critical[op.index()] && Some(device) == home {
            true => f64::NEG_INFINITY,
            false => partial.probe(op, device)[1],
        }
    })
}

/// One longest path from the beginning to the end.
fn critical_path(instance: &Instance<'_>, through: &[f64]) -> Vec<OpId> {
    let graph = instance.graph();
    let longest = |ops: &mut dyn Iterator<Item = OpId>| {
        // Ties go to the first operator.
        ops.fold(None, |best: Option<OpId>, op| match best {
            Some(best) if through[best.index()] >= through[op.index()] => Some(best),
            _ => Some(op),
        })
    };
    let mut next = longest(&mut graph.operators().filter(|&op| graph.predecessors(op).is_empty()));
    let mut path = Vec::new();
    while let Some(op) = next {
        path.push(op);
        next = longest(&mut graph.successors(op).iter().copied());
    }
    path
}

/// The device that runs all given operators in the least time, if any device can.
fn fastest(instance: &Instance<'_>, ops: &[OpId]) -> Option<DeviceId> {
    let mut best: Option<(f64, DeviceId)> = None;
    for device in instance.problem().cluster().devices() {
        let seconds: f64 = ops.iter().map(|&op| instance.seconds(op, device)).sum();
        if seconds.is_finite() && best.is_none_or(|(least, _)| seconds < least) {
            best = Some((seconds, device));
        }
    }
    best.map(|(_, device)| device)
}
