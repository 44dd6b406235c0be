//! Below the root: dives for plans, and trees for the proof.
//!
//! Dives run in parallel, in batches of [`BATCH`] thresholds spread over the gap between bound and plan; their plans
//! are taken in order.
//!
//! A tree decides one threshold. The first threshold is just below the plan: excluding it proves the plan optimal. If
//! that takes too many nodes, thresholds between bound and plan are bisected, with fewer nodes each. When no remaining
//! threshold can be decided within this node limit, the procedure starts again with a higher limit.

use std::sync::Arc;

use rand::RngExt;
use rayon::prelude::*;
use stagewright_core::bound::LowerBound;
use stagewright_core::contraction::Units;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Event, Plan, Result};
use stagewright_search::local::Polisher;

use crate::colgen::ascent::JUST_BELOW;
use crate::colgen::dive::Dive;
use crate::colgen::master::LpError;
use crate::colgen::node::Ground;
use crate::colgen::preparation::Preparation;
use crate::colgen::rules::Column;
use crate::colgen::tree::{BATCH, Quest, search};

use super::Answer;
use super::root::most_states;

/// Source of a bound that a tree proves.
const SOURCE: &str = "branch-and-price";
/// Consecutive batches of dives without a better plan that end diving.
const PATIENCE: u32 = 3;
/// First task number of the random streams.
const STREAM: u64 = 2 << 32;
/// Node limit of the tree just below the plan: its initial value, growth factor, and maximum, which ends a search
/// without a time limit.
const NODES: u64 = 64;
const GROWTH: u64 = 8;
const MAX_NODES: u64 = NODES * GROWTH * GROWTH;
/// Divisor of the node limit for a lower threshold, whose exclusion proves less.
const LOWER: u64 = 8;
/// Relative distance between the bound and the lowest open threshold at which the bisection ends.
const PRECISION: f64 = 1e-4;

/// The search below the root.
pub(super) struct Below<'a> {
    ground: Ground<'a>,
    columns: Arc<[Column]>,
}

impl<'a> Below<'a> {
    pub(super) fn new(
        problem: &'a Problem,
        units: &'a Units,
        preparation: &'a Preparation,
        columns: &[Column],
        context: &Context<'_>,
    ) -> Below<'a> {
        let memory = context.limits.memory.map(|memory| memory / BATCH as u64);
        let states = most_states(units, memory);
        let ground = Ground { problem, units, preparation, states, memory };
        Below { ground, columns: columns.into() }
    }

    /// Dives until the time is up, the gap is small enough, or [`PATIENCE`] batches in a row have found no better plan.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub(super) fn dive(&self, answer: &mut Answer, context: &mut Context<'_>) -> Result<()> {
        context.emit(Event::Phase { name: "dives".into() });
        let pool = context.pool()?;
        let stop = context.stop().clone();
        let polisher = Polisher::new(self.ground.problem, self.ground.units);
        let (mut idle, mut dives) = (0, 0);
        while idle < PATIENCE && !answer.enough(context) && stop.reason().is_none() {
            let (low, high) = (answer.bound.value, answer.plan.value());
            let batch: Vec<Dive> = (0..BATCH)
                .map(|index| {
                    let stream = (context.seed(), STREAM + dives + index as u64);
                    let offset: f64 = seed::stream(stream.0, stream.1).random_range(0.0..1.0);
                    let share = (index as f64 + offset) / BATCH as f64;
                    Dive { threshold: (low + share * (high - low)).min(high * (1.0 - JUST_BELOW)), stream }
                })
                .collect();
            dives += BATCH as u64;
            let found: Vec<Result<Option<Plan>, LpError>> = pool.install(|| {
                let run = |dive: &Dive| dive.run(&self.ground, &self.columns, polisher.as_ref(), &stop);
                batch.par_iter().map(run).collect()
            });
            let before = answer.plan.value();
            for plan in found {
                match plan {
                    Ok(plan) => plan.into_iter().for_each(|plan| answer.keep(plan, context)),
                    Err(error) => answer.reason = Some(error.to_string()),
                }
            }
            idle = if answer.plan.value() < before { 0 } else { idle + 1 };
        }
        answer.statistics.push(("dives", dives));
        Ok(())
    }

    /// Searches trees until the plan is proved optimal, the time is up, or no threshold is decided within
    /// [`MAX_NODES`] nodes.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub(super) fn branch(&self, answer: &mut Answer, context: &mut Context<'_>) -> Result<()> {
        context.emit(Event::Phase { name: "branch and price".into() });
        let pool = context.pool()?;
        let stop = context.stop().clone();
        let (mut max_nodes, mut nodes, mut failure) = (NODES, 0, None);
        while max_nodes <= MAX_NODES {
            let mut ceiling = answer.plan.value();
            let (mut threshold, mut limit) = (ceiling * (1.0 - JUST_BELOW), max_nodes);
            while !answer.enough(context) && stop.reason().is_none() {
                let quest = Quest { threshold, incumbent: answer.plan.value(), most: limit };
                let tell = |plan: &Plan| answer.keep(plan.clone(), context);
                let verdict = search(&self.ground, self.columns.clone(), quest, &pool, &stop, tell);
                ceiling = ceiling.min(answer.plan.value());
                nodes += verdict.nodes;
                failure = failure.or(verdict.failure);
                if verdict.excluded {
                    let bound = LowerBound { value: verdict.threshold, source: SOURCE, certificate: None };
                    context.raise(&mut answer.bound, bound);
                } else {
                    ceiling = ceiling.min(verdict.threshold);
                }
                let (low, value) = (answer.bound.value, answer.plan.value());
                if ceiling - low <= PRECISION * value {
                    break;
                }
                (threshold, limit) = (0.5 * (low + ceiling), max_nodes / LOWER);
            }
            max_nodes *= GROWTH;
        }
        answer.statistics.push(("nodes", nodes));
        if !answer.enough(context) {
            let undecided = "branch and price reached its node limit, with some thresholds undecided";
            match failure {
                Some(error) => answer.reason = Some(error.to_string()),
                None if stop.reason().is_none() => answer.reason = Some(undecided.into()),
                None => {}
            }
        }
        Ok(())
    }
}
