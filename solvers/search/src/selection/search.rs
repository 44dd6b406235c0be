//! The search for the best plan that meets an aim.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{ObjectiveKind, SecondGoal, Split};
use stagewright_core::objective::Throughput;
use stagewright_core::placement::{Placement, StageAssignment};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Plan, Result};

use super::aim::Aim;
use super::descent::descend;
use super::enumeration::best_of_all;
use super::measure::Measure;
use super::moves::improve;
use super::stage::splits;
use crate::robust::by_stages;

/// Maximum number of plans from which moves start, if none meets the requirements.
const MOST_STARTS: usize = 3;

/// The result of a search.
#[derive(Default)]
pub(super) struct Found {
    /// The best plan that meets the aim.
    pub(super) plan: Option<Plan>,
    /// Lower bound on the measure of every plan that meets the aim, infinite if there is none; `None` if nothing was proved.
    pub(super) bound: Option<f64>,
}

/// Searches for the best plan that meets an aim, from plans that need not meet it.
///
/// # Errors
/// A broken invariant.
pub(super) fn search(
    problem: &Problem,
    aim: Aim<'_>,
    starts: &[Plan],
    context: &mut Context<'_>,
) -> Result<Found> {
    let units = Units::of(problem);
    let stop = context.stop().clone();
    if let Some(plan) = best_of_all(problem, &units, aim, &stop) {
        let least = plan.as_ref().map_or(f64::INFINITY, |plan| aim.measure.of(problem, &plan.evaluation));
        return Ok(Found { plan, bound: Some(least) });
    }
    let (mut plans, bound) = pipelines(problem, aim, starts, context)?;
    plans.extend(starts.iter().cloned());
    let measure = |plan: &Plan| aim.measure.of(problem, &plan.evaluation);
    let is_met = |plan: &&Plan| aim.is_met(problem, &plan.evaluation);
    let mut best: Option<Plan> =
        plans.iter().filter(is_met).min_by(|left, right| measure(left).total_cmp(&measure(right))).cloned();
    let is_missed = best.is_none() && bound.is_some_and(f64::is_finite);
    if bound.is_none() || is_missed {
        // A plan that meets the requirements is a better start than any that does not.
        let from: Vec<&Plan> = match &best {
            Some(best) => vec![best],
            None => plans.iter().take(MOST_STARTS).collect(),
        };
        let improved = from.into_iter().filter_map(|start| improve(problem, &units, aim, start, &stop));
        let improved = improved.min_by(|left, right| measure(left).total_cmp(&measure(right)));
        let is_better = |plan: &Plan| best.as_ref().is_none_or(|best| measure(plan) < measure(best));
        best = improved.filter(is_better).or(best);
    }
    Ok(Found { plan: best, bound })
}

