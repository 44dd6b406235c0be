//! A lower bound of your own beside the built-in bounds: `cargo run --example own_bound`.
//!
//! A producer and a reader of its tensor either share a device, which then computes both, or each of their devices pays
//! for the transfer. So for every pair, the time per sample is at least the smaller of the two.

#![allow(clippy::print_stdout, reason = "an example prints")]

use stagewright::core::bound::{Bound, LowerBound, strongest, strongest_of};
use stagewright::core::tolerance::round_down;
use stagewright::prelude::*;
use stagewright::workloads;

/// The bound from pairs of a producer and a reader: the maximum over all pairs.
struct Neighbours;

impl Bound for Neighbours {
    fn name(&self) -> &'static str {
        "neighbours"
    }

    fn applies(&self, problem: &Problem) -> bool {
        // With replicas or under a schedule, the load of a stage may be less than the time of its operators.
        *problem.objective() == Objective::default()
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        let graph = problem.graph();
        // The minimum over all pools that may run the operators.
        let least = |seconds: &dyn Fn(usize) -> Option<f64>| {
            (0..problem.pools().len()).filter_map(seconds).min_by(f64::total_cmp)
        };
        let mut value: f64 = 0.0;
        for tensor in graph.tensors() {
            let transfer = |pool: usize| problem.costs().transfer(tensor, problem.pools()[pool].kind);
            let alone = |op: OpId| least(&|pool| Some(problem.seconds(op, pool)? + transfer(pool)));
            let producer = graph.producer(tensor);
            for &reader in graph.consumers(tensor) {
                let both = |pool| Some(problem.seconds(producer, pool)? + problem.seconds(reader, pool)?);
                let together = least(&both).unwrap_or(f64::INFINITY);
                value = value.max(together.min(alone(producer)?.max(alone(reader)?)));
            }
        }
        Some(LowerBound { value: round_down(value), source: self.name(), certificate: None })
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let document = workloads::family("bert")?.generate(None, &workloads::Options::default())?;
    let graph = Graph::from_document(document)?;
    let cluster = Cluster::from_document(stagewright::clusters::find("8xa100")?)?;
    let problem = Problem::new(graph, cluster, Objective::default())?;
    let known = strongest(&problem);
    let own = strongest_of(&[&Neighbours], &problem);
    let solution = solve(&problem, &Options::default())?;
    let value = solution.value().ok_or("no placement fits the devices")?;
    for bound in [own, known] {
        println!("{:<14} at least {:.3} ms", bound.source, 1e3 * bound.value);
        if bound.value > value {
            return Err(format!("{} exceeds a value of {value} s", bound.source).into());
        }
    }
    println!("{:<14} {:.3} ms", solution.solver, 1e3 * value);
    Ok(())
}
