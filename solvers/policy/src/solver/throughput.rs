//! Maximising the throughput of a contiguous split.

use rand::Rng;
use stagewright_core::bound::{LowerBound, strongest_before};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Event, Plan, Solution, SolveError, Status};
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::{Best, Evaluator, Schedule, is_better};
use stagewright_makespan::starts;
use stagewright_search::dpl::{
    OrderEffort, Room, best_over_orders, improve_boundaries, is_chain, over_more_orders,
};
use stagewright_search::order::Rule;

use super::{MAX_UNITS, Parts, Policy};
use crate::decode::throughput::{mixed, of_order, places};
use crate::features::input;
use crate::network::Network;
use crate::subject::{Base, Subject, step_of};

/// Maximum number of rounds in which the network improves its own plan.
const REFINEMENTS: u64 = 3;
/// Limits of a search without a time limit: evaluations of interval loads, and orders.
const WORK: usize = 20_000_000;
const ORDERS: usize = 64;
/// Orders tried between two checks of the clock.
const AT_ONCE: usize = 8;
/// Largest random displacement of a unit in a drawn order, as a share of the order's length.
const NOISE: f64 = 0.125;

pub(super) fn solve(
    name: &'static str,
    problem: &Problem,
    network: Option<&Network>,
    parts: Parts,
    context: &mut Context<'_>,
) -> Result<Solution, SolveError> {
    let units = Units::of(problem);
    let bound = strongest_before(problem, context.stop());
    let room = Room::new(problem, &units, context.limits.memory);
    // The plan that the network reads is a candidate for the result only if the floor is kept.
    let base = match parts.floor {
        true => best_over_orders(problem, &units, OrderEffort::Plain, context)?,
        false => best_over_orders(problem, &units, OrderEffort::Plain, &mut context.for_auxiliary())?,
    };
    let best = base.clone().filter(|_| parts.floor);
    let rng = seed::stream(context.seed(), 0);
    let places = of_order(&Rule::DepthFirst.order(problem, &units));
    let guide = places.clone();
    let mut run = Run { problem, units: &units, room: &room, bound, best, places, guide, rng, asked: 0 };
    let step = step_of(problem).ok();
    let instance = step.as_ref().map(Instance::new).filter(|instance| instance.unplaceable().is_none());
    let mut reason = None;
    if let Some(network) = network.filter(|_| !units.is_empty() && !run.is_over(context)) {
        match Reader::new(network, instance.as_ref(), context) {
            Ok(mut reader) => run.refine(&mut reader, base, parts.draws, context)?,
            Err(why) => {
                context.emit(Event::Phase { name: why.clone() });
                reason = Some(why);
            }
        }
    }
    if parts.floor {
        improve_boundaries(problem, &units, &room, &mut run.best, &mut run.bound, context)?;
    }
    if parts.search && room.space.is_some() && !units.is_empty() && !is_chain(&units) {
        run.search(context)?;
    }
    let stop = context.stop().reason();
    let no_plan = "none of the linear orders tried has a split that fits";
    let solution = room.solution(name, run.best, run.bound, stop, no_plan);
    let reason = solution.reason.clone().or(reason.filter(|_| solution.status != Status::Optimal));
    Ok(Solution { statistics: vec![("predictions", run.asked)], reason, ..solution })
}

/// State of a solve.
struct Run<'r, R> {
    problem: &'r Problem,
    units: &'r Units,
    room: &'r Room,
    bound: LowerBound,
    best: Option<Plan>,
    /// Positions of the units in the best order so far, which is initially the depth-first order.
    places: Keyed<UnitId, f64>,
    /// Positions that the network proposes for the units, initially those in the depth-first order.
    guide: Keyed<UnitId, f64>,
    rng: R,
    /// Number of predictions.
    asked: u64,
}

