//! Local search: single colocation classes move to other devices while the worst case improves.

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Split;
use stagewright_core::graph::ClassId;
use stagewright_core::ids::Id;
use stagewright_core::placement::Placement;
use stagewright_core::solver::{Context, Event, Plan};
use stagewright_core::tolerance;

use super::search::Search;

/// Maximum number of operators evaluated in all moves, which takes a few seconds.
const MOST_WORK: usize = 40_000_000;

/// Improves the plan of a split without stage order and replicas. Repeatedly makes the first move of a class that
/// helps, until no move helps or the work limit is reached. Each move takes the time of an evaluation.
pub(super) fn improve(search: &mut Search<'_>, context: &mut Context<'_>) {
    let problem = search.problem;
    let (graph, rules) = (problem.graph(), problem.objective().rules());
    if rules.split == Split::Contiguous || rules.max_replicas > 1 || search.is_enough(context) {
        return;
    }
    context.emit(Event::Phase { name: "moves of classes".into() });
    let devices: Vec<DeviceId> = problem.cluster().devices().collect();
    let mut moves = MOST_WORK / (graph.operator_count() + graph.tensor_count()).max(1);
    loop {
        let before = search.best.worst.value;
        for class in ClassId::first(graph.class_count()) {
            for &device in &devices {
                if moves == 0 || context.stop().reason().is_some() {
                    return;
                }
                let class = graph.class(class);
                if search.best.plan.placement.device_of(class[0]) == device {
                    continue;
                }
                moves -= 1;
                let mut device_of: Vec<DeviceId> =
                    graph.operators().map(|op| search.best.plan.placement.device_of(op)).collect();
                for op in class {
                    device_of[op.index()] = device;
                }
                if let Ok(plan) = Plan::try_new(problem, Placement::new(device_of)) {
                    search.keep(plan);
                }
            }
        }
        if tolerance::same(search.best.worst.value, before) {
            return;
        }
    }
}
