//! Requirements on a plan and a second goal: from options, into the plan document, and the note on devices without work.

use std::collections::BTreeSet;

use stagewright_core::document::{GraphDocument, PlanDocument, SecondGoal};
use stagewright_core::graph::OpId;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Solution;
use stagewright_formats::matching;

use crate::code::{U001, U013};
use crate::failure::{Failure, Result};
use crate::nearest::instead;
use crate::reading::Place;
use crate::selection::{self, Requirements, Second, SecondFound, Selection, measured};
use crate::tasks::SelectionOptions;

/// Maximum number of groups that are alone: a problem is solved for every choice of pools for them.
const MOST_ALONE: usize = 4;

/// The selection that options ask for.
///
/// # Errors
/// A share that is not from 0 to 1, a second goal without a share, a pattern that matches no operator, operators in two
/// groups, and too many groups (U001).
pub(super) fn selection(
    options: &SelectionOptions,
    graph: &GraphDocument,
    place: &Place,
) -> Result<Selection> {
    let SelectionOptions { stages, all_devices, alone, within, then, max_hops: _ } = options;
    let option = |name: &str| place(name);
    let wrong = |name: &str, cause: String| Failure::new(U001, cause).at(option(name));
    if alone.len() > MOST_ALONE {
        let cause = format!("{} stages are reserved, at most {MOST_ALONE} can be", alone.len());
        return Err(wrong("alone", cause).help("leave some of them out"));
    }
    let mut groups: Vec<Vec<OpId>> = Vec::new();
    let mut seen = BTreeSet::new();
    for pattern in alone {
        let group: Vec<OpId> = matching(graph, pattern).into_iter().map(OpId::new).collect();
        let name = |op: &OpId| graph.operators[op.index()].name.as_str();
        if group.is_empty() {
            let names = graph.operators.iter().map(|operator| operator.name.as_str());
            let cause = format!("`{pattern}` matches no operator");
            return Err(wrong("alone", cause).help(instead(pattern, names)));
        }
        if let Some(op) = group.iter().find(|&&op| !seen.insert(op)) {
            let cause = format!("two stages are for `{}` alone", name(op));
            return Err(wrong("alone", cause).help("name every operator in one pattern"));
        }
        groups.push(group);
    }
    let second = match (within, then) {
        (Some(within), Some(_)) if !(0.0..=1.0).contains(within) => {
            return Err(wrong("within", format!("the share is {within}"))
                .help("give a share such as 1%, at most 100%"));
        }
        (Some(within), Some(goal)) => Some(Second { goal: *goal, within: *within }),
        (None, None) => None,
        (Some(_), None) => {
            return Err(wrong("within", "a share without a second goal".into()).help(option("then")));
        }
        (None, Some(_)) => {
            return Err(wrong("then", "a second goal without a share".into()).help(option("within")));
        }
    };
    Ok(Selection {
        requirements: Requirements { stages: *stages, all_devices: *all_devices, alone: groups },
        second,
    })
}

/// Refuses a selection where it has no effect: in comparisons.
///
/// # Errors
/// Requirements or a second goal (U013).
pub(super) fn refuse(selection: &Selection) -> Result<()> {
    if *selection == Selection::default() {
        return Ok(());
    }
    let cause = "requirements on plans and second goals do not apply to comparisons";
    Err(Failure::new(U013, cause).help("leave them out, or compare plans that were made with them"))
}

/// Writes the requirements and the second goal into a plan document.
pub(super) fn write(
    selection: &Selection,
    problem: &Problem,
    found: Option<SecondFound>,
    document: &mut PlanDocument,
) {
    document.requirements = selection::requirements(problem.graph(), &selection.requirements);
    document.second_goal =
        selection.second.zip(found).map(|(second, found)| selection::second_goal(second, found));
}

/// A note if devices have no work; hosts do not count.
pub(super) fn idle(problem: &Problem, solution: &Solution, place: &Place) -> Option<String> {
    let plan = solution.plan.as_ref()?;
    let pools = problem.pools().iter();
    let devices: u32 = pools.filter(|pool| !pool.host).map(|pool| pool.count()).sum();
    let hosts_only = problem.pools().iter().all(|pool| pool.host);
    let used = measured(problem, SecondGoal::Devices, &plan.evaluation) as u32;
    let idle = devices.saturating_sub(used);
    (idle > 0 && !plan.evaluation.devices.is_empty() && !hosts_only).then(|| {
        format!("note: devices without work: {idle} of {devices}; {} uses every one", place("all_devices"))
    })
}
