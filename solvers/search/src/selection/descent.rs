//! The split of least load among those with at most some seconds of communication.
//!
//! A program that adds the communication of stages knows their load only as a limit. The limit is therefore lowered until no
//! split is left that has little enough communication: to just below the load of a split, and after that by bisection.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::SecondGoal;
use stagewright_core::placement::{Placement, StageAssignment};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Plan};
use stagewright_core::tolerance::VALUE_RELATIVE;

use super::aim::Aim;
use super::measure::Measure;
use super::stage::{Splits, splits};

/// Share of a load by which the next limit is below it: more than the share by which a plan may exceed its limit.
const STEP: f64 = 4.0 * VALUE_RELATIVE;

/// Finds splits whose values are at most the limit of the aim, which is finite, with at most `most` seconds of communication;
/// the last one has the least value found. The least measure is proved if every program was exact. O(log(1 / [`STEP`]))
/// programs.
pub(super) fn descend(
    problem: &Problem,
    units: &Units,
    aim: Aim<'_>,
    most: f64,
    orders: &[Vec<UnitId>],
    context: &Context<'_>,
) -> Splits {
    let value = |stages: &Vec<StageAssignment>, limit: f64| {
        let plan = Plan::try_new(problem, Placement::from_stages(problem, units, stages)).ok()?;
        // Under a schedule or uplinks, the value may exceed every load.
        let bounded = Aim { limit, most: Some((SecondGoal::Communication, most)), ..aim };
        bounded.is_met(problem, &plan.evaluation).then(|| plan.value())
    };
    let measure = Measure::Second(SecondGoal::Communication);
    let (mut found, mut is_exact) = (Vec::new(), true);
    let (mut low, mut high, mut limit) = (0.0, aim.limit, aim.limit);
    // Whether the limit is just below the least value, or halfway to the largest limit without a split.
    let mut is_near = false;
    loop {
        let below = splits(problem, units, Aim { measure, limit, most: None, ..aim }, orders, context);
        is_exact &= below.least.is_some();
        let valued = below.found.into_iter().filter_map(|stages| Some((value(&stages, limit)?, stages)));
        match valued.min_by(|left, right| left.0.total_cmp(&right.0)) {
            Some((value, stages)) => {
                found.push(stages);
                is_near = !is_near;
                high = value;
            }
            None if found.is_empty() => return Splits { found, least: is_exact.then_some(f64::INFINITY) },
            None => low = limit,
        }
        if low >= high * (1.0 - STEP) || context.stop().reason().is_some() {
            break;
        }
        limit = if is_near { high * (1.0 - STEP) } else { f64::midpoint(low, high) };
    }
    let is_proved = is_exact && low >= high * (1.0 - STEP);
    Splits { found, least: is_proved.then_some(low) }
}
