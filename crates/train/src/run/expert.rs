//! Labels that the policy makes with its search, the targets of expert iteration.

use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_policy::network::Network;
use stagewright_policy::{Origin, Parts, Policy};

use super::super::label::{Label, LabelEffort, LabelError, Labelled, MAX_PLANS, WORSE, Work, label};

/// Share of the effort for the policy; the solvers get the rest, so that a label never depends on the policy alone.
const SHARE: f64 = 0.5;
/// Searches of the policy, each of which counts its own simulations.
const SEARCHES: f64 = 3.0;

/// The best plans of the policy and the solvers; `None` if interrupted.
///
/// # Errors
/// As for [`label`].
pub(super) fn expert_label(
    network: &Network,
    problem: &Problem,
    effort: &LabelEffort,
    work: &Work,
) -> Result<Option<Label>, LabelError> {
    effort.check()?;
    let mut silent = Silent;
    let Limits { time, simulations, .. } = effort.share(SHARE).limits(problem);
    let simulations = simulations.map(|most| (most as f64 / SEARCHES) as u64);
    let limits = Limits { time, simulations, ..Limits::default() };
    let mut context = Context::new(limits, work.interrupt.clone(), &mut silent);
    (context.seed, context.threads) = (work.seed, work.threads);
    let policy = Policy::new("policy", "the expert", Origin::Network(Box::new(network.clone())), Parts::ALL);
    let found = policy.solve(problem, &mut context)?;
    let rest = effort.share(1.0 - SHARE);
    let Some(mut label) = label(problem, &rest, work)? else { return Ok(None) };
    if let Some(plan) = found.plan
        && plan.value() < label.value
    {
        label.value = plan.value();
        label.bound = label.bound.max(found.bound.value).min(plan.value());
        label.plans.insert(0, Labelled { value: label.value, placement: plan.placement });
        let most = label.value * (1.0 + WORSE);
        label.plans.retain(|plan| plan.value <= most);
        label.plans.truncate(MAX_PLANS);
    }
    Ok(Some(label))
}
