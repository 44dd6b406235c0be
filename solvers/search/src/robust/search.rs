//! The search for the plan with the best worst case, from known plans and bounds.

use std::cell::Cell;

use stagewright_core::bound::LowerBound;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::Split;
use stagewright_core::ids::{Keyed, places};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Plan, Result, SolveError, Solver, Stop};
use stagewright_core::tolerance;
use stagewright_core::uncertainty::{Sources, Uncertainty, WorstCase, worst_case};

use super::stage_load::{Shares, WorstLoad};
use super::states::{STATE_BYTES, Stages};
use super::{RobustPlan, moves, play};
use crate::dpl::{Positions, is_chain, plan_of, table_bytes};
use crate::order;
use crate::usage::UsageSpace;

/// Maximum number of states of a program.
const MOST_STATES: u64 = 1 << 22;

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
    /// A search that knows one plan, and no bound.
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

    /// Keeps a plan if it is better in the worst case, or equal there and better for the predicted costs; and keeps the
    /// best plan for the predicted costs.
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

    /// Keeps a bound that is stronger.
    pub(super) fn raise(&mut self, value: f64, source: &'static str) {
        let value = tolerance::round_down(value);
        if value > self.bound.value {
            self.bound = LowerBound { value, source, certificate: None };
        }
    }

    pub(super) fn is_enough(&self, context: &Context<'_>) -> bool {
        context.is_enough(self.best.worst.value, self.bound.value)
    }

    /// Runs all parts until the gap is closed or the solve has to stop. Returns the number of problems solved.
    ///
    /// # Errors
    /// An error of the solver, or a broken invariant.
    pub(super) fn run(&mut self, solver: &dyn Solver, context: &mut Context<'_>) -> Result<usize> {
        if self.problem.objective().rules().split == Split::Contiguous && !self.is_enough(context) {
            context.emit(Event::Phase { name: "stages of least worst load".into() });
            self.split(context)?;
        }
        let solved = play::play(self, solver, context)?;
        moves::improve(self, context);
        let (value, bound) = (self.best.worst.value, self.bound.value);
        if bound > value * (1.0 + tolerance::VALUE_RELATIVE) {
            return Err(SolveError::Invariant(format!("a worst case of {value} below the bound of {bound}")));
        }
        // A bound that exceeds the value only by rounding equals the value.
        self.bound.value = bound.min(value);
        Ok(solved)
    }

    /// Improves a contiguous plan by the programs over orders and over ideals. A finished program over all ideals, or
    /// over the only order, raises the bound to the minimum worst case without uplinks, which only increase it.
    fn split(&mut self, context: &mut Context<'_>) -> Result<()> {
        let problem = self.problem;
        let units = Units::of(problem);
        if units.is_empty() {
            return Ok(());
        }
        let shares = Shares::new(problem, &units, self.sources);
        let (uncertainty, stop) = (self.uncertainty, context.stop().clone());
        let (room, lacks_room) = (table_bytes(context.limits.memory), Cell::new(false));
        let program = Program { problem, units: &units, shares, uncertainty, stop, room, lacks_room };
        let mut orders: Vec<Vec<UnitId>> = vec![by_stages(&units, &self.best.plan.placement)];
        orders.extend(order::PLAIN.map(|rule| rule.order(problem, &units)));
        for (at, order) in orders.iter().enumerate() {
            if context.stop().reason().is_some() {
                return Ok(());
            }
            if !orders[..at].contains(order) {
                program.split(order, self)?;
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
        // The time that uplinks add to the best plan may also be added to the others.
        let is_reached = tolerance::gap(self.best.worst.value, value) == 0.0;
        self.raise(value, if is_reached { LowerBound::EXHAUSTED } else { LowerBound::SEARCHED });
        Ok(())
    }
}

/// The programs over orders and ideals.
pub(super) struct Program<'a> {
    pub(super) problem: &'a Problem,
    pub(super) units: &'a Units,
    shares: Shares,
    uncertainty: Uncertainty,
    pub(super) stop: Stop,
    /// Bytes for the tables of one program.
    pub(super) room: u64,
    /// Whether a program left out states for lack of memory.
    lacks_room: Cell<bool>,
}

impl Program<'_> {
    pub(super) fn worst_load(&self, pool: usize) -> WorstLoad<'_> {
        WorstLoad::new(self.problem, self.units, &self.shares, self.uncertainty, pool)
    }

    pub(super) fn most_replicas(&self, pool: usize) -> u32 {
        self.problem.objective().rules().max_replicas.min(self.problem.pools()[pool].count())
    }

    /// The usages for tables of `count` prefixes or ideals, beside `bytes` of other tables: all of them, or if they `may_lack`
    /// some, as many as there is room for.
    pub(super) fn usages(&self, bytes: u64, count: usize, may_lack: bool) -> Option<UsageSpace> {
        let most = MOST_STATES.min(self.room.saturating_sub(bytes) / STATE_BYTES) as usize / count;
        let space = match may_lack {
            true => UsageSpace::fitting(self.problem, self.units.len(), most),
            false => UsageSpace::new(self.problem, self.units.len(), most),
        };
        let size = UsageSpace::size(self.problem, self.units.len());
        let has_all = space.as_ref().is_some_and(|space| space.len() as f64 >= size);
        if !has_all && size * count as f64 <= MOST_STATES as f64 {
            self.lacks_room.set(true);
        }
        space
    }

    /// Splits an order, and near its cuts again if not all positions were tried. Keeps better plans.
    fn split(&self, order: &[UnitId], search: &mut Search<'_>) -> Result<()> {
        let mut positions = Positions::new(self.problem, self.units, order);
        let rounds = if positions.are_all(order.len()) { 1 } else { 2 };
        for _ in 0..rounds {
            let Some(space) = self.usages(0, positions.list().len(), true) else { break };
            let cap = search.best.worst.value;
            let Some(Some((_, stages))) = self.on_line(order, &positions, &space, cap) else { break };
            search.keep(plan_of(self.problem, self.units, &stages)?);
            positions = Positions::near(&stages, order.len());
        }
        Ok(())
    }

    /// The best stages with a worst value below the cap, for units with a single order; `Some(None)` if there are none.
    /// `None` if the order is too long for all its positions, there are too many states, or the solve has to stop
    /// first.
    fn over_order(&self, order: &[UnitId], cap: f64) -> Option<Option<Stages>> {
        let positions = Positions::new(self.problem, self.units, order);
        if !positions.are_all(order.len()) {
            return None;
        }
        let space = self.usages(0, positions.list().len(), false)?;
        self.on_line(order, &positions, &space, cap)
    }
}

/// The units by stage of a contiguous placement; within a stage depth first.
fn by_stages(units: &Units, placement: &Placement) -> Vec<UnitId> {
    let place: Keyed<UnitId, usize> = places(&order::depth_first(units));
    let used = placement.used();
    let stage_of = |unit: UnitId| {
        let device = placement.device_of(units.members(unit)[0]);
        used.iter().position(|&used| used == device).unwrap_or(0)
    };
    order::by_priority(units, |unit| (stage_of(unit) * units.len() + place[unit]) as f64)
}
