//! Explanation of infeasibility: an irreducible set of units that the devices cannot hold together.
//!
//! Without any one of its units, the rest of the set can be packed. The set is found by halving (Junker, "QuickXplain:
//! preferred explanations and relaxations for over-constrained problems", AAAI 2004); every query is a packing program
//! without loads and nets.

use std::time::{Duration, Instant};

use good_lp::solvers::highs::highs;
use good_lp::{Expression, ProblemVariables, SolverModel, Variable, constraint, variable};
use highs::HighsModelStatus;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::MEMORY_RELATIVE;
use stagewright_core::units::bytes_closely;

/// Time limit of all queries together, which only explain the infeasibility that is already proved.
const TIME: Duration = Duration::from_secs(5);
/// Maximum number of variables of a query.
const MAX_VARIABLES: usize = 100_000;
/// Capacity to which the memory of a device is scaled.
const SCALE: f64 = 1e4;
/// Maximum number of units named in a message.
const MAX_NAMED: usize = 4;

/// The irreducible set as a message.
pub(crate) fn explained(problem: &Problem, units: &Units, stop: &Stop) -> Option<String> {
    let set = irreducible(problem, units, stop)?;
    let name = |&unit: &UnitId| {
        let first = units.members(unit)[0];
        format!("`{}`", problem.graph().operator(first).name)
    };
    let named: Vec<String> = set.iter().take(MAX_NAMED).map(name).collect();
    let more = match set.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let bytes = bytes_closely(set.iter().map(|&unit| units.bytes(unit, 1)).sum());
    Some(format!(
        "an irreducible infeasible set: the devices cannot hold {}{more} together, {bytes} with their \
         colocated operators, but can hold them without any one of these",
        named.join(", ")
    ))
}

/// An irreducible set of units that cannot be packed, ascending. `None` if all units can be packed, or if a query is
/// too large or not answered in time.
pub fn irreducible(problem: &Problem, units: &Units, stop: &Stop) -> Option<Vec<UnitId>> {
    let mut heaviest: Vec<UnitId> = units.ids().collect();
    let bytes = |unit: &UnitId| units.bytes(*unit, 1);
    heaviest.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)).then(a.cmp(b)));
    let devices: usize = problem.pools().iter().map(|pool| pool.devices.len()).sum();
    if units.len().saturating_mul(devices) > MAX_VARIABLES {
        return None;
    }
    let packing = Packing { problem, units, stop, until: Instant::now() + TIME };
    if packing.fits(&heaviest)? {
        return None;
    }
    let mut set = packing.explain(&mut Vec::new(), false, &heaviest)?;
    set.sort_unstable();
    Some(set)
}

struct Packing<'a> {
    problem: &'a Problem,
    units: &'a Units,
    stop: &'a Stop,
    until: Instant,
}

impl Packing<'_> {
    /// An irreducible part of the candidates that does not fit next to the given units; `None` if time runs out. The
    /// depth of the recursion is logarithmic in the number of candidates.
    fn explain(&self, given: &mut Vec<UnitId>, grown: bool, candidates: &[UnitId]) -> Option<Vec<UnitId>> {
        if grown && !self.fits(given)? {
            return Some(Vec::new());
        }
        if candidates.len() <= 1 {
            return Some(candidates.to_vec());
        }
        let (first, second) = candidates.split_at(candidates.len() / 2);
        let before = given.len();
        given.extend(first);
        let needed = self.explain(given, true, second)?;
        given.truncate(before);
        given.extend(&needed);
        let rest = self.explain(given, !needed.is_empty(), first)?;
        given.truncate(before);
        Some([needed, rest].concat())
    }

    /// Whether the chosen units fit the devices; `None` if the query is not answered in time.
    fn fits(&self, chosen: &[UnitId]) -> Option<bool> {
        let left = self.until.saturating_duration_since(Instant::now());
        if self.stop.reason().is_some() || left.is_zero() {
            return None;
        }
        let mut variables = ProblemVariables::new();
        let mut sums: Vec<(Expression, f64)> = Vec::new();
        let mut places: Vec<Vec<Variable>> = vec![Vec::new(); chosen.len()];
        for (pool, spec) in self.problem.pools().iter().enumerate() {
            for _ in &spec.devices {
                let scale =
                    if spec.memory > 0.0 && spec.memory.is_finite() { spec.memory / SCALE } else { 1.0 };
                let mut sum = Expression::from(0.0);
                for (&unit, places) in chosen.iter().zip(&mut places) {
                    if self.units.supported(unit, pool) {
                        let place = variables.add(variable().binary());
                        places.push(place);
                        sum.add_mul(self.units.bytes(unit, 1) / scale, place);
                    }
                }
                if spec.memory.is_finite() {
                    sums.push((sum, spec.memory / scale * (1.0 + MEMORY_RELATIVE)));
                }
            }
        }
        if places.iter().any(Vec::is_empty) {
            return Some(false);
        }
        let mut program = variables.minimise(Expression::from(0.0)).using(highs);
        for places in places {
            let sum: Expression = places.into_iter().sum();
            program.add_constraint(constraint!(sum == 1.0));
        }
        for (sum, limit) in sums {
            program.add_constraint(constraint!(sum <= limit));
        }
        let mut model = program.try_into_inner().ok()?;
        model.make_quiet();
        model.set_option("threads", 1);
        model.set_option("parallel", "off");
        let time = self.stop.remaining().map_or(left, |remaining| remaining.min(left));
        model.set_option("time_limit", time.as_secs_f64());
        match model.try_solve().ok()?.status() {
            HighsModelStatus::Optimal | HighsModelStatus::ModelEmpty => Some(true),
            HighsModelStatus::Infeasible => Some(false),
            _ => None,
        }
    }
}
