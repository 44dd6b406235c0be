//! A custom method beside the built-in solvers: `cargo run --example own_solver`.
//!
//! The method fills one device after the other up to an equal share of the work.

#![allow(clippy::print_stdout, reason = "an example prints")]

use stagewright::core::bound::strongest;
use stagewright::prelude::*;
use stagewright::workloads;

/// Fills the devices with equal work, in topological order.
struct Fill;

impl Solver for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }

    fn summary(&self) -> &'static str {
        "one device after the other, up to an equal share of the work"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        (objective.kind() != ObjectiveKind::Throughput).then_some("objectives other than throughput")
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        let graph = problem.graph();
        let seconds = |op| problem.seconds(op, 0).unwrap_or(0.0);
        let share = graph.operators().map(seconds).sum::<f64>() / problem.cluster().device_count() as f64;
        let mut done = 0.0;
        let mut device_of_class = vec![None; graph.class_count()];
        let mut device_of = vec![DeviceId(0); graph.operator_count()];
        for op in graph.work_order() {
            let device = DeviceId(((done / share) as u32).min(problem.cluster().device_count() as u32 - 1));
            // All operators that must share a device follow the first of them.
            device_of[op.index()] = *device_of_class[graph.class_of(op).index()].get_or_insert(device);
            done += seconds(op);
        }
        let bound = strongest(problem);
        let stop = context.stop().reason();
        Ok(match Plan::try_new(problem, Placement::new(device_of)) {
            Ok(plan) => Solution::with_plan(self.name(), plan, bound, stop),
            Err(broken) => {
                Solution::without_plan(self.name(), Status::Unknown, bound, stop, broken.to_string())
            }
        })
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let document = workloads::family("bert")?.generate(None, &workloads::Options::default())?;
    let graph = Graph::from_document(document)?;
    let cluster = Cluster::from_document(stagewright::clusters::find("4xa100")?)?;
    let objective = Throughput { split: Split::Free, ..Throughput::default() };
    let problem = Problem::new(graph, cluster, objective)?;
    let options = Options::default().time_limit(Some(std::time::Duration::from_secs(2)));
    for options in [options.clone().solver(Fill), options.clone().solver_named("one-device")?, options] {
        let solution = solve(&problem, &options)?;
        let value =
            solution.value().map_or_else(|| "no plan".into(), |value| format!("{:.3} ms", 1e3 * value));
        println!("{:<12} {value}, at least {:.3} ms", solution.solver, 1e3 * solution.bound.value);
    }
    Ok(())
}
