//! The search for the plan with the best worst case, from known plans and bounds.

use std::cell::Cell;

use stagewright_core::bound::LowerBound;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::{Keyed, places};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Plan, Result};
use stagewright_core::tolerance;
use stagewright_core::uncertainty::{Sources, Uncertainty, WorstCase, worst_case};

use super::RobustPlan;
use super::stage_load::{Shares, WorstLoad};
use crate::dpl::{is_chain, plan_of, table_bytes};
use crate::order;
use crate::recurrence::{Combine, Program};

/// State of the search.
pub(super) struct Search<'a> {
    pub(super) problem: &'a Problem,
    pub(super) sources: &'a Sources,
    pub(super) uncertainty: Uncertainty,
    pub(super) best: RobustPlan,
    /// The best plan for the costs as predicted.
    pub(super) nominal: RobustPlan,
    /// Lower bound on the worst case of every plan.
    pub(super) bound: LowerBound,
}

impl<'a> Search<'a> {
    /// A search that starts from one plan and no bound.
    pub(super) fn new(
        problem: &'a Problem,
        sources: &'a Sources,
        uncertainty: Uncertainty,
        plan: Plan,
    ) -> Self {
        let worst = worst_case(problem, sources, &plan.placement, &plan.evaluation, uncertainty);
        let best = RobustPlan { plan, worst };
        let nominal = best.clone();
        Search { problem, sources, uncertainty, best, nominal, bound: LowerBound::TRIVIAL }
    }

    /// The worst case of a plan.
    pub(super) fn worst(&self, plan: &Plan) -> WorstCase {
        worst_case(self.problem, self.sources, &plan.placement, &plan.evaluation, self.uncertainty)
    }

    /// Keeps a plan if it is better in the worst case, or equal there and better for the predicted costs. Also keeps
    /// the best plan for the predicted costs.
    pub(super) fn keep(&mut self, plan: Plan) {
        let worst = self.worst(&plan);
        let is_below = |value: f64, other: f64| value < other && !tolerance::same(value, other);
        if is_below(plan.value(), self.nominal.plan.value()) {
            self.nominal = RobustPlan { plan: plan.clone(), worst: worst.clone() };
        }
        let is_better = match tolerance::same(worst.value, self.best.worst.value) {
            true => is_below(plan.value(), self.best.plan.value()),
            false => worst.value < self.best.worst.value,
        };
        if is_better {
            self.best = RobustPlan { plan, worst };
        }
    }

    /// Keeps a bound if it is stronger than the known one.
    pub(super) fn raise(&mut self, value: f64, source: &'static str) {
        let value = tolerance::round_down(value);
        if value > self.bound.value {
            self.bound = LowerBound { value, source, certificate: None };
        }
    }

    pub(super) fn is_enough(&self, context: &Context<'_>) -> bool {
        context.is_enough(self.best.worst.value, self.bound.value)
    }

    /// Improves a contiguous plan by the programs over orders and over ideals. If the program over all ideals, or over
    /// the only order, finishes, the bound rises to the minimum worst case without uplinks, which only increase the
    /// value.
    pub(super) fn split(&mut self, context: &mut Context<'_>) -> Result<()> {
        let problem = self.problem;
        let units = Units::of(problem);
        if units.is_empty() {
            return Ok(());
        }
        let shares = Shares::new(problem, &units, self.sources);
        let (uncertainty, stop) = (self.uncertainty, context.stop().clone());
        let program = Program {
            problem,
            units: &units,
            stage: &|pool| WorstLoad::new(problem, &units, &shares, uncertainty, pool),
            combine: Combine::Largest,
            is_allowed: &|_, _| true,
            stop,
            room: table_bytes(context.limits.memory),
            lacks_room: Cell::new(false),
        };
        let mut orders: Vec<Vec<UnitId>> = vec![by_stages(&units, &self.best.plan.placement)];
        orders.extend(order::PLAIN.map(|rule| rule.order(problem, &units)));
        for (at, order) in orders.iter().enumerate() {
            if context.stop().reason().is_some() {
                return Ok(());
            }
            if !orders[..at].contains(order) {
                let found = program.split(order, self.best.worst.value);
                if let Some((_, stages)) = found {
                    self.keep(plan_of(problem, &units, &stages)?);
                }
            }
        }
        let cap = self.best.worst.value;
        let finished = match is_chain(&units) {
            true => program.over_order(&orders[0], cap),
            false => program.over_ideals(cap),
        };
        if program.lacks_room.get() {
            let name = "the memory limit has no room for all states: some splits are left out".into();
            context.emit(Event::Phase { name });
        }
        let Some(found) = finished else { return Ok(()) };
        let value = found.as_ref().map_or(cap, |(value, _)| *value);
        if let Some((_, stages)) = found {
            self.keep(plan_of(problem, &units, &stages)?);
        }
        // `value` ignores uplinks, which may add time to any plan, so the search is exhaustive only if the best plan,
        // uplinks included, reaches it.
        let is_reached = tolerance::gap(self.best.worst.value, value) == 0.0;
        self.raise(value, if is_reached { LowerBound::EXHAUSTED } else { LowerBound::SEARCHED });
        Ok(())
    }
}

/// The units of a contiguous placement by stage, and depth first within a stage.
pub(crate) fn by_stages(units: &Units, placement: &Placement) -> Vec<UnitId> {
    let place: Keyed<UnitId, usize> = places(&order::depth_first(units));
    let used = placement.used();
    let stage_of = |unit: UnitId| {
        let device = placement.device_of(units.members(unit)[0]);
        used.iter().position(|&used| used == device).unwrap_or(0)
    };
    order::by_priority(units, |unit| (stage_of(unit) * units.len() + place[unit]) as f64)
}
