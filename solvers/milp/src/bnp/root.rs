//! The root: column generation up to the value of a plan, and the certificate of what it proves.

use stagewright_core::bound::LowerBound;
use stagewright_core::certificate::Certificate;
use stagewright_core::contract::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event};
use stagewright_core::tolerance;

use crate::colgen::ascent::raise;
use crate::colgen::generation::{Generation, Prices};
use crate::colgen::preparation::Preparation;
use crate::colgen::pricing::FEWEST_CELLS;
use crate::colgen::rules::Column;

/// Source of the bound.
const SOURCE: &str = "column-generation";
/// Most states of the state graph, and the share of the memory limit for it and pricing's table over it.
const MOST_STATES: usize = 1 << 20;
const STATES_SHARE: f64 = 0.5;

/// What the root leaves to the search below it.
pub(super) struct Root {
    /// Kinds, order and state graph.
    pub(super) preparation: Preparation,
    /// The columns that were generated.
    pub(super) columns: Vec<Column>,
    /// Whether every threshold was decided, so that the bound is the most that the relaxation says.
    pub(super) decided: bool,
}

impl Root {
    /// Column generation from `bound` up to `value`, that of a plan; raises the bound as far as it is proved, and says in
    /// `reason` what held it back. None where there was no time or memory to begin.
    pub(super) fn new(
        problem: &Problem,
        units: &Units,
        value: f64,
        bound: &mut LowerBound,
        reason: &mut Option<String>,
        statistics: &mut Vec<(&'static str, u64)>,
        context: &mut Context<'_>,
    ) -> Option<Root> {
        context.emit(Event::Phase { name: "column generation".into() });
        let stop = context.stop().clone();
        let most = most_states(units, context.limits.memory);
        let Some(preparation) = Preparation::new(problem, units, most, &stop) else {
            *reason = Some("column generation had no time or memory to begin".into());
            return None;
        };
        if preparation.relaxed {
            *reason = Some("column generation left out the cheapest of the nets, which are too many".into());
        }
        let gap = context.limits.gap;
        let enough = |low: f64| gap > 0.0 && tolerance::gap(value, low) <= gap;
        let mut generation = Generation::new(problem, units, &preparation, context.limits.memory);
        let raised = raise(&mut generation, [bound.value, value], enough, &stop, |low, prices| {
            let certificate = Some(certificate(problem, units, &preparation, low, &prices));
            *bound = LowerBound { value: low, source: SOURCE, certificate };
            context.emit(Event::Bound { value: low, source: SOURCE });
        });
        let decided = raised == Ok(true);
        match raised {
            Err(error) => *reason = Some(error.to_string()),
            Ok(_) if reason.is_none() && stop.reason().is_none() => {
                let why = match decided {
                    true => "the linear relaxation of column generation ends here",
                    false => {
                        "column generation ended with its rounds or its memory, some thresholds undecided"
                    }
                };
                *reason = Some(why.into());
            }
            Ok(_) => {}
        }
        let columns = generation.columns().to_vec();
        statistics.extend([
            ("states", preparation.states.len() as u64),
            ("rounds", generation.rounds()),
            ("columns", columns.len() as u64),
        ]);
        Some(Root { preparation, columns, decided })
    }
}

/// The evidence that a threshold is excluded: prices of units and devices, the zeros aside, and the order of decisions.
fn certificate(
    problem: &Problem,
    units: &Units,
    preparation: &Preparation,
    threshold: f64,
    prices: &Prices,
) -> Certificate {
    let operator = |unit: usize| units.members(unit)[0];
    let units_priced = prices.units.iter().enumerate().map(|(unit, &price)| (operator(unit), price));
    let pools = problem.pools().iter().map(|pool| pool.devices[0]);
    Certificate::ColumnGeneration {
        threshold,
        prices: units_priced.filter(|&(_, price)| price > 0.0).collect(),
        devices: pools.zip(prices.devices.iter().copied()).filter(|&(_, price)| price > 0.0).collect(),
        order: preparation.states.order().iter().map(|&unit| operator(unit as usize)).collect(),
    }
}

/// States that the memory has room for, with the least table over them.
pub(super) fn most_states(units: &Units, memory: Option<u64>) -> usize {
    let bytes =
        size_of::<[u32; 2]>() + units.pools() * size_of::<[f64; 2]>() + (FEWEST_CELLS + 1) * size_of::<f32>();
    let room = memory.map_or(f64::INFINITY, |memory| memory as f64 * STATES_SHARE / bytes as f64);
    (MOST_STATES as f64).min(room) as usize
}
