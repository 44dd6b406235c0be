//! Predict earliest finish time.
//!
//! The optimistic cost of an operator on a device is the longest path that remains after the operator has run there,
//! with every later operator on its best device and no contention:
//!
//! ```text
//! O(v, d) = max over readers w of min over e of O(w, e) + p(w, e) + [d ≠ e] x(v, w)
//! ```
//!
//! Among the ready operators, the one with the highest mean optimistic cost is next, and it goes to the device that
//! minimises the sum of its end and its optimistic cost. Devices of a pool have the same costs, so the table has a
//! column for each pool; a transfer between two devices of a pool therefore counts as free. A problem with pinned
//! operators has a column for each device that pins distinguish.
//!
//! Arabnejad and Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table", IEEE
//! TPDS 2014.

use stagewright_core::graph::OpId;
use stagewright_core::solver::Stop;

use super::instance::Instance;
use super::list::{ListScheduler, fill_in_order, ready_order};
use super::partial_schedule::PartialSchedule;

/// Earliest finish with an optimistic lookahead.
pub static PEFT: ListScheduler = ListScheduler {
    name: "peft",
    summary: "predict earliest finish time, by an optimistic cost table (makespan)",
    fill,
    is_one_pass: true,
};

/// Fills a partial schedule by PEFT. O(edges · pools + operators · devices · (inputs + gaps)).
fn fill(partial: &mut PartialSchedule<'_, '_>, stop: &Stop) -> Option<()> {
    let instance = partial.instance();
    let pools = instance.pool_count();
    let ahead = optimistic(instance);
    let priority: Vec<f64> = instance.graph().operators().map(|op| mean(instance, &ahead, op)).collect();
    let order = ready_order(instance.graph(), &priority);
    fill_in_order(partial, &order, stop, |partial, op, device| {
        partial.probe(op, device)[1] + ahead[op.index() * pools + instance.problem().pool_of(device)]
    })
}

/// The table of optimistic costs, by operator and pool.
fn optimistic(instance: &Instance<'_>) -> Vec<f64> {
    let (graph, pools) = (instance.graph(), instance.pool_count());
    let mut ahead = vec![0.0f64; graph.operator_count() * pools];
    // Cost O(w, e) + p(w, e) of a reader, by pool.
    let mut after = vec![0.0f64; pools];
    for &op in graph.topological().iter().rev() {
        for &tensor in graph.outputs(op) {
            let sent = instance.mean_transfer(tensor);
            for &reader in graph.consumers(tensor) {
                for (pool, after) in after.iter_mut().enumerate() {
                    *after = ahead[reader.index() * pools + pool] + instance.seconds_on(reader, pool);
                }
                let elsewhere = after.iter().copied().fold(f64::INFINITY, f64::min) + sent;
                for (pool, &here) in after.iter().enumerate() {
                    let cost = &mut ahead[op.index() * pools + pool];
                    *cost = cost.max(here.min(elsewhere));
                }
            }
        }
    }
    ahead
}

/// Mean of an operator's row over the devices that may run it.
fn mean(instance: &Instance<'_>, ahead: &[f64], op: OpId) -> f64 {
    let row = &ahead[op.index() * instance.pool_count()..(op.index() + 1) * instance.pool_count()];
    let homes = instance.homes(op);
    let sum: f64 = homes.iter().map(|&device| row[instance.problem().pool_of(device)]).sum();
    if homes.is_empty() { 0.0 } else { sum / homes.len() as f64 }
}
