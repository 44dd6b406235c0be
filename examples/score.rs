//! Scores 10,000 random placements with the evaluator that all solvers share: `cargo run --release --example score`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use rand::RngExt;
use stagewright::core::seed;
use stagewright::core::simulate::simulate_all;
use stagewright::prelude::*;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layers = 40;
    let mut graph = GraphBuilder::new("two branches");
    for index in 0..layers {
        graph.operator(operator(format!("layer{index}")).seconds("gpu", 1e-3));
    }
    for index in 2..layers {
        graph.tensor(&format!("layer{}", index - 2), [format!("layer{index}").as_str()], 1e6);
    }
    let mut cluster = ClusterBuilder::new("four GPUs");
    cluster.kind(devices("gpu", 4).link(1e10, 1e-5));
    let objective = Objective::Makespan { execution: Execution::Ports };
    let problem = Problem::new(graph.build()?, cluster.build()?, objective)?;

    let mut rng = seed::stream(1, 0);
    let placements: Vec<Placement> = (0..10_000)
        .map(|_| Placement::new((0..layers).map(|_| DeviceId(rng.random_range(0..4))).collect()))
        .collect();
    let started = std::time::Instant::now();
    let best = simulate_all(&problem, &placements)
        .iter()
        .map(|outcome| outcome.makespan)
        .fold(f64::INFINITY, f64::min);
    let elapsed = started.elapsed().as_secs_f64();
    println!("best of {} placements: {:.3} ms, in {elapsed:.3} s", placements.len(), 1e3 * best);
    println!("one of them in full: {:.3} ms", 1e3 * evaluate(&problem, &placements[0]).value);
    Ok(())
}
