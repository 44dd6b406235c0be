//! Contiguous splits of large graphs that repeat layers or steps.

use stagewright_core::contraction::Units;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Event, Plan, Result, Solution, Solver};
use stagewright_dp::{Dp, DpWithin};
use stagewright_makespan::by_folding;
use stagewright_search::dpl::{Room, over_more_orders};
use stagewright_search::order;

use super::FOLDED;

/// Operators of the folded graph, and the steps of its solve.
const OPERATORS: usize = 8_000;
const STEPS: u64 = 30_000_000;
/// Share of the time for the folded graph and the order that follows from it, and the share of that for the folded graph.
const SHARE: f64 = 0.5;
const SEARCH_SHARE: f64 = 0.6;

/// The exact splitter, which starts from the split of a shorter graph if a large graph repeats.
///
/// In a graph of 100,000 operators, few orders can be tried. The stages of a folded graph, stretched to the whole graph, give an
/// order in which operators of earlier stages come first. The best split along this order is at least as good as the stretched stages
/// wherever these are contiguous.
pub(super) struct Repeated;

impl Solver for Repeated {
    fn name(&self) -> &'static str {
        Dp.name()
    }

    fn summary(&self) -> &'static str {
        "the dynamic program over ideals, from the split of a folded graph if a large graph repeats"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        let is_other = objective.kind() != ObjectiveKind::Throughput || objective.times_iteration();
        Dp.unsupported(objective).or(is_other.then_some("objectives other than a stage's load"))
    }

    fn capabilities(&self) -> Capabilities {
        Dp.capabilities()
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        if problem.graph().operator_count() >= FOLDED {
            context.emit(Event::Phase { name: "the split of a folded graph".into() });
            if let Some(plan) = folded(problem, &mut context.time_slice(SHARE))? {
                context.warm_start = Some(plan.placement);
            }
        }
        Dp.solve(problem, context)
    }
}

/// The better of the warm start and the best split along the order of a folded graph's stages.
fn folded(problem: &Problem, context: &mut Context<'_>) -> Result<Option<Plan>> {
    let warm = context.warm_start.take();
    let mut best = warm.and_then(|warm| Plan::try_new(problem, warm).ok());
    let mut stages = Vec::new();
    let device_of = by_folding(problem, OPERATORS, |small| {
        let mut part = context.time_slice(SEARCH_SHARE);
        let found = DpWithin { steps: STEPS }.solve(small, &mut part.for_auxiliary())?.plan;
        Ok(found.map(|plan| {
            stages = plan.placement.stages().to_vec();
            small.graph().operators().map(|op| plan.placement.device_of(op)).collect()
        }))
    })?;
    let Some(device_of) = device_of else { return Ok(best) };
    let units = Units::of(problem);
    let room = Room::new(problem, &units, context.limits.memory);
    let stage = |device| stages.iter().position(|&other| other == device).unwrap_or(stages.len()) as f64;
    let order = order::by_priority(&units, |unit| stage(device_of[units.members(unit)[0].index()]));
    over_more_orders(problem, &units, &room, &[order], &mut best, context)?;
    Ok(best)
}
