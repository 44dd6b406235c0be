//! Values of many placements of one problem.

use super::constraint::check_colocation;
use super::evaluate;
use crate::cluster::DeviceId;
use crate::document::ObjectiveKind;
use crate::graph::OpId;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::simulate::{Flow, Simulator, Template};
use crate::tolerance;

/// Evaluates placements of one problem one after another, reusing memory between them.
#[derive(Debug, Clone)]
pub struct Values<'p> {
    problem: &'p Problem,
    simulation: Option<(Simulator, Template<'p>, Flow)>,
}

impl<'p> Values<'p> {
    /// Prepares a problem, in O(operators · pools).
    pub fn new(problem: &'p Problem) -> Values<'p> {
        let simulation = (problem.objective().kind() == ObjectiveKind::Makespan)
            .then(|| (Simulator::new(), Template::new(problem), Flow::default()));
        Values { problem, simulation }
    }

    /// The value of a placement, or infinity if the placement violates a constraint. This is the value of [`evaluate`],
    /// which also returns loads and violations.
    ///
    /// # Panics
    /// If the placement was made for another graph or cluster.
    pub fn of(&mut self, placement: &Placement) -> f64 {
        let problem = self.problem;
        let graph = problem.graph();
        let runs = |op: OpId| problem.seconds(op, problem.pool_of(placement.device_of(op))).is_some();
        if !graph.operators().all(runs) {
            return f64::INFINITY;
        }
        let Some((simulator, template, spare)) = &mut self.simulation else {
            let evaluation = evaluate(problem, placement);
            return if evaluation.is_feasible() { evaluation.value } else { f64::INFINITY };
        };
        let mut violations = Vec::new();
        check_colocation(problem, placement, &mut violations);
        // A priority that is not a permutation cannot be simulated, whatever else is wrong with the placement.
        if !violations.is_empty() || !is_permutation(placement.priority(), graph.operator_count()) {
            return f64::INFINITY;
        }
        let flow = template.flow_of(placement, std::mem::take(spare));
        let timeline = simulator.run(&flow);
        let fits = |device: DeviceId| {
            let limit = problem.pools()[problem.pool_of(device)].memory;
            tolerance::fits(timeline.peak_bytes()[device.index()], limit)
        };
        let value = if problem.cluster().devices().all(fits) { timeline.makespan() } else { f64::INFINITY };
        *spare = flow;
        value
    }
}

/// Whether a priority is empty or names every operator once.
fn is_permutation(priority: &[OpId], count: usize) -> bool {
    if priority.is_empty() {
        return true;
    }
    let mut seen = vec![false; count];
    priority.len() == count && priority.iter().all(|op| !std::mem::replace(&mut seen[op.index()], true))
}