/// Plans from contiguous splits, which are plans under every split rule, and the least measure if these splits are all plans.
fn pipelines(
    problem: &Problem,
    aim: Aim<'_>,
    starts: &[Plan],
    context: &mut Context<'_>,
) -> Result<(Vec<Plan>, Option<f64>)> {
    let rules = problem.objective().rules();
    if problem.objective().kind() != ObjectiveKind::Throughput {
        return Ok((Vec::new(), None));
    }
    let Ok(contiguous) = problem.with_objective(Throughput { split: Split::Contiguous, ..rules }) else {
        return Ok((Vec::new(), None));
    };
    let units = Units::of(&contiguous);
    if units.is_empty() {
        return Ok((Vec::new(), None));
    }
    let orders: Vec<Vec<UnitId>> = match rules.split {
        Split::Contiguous => starts.iter().map(|start| by_stages(&units, &start.placement)).collect(),
        Split::Convex | Split::Free => Vec::new(),
    };
    let splits = match (aim.measure, aim.most) {
        (Measure::Value, Some((SecondGoal::Communication, most))) => {
            descend(&contiguous, &units, aim, most, &orders, context)
        }
        _ => splits(&contiguous, &units, aim, &orders, context),
    };
    let plan = |stages: &Vec<StageAssignment>| {
        let staged = Placement::from_stages(&contiguous, &units, stages);
        let placement = match rules.split {
            Split::Contiguous => staged,
            Split::Convex | Split::Free if rules.max_replicas > 1 => staged,
            Split::Convex | Split::Free => {
                let operators = problem.graph().operators();
                Placement::new(operators.map(|op| staged.device_of(op)).collect())
            }
        };
        Plan::try_new(problem, placement).ok()
    };
    let is_all = rules.split == Split::Contiguous;
    Ok((splits.found.iter().filter_map(plan).collect(), splits.least.filter(|_| is_all)))
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::document::SecondGoal;
    use stagewright_core::seed;
    use stagewright_core::solver::{Limits, Silent};
    use stagewright_core::tolerance::same;
    use stagewright_testing::random::{Size, problem};

    use super::*;
    use crate::selection::Requirements;
    use crate::selection::measure::Measure;

    const MEASURES: [Measure; 4] = [
        Measure::Value,
        Measure::Second(SecondGoal::Memory),
        Measure::Second(SecondGoal::Devices),
        Measure::Second(SecondGoal::Communication),
    ];

    /// The program over ideals proves what the enumeration finds, and moves find nothing better.
    #[test]
    fn programs_and_moves_agree_with_enumeration() {
        let (mut proved, mut moved, mut again) = (0, 0, 0);
        for number in 0..600 {
            let problem = problem(number, Size { operators: 6, devices: 3, groups: false });
            let mut rng = seed::stream(0x1DEA, number);
            let requirements = Requirements {
                stages: rng.random_bool(0.5).then(|| rng.random_range(1..=3)),
                all_devices: rng.random_bool(0.2),
                alone: Vec::new(),
            };
            let measure = MEASURES[rng.random_range(0..4)];
            let mut silent = Silent;
            let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
            let (units, stop) = (Units::of(&problem), context.stop().clone());
            let any = Aim {
                requirements: &Requirements::default(),
                measure: Measure::Value,
                limit: f64::INFINITY,
                most: None,
            };
            let Some(Some(best)) = best_of_all(&problem, &units, any, &stop) else { continue };
            let limit = best.value() * [1.0, 1.1, 2.0][rng.random_range(0..3)];
            let aim = Aim { requirements: &requirements, measure, limit, most: None };
            let Some(least) = agree(number, &problem, aim, &best, &mut context, &mut proved, &mut moved)
            else {
                continue;
            };
            // The value again, with at most the least second goal.
            if let (Measure::Second(goal), true) = (measure, least.is_finite()) {
                let aim = Aim { measure: Measure::Value, most: Some((goal, least)), ..aim };
                let value = agree(number, &problem, aim, &best, &mut context, &mut again, &mut moved);
                assert!(value.is_some_and(f64::is_finite), "{number}");
            }
        }
        assert!(proved > 100 && moved > 100 && again > 50, "{proved} {moved} {again}");
    }

    /// Checks programs and moves against enumeration, and returns the least measure; `None` without enumeration.
    fn agree(
        number: u64,
        problem: &Problem,
        aim: Aim<'_>,
        start: &Plan,
        context: &mut Context<'_>,
        proved: &mut u32,
        moved: &mut u32,
    ) -> Option<f64> {
        let (units, stop) = (Units::of(problem), context.stop().clone());
        let all = best_of_all(problem, &units, aim, &stop)?;
        let measure = |plan: &Plan| aim.measure.of(problem, &plan.evaluation);
        let least = all.as_ref().map_or(f64::INFINITY, measure);
        let agrees = |found: f64| found == least || same(found, least);
        let (plans, bound) = pipelines(problem, aim, &[], context).expect("plans");
        if let Some(bound) = bound {
            // A descent proves a bound just below the value.
            let is_close = bound == least || (least * (1.0 - 1e-8)..=least * (1.0 + 1e-9)).contains(&bound);
            assert!(is_close, "{number}: {bound} and {least}, {aim:?}");
            let met = plans.iter().filter(|plan| aim.is_met(problem, &plan.evaluation));
            let found = met.map(measure).fold(f64::INFINITY, f64::min);
            assert!(agrees(found), "{number}: {found} and {least}, {aim:?}");
            *proved += 1;
        }
        if let Some(plan) = improve(problem, &units, aim, start, &stop) {
            assert!(measure(&plan) >= least * (1.0 - 1e-9), "{number}");
            assert!(aim.is_met(problem, &plan.evaluation), "{number}");
            *moved += 1;
        }
        Some(least)
    }
}
