//! What people use instead of a search, for comparison: one kind of devices, pipelines of one kind each, equal layers, copies of one unit,
//! and one ring of all devices.

mod copies;
mod ring;

use stagewright_core::document::{ClusterDocument, PlanStatus, ServingBoundDocument, ServingPlanDocument};
use stagewright_core::solver::{Context, SolveError};
use stagewright_serving::Problem;

use crate::column::Column;
use crate::document::planned;
use crate::solution::Plan;
use crate::solver::{solve, solve_over};
use crate::space::{Size, Space};

/// A rule by which people choose replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Name of the rule.
    pub name: &'static str,
    /// Description of the choice, without a full stop.
    pub summary: &'static str,
}

/// The rules, in the order in which tables have them.
pub const RULES: &[Rule] = &[
    Rule { name: "one-kind", summary: "the best plan on devices of one kind; the others idle" },
    Rule { name: "separate", summary: "Helix's separate pipelines: no replica has devices of two kinds" },
    Rule { name: "equal-layers", summary: "all stages of a replica have equally many layers" },
    Rule {
        name: "copies",
        summary: "aiconfigurator's: on each kind, copies of one replica, or of one group for prompts and decoding",
    },
    Rule { name: "exo", summary: "exo's ring: one replica of all devices, layers in proportion to memory" },
];

/// The plan that a rule of [`RULES`] chooses, without a bound; `None` if no rule has the name. Rules that search take as long as
/// [`solve`].
///
/// # Errors
/// If threads cannot be started.
pub fn rule(
    problem: &Problem,
    cluster: &ClusterDocument,
    name: &str,
    context: &mut Context<'_>,
) -> Result<Option<ServingPlanDocument>, SolveError> {
    let equal = Problem { has_equal_layers: name == "equal-layers", ..problem.clone() };
    let plan = match name {
        "one-kind" => one_kind(problem, context)?,
        "separate" => within(problem, context, |_, size| is_of_one_kind(size))?,
        "equal-layers" => solve(&equal, context)?.plan,
        "copies" => copies::copies(problem, context)?,
        "exo" => ring::ring(problem),
        _ => return Ok(None),
    };
    let status = if plan.is_some() { PlanStatus::Feasible } else { PlanStatus::Unknown };
    let bound = ServingBoundDocument { value: None, source: "none".into(), certificate: None };
    let took = context.elapsed().as_secs_f64();
    let document = planned(name, &equal, cluster, (plan.as_ref(), status, bound), took);
    let reason = document.value.is_none().then(|| "the rule finds no plan within the limits".to_owned());
    Ok(Some(ServingPlanDocument { reason, ..document }))
}

fn is_of_one_kind(size: &Size) -> bool {
    size.devices.iter().filter(|devices| **devices > 0).count() == 1
}

/// The best plan with some of the replicas.
fn within(
    problem: &Problem,
    context: &mut Context<'_>,
    is_kept: impl Fn(&Column, &Size) -> bool,
) -> Result<Option<Plan>, SolveError> {
    let stop = context.stop().clone();
    let space = context.in_pool(|| Space::new(problem, &stop))?;
    Ok(space.and_then(|space| solve_over(problem, space.filtered(is_kept), context).plan))
}

/// The best of the plans on one kind each.
fn one_kind(problem: &Problem, context: &mut Context<'_>) -> Result<Option<Plan>, SolveError> {
    let mut best: Option<Plan> = None;
    for kind in 0..problem.fleet.kinds.len() {
        let plan = within(problem, context, |_, size| is_of_one_kind(size) && size.devices[kind] > 0)?;
        best = better(problem, best, plan);
    }
    Ok(best)
}

/// The better of two plans, the first on a tie.
fn better(problem: &Problem, left: Option<Plan>, right: Option<Plan>) -> Option<Plan> {
    let worth = |plan: &Option<Plan>| {
        let value = plan.as_ref().map(|plan| plan.value)?;
        Some(if problem.question.goal.is_maximised() { value } else { -value })
    };
    if worth(&right) > worth(&left) { right } else { left }
}