impl<R: Rng> Run<'_, R> {
    /// Whether the gap is closed, or no time is left.
    fn is_over(&self, context: &Context<'_>) -> bool {
        let is_enough = |plan: &Plan| context.is_enough(plan.value(), self.bound.value);
        context.stop().reason().is_some() || self.best.as_ref().is_some_and(is_enough)
    }

    /// Draws orders from the network, which first reads a given plan and then the best plan so far, until the orders
    /// bring no improvement.
    fn refine(
        &mut self,
        reader: &mut Reader<'_, '_>,
        mut base: Option<Plan>,
        draws: usize,
        context: &mut Context<'_>,
    ) -> Result<(), SolveError> {
        for _ in 0..REFINEMENTS {
            if self.is_over(context) {
                break;
            }
            let Some(found) = reader.ask(self.units, base.as_ref(), &self.bound, context)? else { break };
            self.asked += 1;
            context.emit(Event::Phase { name: "orders sampled from the network".into() });
            let draw = |number: usize| {
                // The network's own order first, then mixtures with the best order so far, and noise.
                let weight = if number == 0 { 1.0 } else { 1.0 - (number % 4) as f64 / 4.0 };
                let noise = if number < 4 { 0.0 } else { NOISE * (number as f64 / draws as f64) };
                mixed(self.units, &self.places, &found, weight, noise, &mut self.rng)
            };
            let orders: Vec<Vec<UnitId>> = (0..draws).map(draw).collect();
            let has_improved = self.split(&orders, context)?;
            self.guide = found;
            if !has_improved {
                break;
            }
            base = self.best.clone();
        }
        Ok(())
    }

    /// Draws orders between the best one and the guide, in the remaining time.
    fn search(&mut self, context: &mut Context<'_>) -> Result<(), SolveError> {
        context.emit(Event::Phase { name: "search".into() });
        let limit = match context.stop().remaining() {
            Some(_) => usize::MAX,
            None => ORDERS.min(WORK / (self.units.len() * self.units.len())),
        };
        let mut tried = 0;
        while tried < limit && !self.is_over(context) {
            let count = AT_ONCE.min(limit - tried);
            let draw = |number: usize| {
                let weight = [0.0, 0.1, 0.3, 0.6][number % 4];
                mixed(self.units, &self.places, &self.guide, weight, NOISE / 4.0, &mut self.rng)
            };
            let orders: Vec<Vec<UnitId>> = (0..count).map(draw).collect();
            self.split(&orders, context)?;
            tried += count;
        }
        Ok(())
    }

    /// Splits orders by the exact program. Returns whether the best plan has improved.
    fn split(&mut self, orders: &[Vec<UnitId>], context: &mut Context<'_>) -> Result<bool, SolveError> {
        let chosen = over_more_orders(self.problem, self.units, self.room, orders, &mut self.best, context)?;
        if let Some(index) = chosen {
            self.places = of_order(&orders[index]);
        }
        Ok(chosen.is_some())
    }
}

/// Runs the network for the positions of the units.
struct Reader<'s, 'p> {
    network: &'s Network,
    subject: Subject<'s, 'p>,
    evaluator: Evaluator<'s, 'p>,
}

impl<'s, 'p> Reader<'s, 'p> {
    /// A reader of an instance, or the reason why the network is not used.
    fn new(
        network: &'s Network,
        instance: Option<&'s Instance<'p>>,
        context: &Context<'_>,
    ) -> Result<Reader<'s, 'p>, String> {
        let no_step = "the network was not run: it reads steps, and the problem has none";
        let instance = instance.ok_or(no_step)?;
        let subject = Subject::new(instance, MAX_UNITS, true);
        let evaluator = Evaluator::new(instance);
        match Policy::too_large(network, &subject, context) {
            Some(why) => Err(why),
            None => Ok(Reader { network, subject, evaluator }),
        }
    }

    /// The positions that the network proposes, given a plan to improve on; without one, it reads a list schedule.
    fn ask(
        &mut self,
        units: &Units,
        plan: Option<&Plan>,
        bound: &LowerBound,
        context: &mut Context<'_>,
    ) -> Result<Option<Keyed<UnitId, f64>>, SolveError> {
        let schedule = match plan {
            Some(plan) => Some(Schedule::of_placement(self.subject.instance(), &plan.placement)),
            None => {
                let better = |a: Best, b: Best| if is_better(b.score, a.score) { b } else { a };
                starts(&mut self.evaluator, context)?.into_iter().reduce(better).map(|best| best.schedule)
            }
        };
        let Some(schedule) = schedule else { return Ok(None) };
        let base = Base::new(&self.subject, &mut self.evaluator, &schedule);
        let value = plan.map_or(base.seconds, Plan::value);
        let figures = input(&self.subject, &base, value, bound.value);
        let prediction = Policy::ask(self.network, &figures, context)?;
        Ok(Some(places(&self.subject, &prediction, units)))
    }
}
