//! Problems for the tests of learned solvers.

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{Execution, ObjectiveKind};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;

use crate::random::{self, Size};

/// A random makespan problem.
pub fn step(number: u64, operators: usize, devices: u32) -> Problem {
    let problem = random::problem(number, Size { operators, devices, groups: number.is_multiple_of(2) });
    let execution = if number % 3 == 1 { Execution::ContentionFree } else { Execution::Ports };
    let objective = Objective::Makespan { execution };
    problem.with_objective(objective).expect("a valid objective")
}

/// A random problem of contiguous splits.
pub fn split(number: u64, operators: usize, devices: u32) -> Problem {
    let problem = random::problem(number, Size { operators, devices, groups: false });
    problem.with_objective(Objective::default()).expect("a valid objective")
}

/// A problem with an empty graph and two devices.
pub fn empty(kind: ObjectiveKind) -> Problem {
    let cluster = step(1, 2, 2).cluster().document().clone();
    let graph = GraphBuilder::new("nothing").build().expect("a valid graph");
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    Problem::new(graph, cluster, kind).expect("a valid problem")
}
