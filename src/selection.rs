//! Requirements on plans and second goals: see [`stagewright_search::selection`].

use stagewright_core::document::{RequirementsDocument, SecondGoalDocument};
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::tolerance;

pub use stagewright_search::selection::{
    Requirements, Second, SecondFound, Selected, Selection, measured, shortfall, solve,
};

/// The requirements in a plan document; `None` if nothing is required.
pub fn requirements(graph: &Graph, requirements: &Requirements) -> Option<RequirementsDocument> {
    let names = |group: &Vec<OpId>| group.iter().map(|&op| graph.operator(op).name.clone()).collect();
    let Requirements { stages, all_devices, alone } = requirements;
    let document = RequirementsDocument {
        stages: *stages,
        all_devices: *all_devices,
        alone: alone.iter().map(names).collect(),
    };
    (!requirements.is_empty()).then_some(document)
}

/// The second goal in a plan document.
pub fn second_goal(second: Second, found: SecondFound) -> SecondGoalDocument {
    let SecondFound { best, value, bound } = found;
    SecondGoalDocument {
        goal: second.goal,
        within: second.within,
        best_s: best,
        value,
        bound,
        gap: tolerance::gap(value, bound),
    }
}
