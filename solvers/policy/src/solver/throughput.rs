//! Maximising the throughput of a contiguous split.

use stagewright_core::bound::{LowerBound, strongest};
use stagewright_core::contract::Units;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Event, Plan, Solution, SolveError, Status};
use stagewright_core::tolerance;
use stagewright_makespan::scene::Scene;
use stagewright_makespan::schedule::{Best, Judge, Schedule, is_better};
use stagewright_makespan::starts;
use stagewright_search::dpl::{
    Effort, Room, best_over_orders, improve_boundaries, is_chain, over_more_orders,
};
use stagewright_search::order::Rule;

use super::{MOST_UNITS, Parts, Policy};
use crate::decode::throughput::{mixed, of_order, places};
use crate::features::input;
use crate::network::Network;
use crate::subject::{Base, Subject, step_of};

/// Most rounds in which the network improves on its own plan.
const REFINEMENTS: u64 = 3;
/// Limits of a search without a time limit: evaluations of interval loads, and orders.
const WORK: usize = 20_000_000;
const ORDERS: usize = 64;
/// Orders tried between two checks of the clock.
const AT_ONCE: usize = 8;
/// Largest random displacement of a unit in a drawn order, as a share of its length.
const NOISE: f64 = 0.125;

pub(super) fn solve(
    name: &'static str,
    problem: &Problem,
    network: Option<&Network>,
    parts: Parts,
    context: &mut Context<'_>,
) -> Result<Solution, SolveError> {
    let units = Units::new(problem);
    let mut bound = strongest(problem);
    let room = Room::new(problem, &units, context.limits.memory);
    // The plan that the network reads is a candidate for the result only if the floor is kept.
    let base = match parts.floor {
        true => best_over_orders(problem, &units, Effort::Plain, context)?,
        false => best_over_orders(problem, &units, Effort::Plain, &mut context.apart())?,
    };
    let mut best = base.clone().filter(|_| parts.floor);
    let mut rng = seed::stream(context.seed, 0);
    let plain = of_order(&Rule::DepthFirst.order(problem, &units));
    // Positions of the units in the best order so far, at first the depth-first one, and the positions that the network
    // proposes.
    let (mut places_of_best, mut guide) = (plain.clone(), None);
    let mut asked = 0;
    let step = step_of(problem).ok();
    let scene = step.as_ref().map(Scene::new).filter(|scene| scene.impossible().is_none());
    let mut reader = None;
    let mut reason = None;
    if let (Some(network), false) = (network, units.is_empty() || is_over(best.as_ref(), &bound, context)) {
        reason = match &scene {
            None => Some("the network was not asked: it reads steps, and the problem has none".to_owned()),
            Some(scene) => {
                let found = Reader::new(scene);
                let too_large = Policy::too_large(network, &found.subject, context);
                reader = too_large.is_none().then_some((network, found));
                too_large
            }
        };
    }
    if let Some(why) = &reason {
        context.emit(Event::Phase { name: why.clone() });
    }
    if let Some((network, reader)) = &mut reader {
        let mut base = base;
        for _ in 0..REFINEMENTS {
            if is_over(best.as_ref(), &bound, context) {
                break;
            }
            let Some(found) = reader.ask(network, &units, base.as_ref(), &bound, context)? else { break };
            asked += 1;
            context.emit(Event::Phase { name: "orders drawn from the network".into() });
            let draw = |number: usize| {
                // The network's own order first, then mixtures with the best order so far, and noise.
                let weight = if number == 0 { 1.0 } else { 1.0 - (number % 4) as f64 / 4.0 };
                let noise = if number < 4 { 0.0 } else { NOISE * (number as f64 / parts.draws as f64) };
                mixed(&units, &places_of_best, &found, weight, noise, &mut rng)
            };
            let orders: Vec<Vec<u32>> = (0..parts.draws).map(draw).collect();
            let chosen = over_more_orders(problem, &units, &room, &orders, &mut best, context)?;
            guide = Some(found);
            match chosen {
                Some(at) => places_of_best = of_order(&orders[at]),
                None => break,
            }
            base = best.clone();
        }
    }
    if parts.floor {
        improve_boundaries(problem, &units, &room, &mut best, &mut bound, context)?;
    }
    if parts.search && room.space.is_some() && !units.is_empty() && !is_chain(&units) {
        context.emit(Event::Phase { name: "search".into() });
        let most = match context.stop().remaining() {
            Some(_) => usize::MAX,
            None => ORDERS.min(WORK / (units.len() * units.len())),
        };
        let mut tried = 0;
        while tried < most && !is_over(best.as_ref(), &bound, context) {
            let count = AT_ONCE.min(most - tried);
            let pull = guide.as_ref().unwrap_or(&plain);
            let draw = |number: usize| {
                let weight = [0.0, 0.1, 0.3, 0.6][number % 4];
                mixed(&units, &places_of_best, pull, weight, NOISE / 4.0, &mut rng)
            };
            let orders: Vec<Vec<u32>> = (0..count).map(draw).collect();
            if let Some(at) = over_more_orders(problem, &units, &room, &orders, &mut best, context)? {
                places_of_best = of_order(&orders[at]);
            }
            tried += count;
        }
    }
    let stop = context.stop().reason();
    let no_plan = "no linear order that was tried has a split that fits";
    let solution = room.solution(name, best, bound, stop, no_plan);
    let reason = solution.reason.clone().or(reason.filter(|_| solution.status != Status::Optimal));
    Ok(Solution { statistics: vec![("predictions", asked)], reason, ..solution })
}

/// Whether nothing is left to gain, or no time is left.
fn is_over(best: Option<&Plan>, bound: &LowerBound, context: &Context<'_>) -> bool {
    let is_enough = |plan: &Plan| {
        tolerance::gap(plan.value(), bound.value) == 0.0 || context.gap_reached(plan.value(), bound.value)
    };
    context.stop().reason().is_some() || best.is_some_and(is_enough)
}

/// Runs the network for the positions of the units.
struct Reader<'s, 'p> {
    subject: Subject<'s, 'p>,
    judge: Judge<'s, 'p>,
}

impl<'s, 'p> Reader<'s, 'p> {
    fn new(scene: &'s Scene<'p>) -> Reader<'s, 'p> {
        Reader { subject: Subject::new(scene, MOST_UNITS, true), judge: Judge::new(scene) }
    }

    /// The positions that the network proposes, given a plan to improve on; without one, it reads a list schedule.
    fn ask(
        &mut self,
        network: &Network,
        units: &Units,
        plan: Option<&Plan>,
        bound: &LowerBound,
        context: &mut Context<'_>,
    ) -> Result<Option<Vec<f64>>, SolveError> {
        let schedule = match plan {
            Some(plan) => Some(Schedule::of_placement(self.subject.scene(), &plan.placement)),
            None => {
                let better = |a: Best, b: Best| if is_better(b.score, a.score) { b } else { a };
                starts(&mut self.judge, context).into_iter().reduce(better).map(|best| best.schedule)
            }
        };
        let Some(schedule) = schedule else { return Ok(None) };
        let base = Base::new(&self.subject, &mut self.judge, &schedule);
        let value = plan.map_or(base.seconds, Plan::value);
        let figures = input(&self.subject, &base, value, bound.value);
        let prediction = Policy::ask(network, &figures, context)?;
        Ok(Some(places(&self.subject, &prediction, units)))
    }
}
