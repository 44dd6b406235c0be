//! A graph and a cluster built in code: `cargo run --example by_hand`.
//!
//! Eight layers, one of which is four times as slow, on two fast devices and a slow one.

#![allow(clippy::print_stdout, reason = "an example prints")]

use stagewright::prelude::*;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut graph = GraphBuilder::new("eight layers");
    let name = |layer: usize| format!("layer{layer}");
    for layer in 0..8 {
        let fast = if layer == 3 { 4e-3 } else { 1e-3 };
        graph.operator(
            operator(name(layer)).seconds("fast", fast).seconds("slow", 2.0 * fast).parameters(1e9),
        );
    }
    for layer in 1..8 {
        graph.tensor(&name(layer - 1), [name(layer).as_str()], 1e6);
    }

    let mut cluster = ClusterBuilder::new("two kinds");
    for (kind, count) in [("fast", 2), ("slow", 1)] {
        cluster.kind(devices(kind, count).memory(16e9).link(1e10, 1e-5));
    }

    let problem = Problem::new(graph.build()?, cluster.build()?, Objective::default())?;
    let solution = solve(&problem, &Options::default())?;
    let Some(plan) = solution.plan else { return Err(solution.reason.unwrap_or_default().into()) };
    println!("a batch every {:.2} ms, at least {:.2} ms", 1e3 * plan.value(), 1e3 * solution.bound.value);
    for op in problem.graph().operators() {
        let device = problem.cluster().device_name(plan.placement.device_of(op));
        println!("{} on {device}", problem.graph().operator(op).name);
    }
    Ok(())
}
