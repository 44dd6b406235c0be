//! The root: column generation up to the value of the plan, and the certificate of its bound.

use stagewright_core::bound::LowerBound;
use stagewright_core::certificate::Certificate;
use stagewright_core::contraction::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event};
use stagewright_core::tolerance;

use crate::colgen::ascent::{JUST_BELOW, exclude, raise};
use crate::colgen::generation::{Generation, Prices};
use crate::colgen::preparation::Preparation;
use crate::colgen::pricing::FEWEST_CELLS;
use crate::colgen::rules::Column;

use super::Answer;

/// Source of a bound that column generation proves.
const SOURCE: &str = "column-generation";
/// Maximum number of states of the state graph.
const MAX_STATES: usize = 1 << 20;
/// Part of the requested gap that a proof of a start may leave: less than the whole gap, because of rounding.
const PART_OF_GAP: f64 = 0.999;
/// Share of the memory limit for the state graph and pricing's table over it.
const STATES_SHARE: f64 = 0.5;

/// Prepares kinds, order and state graph of a problem, with as many states as the memory allows. If there is no result,
/// or nets were left out of it, `answer` gets the reason.
pub(super) fn prepare(
    problem: &Problem,
    units: &Units,
    answer: &mut Answer,
    context: &mut Context<'_>,
) -> Option<Preparation> {
    context.emit(Event::Phase { name: "column generation".into() });
    let max_states = most_states(units, context.limits.memory);
    let preparation = Preparation::new(problem, units, max_states, context.stop());
    answer.reason = match &preparation {
        None => Some("column generation had too little time or memory to start".into()),
        Some(preparation) if preparation.relaxed => {
            Some("column generation left out the cheapest nets, as there are too many".into())
        }
        Some(_) => None,
    };
    preparation
}

/// The relaxation of the whole problem.
pub(super) struct Root<'a> {
    problem: &'a Problem,
    units: &'a Units,
    preparation: &'a Preparation,
    generation: Generation<'a>,
}

impl<'a> Root<'a> {
    /// A root without columns.
    pub(super) fn new(
        problem: &'a Problem,
        units: &'a Units,
        preparation: &'a Preparation,
        context: &Context<'_>,
    ) -> Root<'a> {
        let generation = Generation::new(problem, units, preparation, context.limits.memory);
        Root { problem, units, preparation, generation }
    }

    /// The columns generated so far.
    pub(super) fn columns(&self) -> &[Column] {
        self.generation.columns()
    }

    /// Tries to prove within a few rounds that the plan is optimal, or within the requested gap.
    pub(super) fn try_to_prove(&mut self, answer: &mut Answer, context: &mut Context<'_>) {
        let margin = (PART_OF_GAP * context.limits.gap).clamp(JUST_BELOW, 1.0);
        let threshold = answer.plan.value() * (1.0 - margin);
        if threshold <= answer.bound.value {
            return;
        }
        // A failure of the LP solver proves nothing; if it recurs, `raise` reports it.
        if let Ok(Some(prices)) = exclude(&mut self.generation, threshold, context.stop()) {
            answer.bound = bound(self.problem, self.units, self.preparation, threshold, &prices);
            context.emit(Event::Bound { value: threshold, source: SOURCE });
        }
    }

    /// Raises the bound towards the value of the plan, with certificates. Returns whether every threshold was
    /// decided, so that the bound is the strongest that the relaxation gives.
    pub(super) fn raise(&mut self, answer: &mut Answer, context: &mut Context<'_>) -> bool {
        let stop = context.stop().clone();
        let (low, value, gap) = (answer.bound.value, answer.plan.value(), context.limits.gap);
        let enough = |low: f64| gap > 0.0 && tolerance::gap(value, low) <= gap;
        let raised = raise(&mut self.generation, [low, value], enough, &stop, |low, prices| {
            answer.bound = bound(self.problem, self.units, self.preparation, low, &prices);
            context.emit(Event::Bound { value: low, source: SOURCE });
        });
        let why = match &raised {
            Err(error) => Some(error.to_string()),
            Ok(_) if stop.reason().is_some() || answer.enough(context) => None,
            Ok(true) => Some("column generation reached the limit of its linear relaxation".into()),
            Ok(false) => Some(
                "column generation reached its round or memory limit, with some thresholds undecided".into(),
            ),
        };
        if answer.reason.is_none() || raised.is_err() {
            answer.reason = why;
        }
        raised == Ok(true)
    }

    /// Counters for the statistics.
    pub(super) fn statistics(&self) -> [(&'static str, u64); 3] {
        [
            ("states", self.preparation.states.len() as u64),
            ("rounds", self.generation.rounds()),
            ("columns", self.columns().len() as u64),
        ]
    }
}

/// The bound that an excluded threshold proves, with its certificate: positive prices of units and devices, and the
/// order of decisions.
fn bound(
    problem: &Problem,
    units: &Units,
    preparation: &Preparation,
    threshold: f64,
    prices: &Prices,
) -> LowerBound {
    let operator = |unit| units.members(unit)[0];
    let units_priced = prices.units.enumerate().map(|(unit, &price)| (operator(unit), price));
    let pools = problem.pools().iter().map(|pool| pool.devices[0]);
    let certificate = Certificate::ColumnGeneration {
        threshold,
        prices: units_priced.filter(|&(_, price)| price > 0.0).collect(),
        devices: pools.zip(prices.devices.iter().copied()).filter(|&(_, price)| price > 0.0).collect(),
        order: preparation.states.order().iter().map(|&unit| operator(unit)).collect(),
    };
    LowerBound { value: threshold, source: SOURCE, certificate: Some(certificate) }
}

/// Maximum number of states that fit into the memory together with the smallest table over them.
pub(super) fn most_states(units: &Units, memory: Option<u64>) -> usize {
    let bytes =
        size_of::<[u32; 2]>() + units.pools() * size_of::<[f64; 2]>() + (FEWEST_CELLS + 1) * size_of::<f32>();
    let room = memory.map_or(f64::INFINITY, |memory| memory as f64 * STATES_SHARE / bytes as f64);
    (MAX_STATES as f64).min(room) as usize
}
