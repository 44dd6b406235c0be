//! Lower bounds: functions from a problem to a value that no placement undercuts.
//!
//! Every bound states for which problems it is valid, proves this in its doc comment, and rounds its value down by
//! [`crate::tolerance::round_down`]. Closed forms are in this module; a bound that needs a solver is in the crate of
//! that solver.

mod critical_path;
mod ellipsoid;
mod established;
mod fluid;
mod heaviest_unit;
pub mod makespan;
mod memory;

pub use critical_path::CriticalPath;
pub use established::{established, established_by, strongest_until};
pub use fluid::{Column, Fluid, divided, proved_by};
pub use heaviest_unit::HeaviestUnit;
pub use makespan::{Destructive, Energetic, OneMachine, Segments, Windows};
pub use memory::MemoryPrices;

use crate::certificate::Certificate;
use crate::graph::ClassId;
use crate::ids::Keyed;
use crate::problem::Problem;
use crate::stop::Stop;

/// A lower bound on the value of every feasible placement.
#[derive(Debug, Clone, PartialEq)]
pub struct LowerBound {
    /// The bound, in the objective's unit.
    pub value: f64,
    /// Source of the bound: the name of a bound, or `exhausted` for a finished search.
    pub source: &'static str,
    /// Evidence from which a checker can recompute the bound.
    pub certificate: Option<Certificate>,
}

impl LowerBound {
    /// The trivial bound: loads are never negative.
    pub const TRIVIAL: LowerBound = LowerBound { value: 0.0, source: "trivial", certificate: None };

    /// Source of a bound from a finished search, which proves that no plan is better.
    pub const EXHAUSTED: &'static str = "exhausted";

    /// Source of a bound from a search that ruled out every plan below it, while plans between it and the best one
    /// remain.
    pub const SEARCHED: &'static str = "search";

    /// The larger of two bounds, the first on a tie.
    pub fn max(self, other: LowerBound) -> LowerBound {
        if other.value > self.value { other } else { self }
    }
}

/// A bound that is cheap enough to compute for every problem.
pub trait Bound: Sync {
    /// Stable name.
    fn name(&self) -> &'static str;

    /// Whether the bound is valid for the problem.
    fn applies(&self, problem: &Problem) -> bool;

    /// Computes the bound; `None` if some operator cannot run anywhere, so that there is no value to bound.
    fn compute(&self, problem: &Problem) -> Option<LowerBound>;

    /// Whether the bound takes O(pools · (operators + pins)) per round, for a number of rounds that `stop` can end.
    fn is_linear(&self) -> bool {
        false
    }

    /// Whether the rounds of the bound take longer than milliseconds on problems where other closed forms do not, so
    /// that `stop` has to end them.
    fn is_long(&self) -> bool {
        false
    }

    /// Computes the best bound known by the time `stop` applies. Most bounds take too little time to poll `stop`.
    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let _ = stop;
        self.compute(problem)
    }
}

/// The closed-form bounds.
pub const CLOSED_FORMS: [&dyn Bound; 7] =
    [&Fluid, &HeaviestUnit, &CriticalPath, &OneMachine, &Energetic, &Windows, &MemoryPrices];

/// The strongest bound available without a search: from the closed forms, and from the bounds [`established`] for the
/// problem.
pub fn strongest(problem: &Problem) -> LowerBound {
    strongest_before(problem, &Stop::never())
}

/// Maximum of pools² · (operators + pins) at which every closed form takes milliseconds, so that no time limit omits
/// any.
const QUICK: usize = 1 << 20;

/// Maximum of pools · (operators + pins) at which linear closed forms take milliseconds.
const QUICK_IF_LINEAR: usize = 1 << 22;

/// The strongest bound known by the time `stop` applies; it includes at least the closed forms that take milliseconds.
pub fn strongest_before(problem: &Problem, stop: &Stop) -> LowerBound {
    closed_form(problem, stop).max(established::known(problem))
}

/// The strongest closed form that applies, within the time of [`strongest_before`]. Every search needs the closed
/// forms, so each is computed once.
pub fn closed_form(problem: &Problem, stop: &Stop) -> LowerBound {
    let graph = problem.graph();
    let pins: usize = graph.tensors().map(|tensor| graph.pins(tensor).len()).sum();
    let (size, pools) = (graph.operator_count() + pins, problem.pools().len());
    let without_deadline = stop.without_deadline();
    let stop_of = |bound: &dyn Bound| match size.saturating_mul(pools * pools) <= QUICK && !bound.is_long() {
        true => &without_deadline,
        false => stop,
    };
    let is_quick = size.saturating_mul(pools) <= QUICK_IF_LINEAR;
    // Linear bounds come first, then those of many rounds.
    let (linear, others): (Vec<&dyn Bound>, Vec<_>) =
        CLOSED_FORMS.iter().partition(|bound| bound.is_linear());
    let found = linear.into_iter().rev().chain(others).filter_map(|bound| {
        let stop = stop_of(bound);
        let in_time = stop.reason().is_none() || (is_quick && bound.is_linear());
        match in_time {
            true => bound.applies(problem).then(|| established(bound, problem, stop)).flatten(),
            false => established::computed(bound, problem),
        }
    });
    found.fold(LowerBound::TRIVIAL, LowerBound::max)
}

/// The strongest of `bounds` that apply.
pub fn strongest_of(bounds: &[&dyn Bound], problem: &Problem) -> LowerBound {
    bounds
        .iter()
        .filter(|bound| bound.applies(problem))
        .filter_map(|bound| bound.compute(problem))
        .fold(LowerBound::TRIVIAL, LowerBound::max)
}

/// Seconds of every colocation class on every kind, as `[class][kind]`; `None` if no pool of the kind may run the whole
/// class. O(pools · operators).
pub(crate) fn class_seconds(problem: &Problem) -> Keyed<ClassId, Vec<Option<f64>>> {
    let graph = problem.graph();
    let kinds = problem.cluster().kind_count();
    let mut table = Keyed::filled(vec![None; kinds], graph.class_count());
    for (class, row) in graph.class_ids().zip(table.iter_mut()) {
        for (pool, spec) in problem.pools().iter().enumerate() {
            if row[spec.kind].is_none() {
                row[spec.kind] = graph.class(class).iter().map(|&op| problem.seconds(op, pool)).sum();
            }
        }
    }
    table
}
