//! Small random makespan problems, and placements for them.

use crate::random::{self, Size};
use rand::{Rng, RngExt};
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{Execution, GroupDocument, LinkDocument, MatrixDocument};
use stagewright_core::graph::{ClassId, Graph, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;

/// A random problem with workspace, optimiser state, two groups and sometimes a matrix. Every figure is a multiple of a
/// quarter and many are zero, so that many events coincide.
pub fn problem(number: u64) -> Problem {
    let base = random::problem(number, Size { operators: 12, devices: 6, groups: true });
    let mut rng = seed::stream(0x57E9, number);
    let mut graph = base.graph().document().clone();
    for operator in &mut graph.operators {
        operator.optimizer_bytes = f64::from(rng.random_range(0..2));
        operator.workspace_bytes = f64::from(rng.random_range(0..4));
    }
    let mut cluster = base.cluster().document().clone();
    cluster.groups.push(GroupDocument {
        name: "rack".into(),
        uplink: LinkDocument { latency_s: 0.25, bandwidth: f64::from(rng.random_range(1..=4)) },
    });
    for kind in &mut cluster.kinds {
        if kind.group.is_none() && rng.random_bool(0.5) {
            kind.group = Some("rack".into());
        }
        kind.memory_bytes = rng.random_bool(0.5).then(|| f64::from(rng.random_range(8..40)));
    }
    if rng.random_bool(0.2) {
        let devices = base.cluster().device_count();
        let quarters = |rng: &mut dyn Rng| f64::from(rng.random_range(0..8u8)) / 4.0;
        let mut rows = || (0..devices).map(|_| (0..devices).map(|_| quarters(&mut rng)).collect()).collect();
        cluster.matrix = Some(MatrixDocument { delay_s: rows(), seconds_per_byte: rows() });
    }
    let objective = Objective::Makespan { execution: Execution::Ports };
    let graph = Graph::from_document(graph).expect("a sound graph");
    let cluster = Cluster::from_document(cluster).expect("a sound cluster");
    Problem::pinned(graph, cluster, objective, base.pins().clone()).expect("a problem")
}

/// A random placement. Most place whole colocation classes on devices that can run them, and most have no priority or a
/// valid one.
pub fn placed(problem: &Problem, number: u64) -> Placement {
    let mut rng = seed::stream(0x57EA, number);
    let graph = problem.graph();
    let devices: Vec<DeviceId> = problem.cluster().devices().collect();
    let of_class: Keyed<ClassId, DeviceId> = graph
        .class_ids()
        .map(|class| {
            let runs = |device: &DeviceId| {
                let pool = problem.pool_of(*device);
                graph.class(class).iter().all(|&op| problem.seconds(op, pool).is_some())
            };
            let capable: Vec<DeviceId> = devices.iter().copied().filter(runs).collect();
            let among = if capable.is_empty() || rng.random_bool(0.03) { &devices } else { &capable };
            among[rng.random_range(0..among.len())]
        })
        .collect();
    let mut device_of: Vec<DeviceId> = graph.operators().map(|op| of_class[graph.class_of(op)]).collect();
    if rng.random_bool(0.05) {
        let stray = rng.random_range(0..device_of.len());
        device_of[stray] = devices[rng.random_range(0..devices.len())];
    }
    if rng.random_bool(0.4) {
        return Placement::new(device_of);
    }
    let mut priority: Vec<OpId> = graph.operators().collect();
    for index in 1..priority.len() {
        priority.swap(index, rng.random_range(0..=index));
    }
    if rng.random_bool(0.05) {
        let [from, to] = [0; 2].map(|_| rng.random_range(0..priority.len()));
        priority[to] = priority[from];
    }
    Placement::with_priority(device_of, priority)
}
