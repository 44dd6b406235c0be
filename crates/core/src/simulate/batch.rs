//! Parallel simulation of many placements.

use rayon::prelude::*;

use super::{Flow, Simulator, Template};
use crate::placement::Placement;
use crate::problem::Problem;

/// Makespan and peak memory of a placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Seconds of the step.
    pub makespan: f64,
    /// Peak bytes of every device.
    pub peak_bytes: Vec<f64>,
}

/// Simulates every placement independently, in parallel on the threads of the current rayon pool. The
/// outcomes are in the order of the placements and do not depend on the number of threads.
///
/// # Panics
/// If a placement was made for another graph or cluster, or there are more than 2³⁰ operators or transfers.
pub fn simulate_all(problem: &Problem, placements: &[Placement]) -> Vec<Outcome> {
    let template = Template::new(problem);
    let workspace = || (Simulator::new(), template.clone(), Flow::default());
    let outcome = |(simulator, template, spare): &mut (Simulator, Template, Flow), placement: &Placement| {
        let flow = template.flow_of(placement, std::mem::take(spare));
        let timeline = simulator.run(&flow);
        let outcome = Outcome { makespan: timeline.makespan(), peak_bytes: timeline.peak_bytes().to_vec() };
        *spare = flow;
        outcome
    };
    placements.par_iter().map_init(workspace, outcome).collect()
}
