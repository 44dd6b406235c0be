//! Why there is no plan: an irreducible set of units that the devices cannot hold together.
//!
//! Any unit left out of the set, the others of the set can be packed. It is found by halving (Junker,
//! "QuickXplain: preferred explanations and relaxations for over-constrained problems", AAAI 2004), each
//! question being a packing program without loads and nets.

use std::time::{Duration, Instant};

use good_lp::solvers::highs::highs;
use good_lp::{Expression, ProblemVariables, SolverModel, Variable, constraint, variable};
use highs::HighsModelStatus;
use stagewright_core::contract::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::MEMORY_RELATIVE;

/// Most time for all questions together: that there is no plan is known without them.
const TIME: Duration = Duration::from_secs(5);
/// Most variables of a question.
const MOST_VARIABLES: usize = 100_000;
/// The capacity that a memory becomes.
const SCALE: f64 = 1e4;
/// Most units named in a sentence.
const MOST_NAMED: usize = 4;

/// The irreducible set as a sentence.
pub(crate) fn explained(problem: &Problem, units: &Units, stop: &Stop) -> Option<String> {
    let set = irreducible(problem, units, stop)?;
    let name = |&unit: &u32| {
        let first = units.members(unit as usize)[0];
        format!("`{}`", problem.graph().operator(first).name)
    };
    let named: Vec<String> = set.iter().take(MOST_NAMED).map(name).collect();
    let more = match set.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let bytes: f64 = set.iter().map(|&unit| units.bytes(unit as usize, 1)).sum();
    Some(format!(
        "an irreducible set: the devices cannot hold {}{more} together, {bytes} bytes with what is colocated with \
         them, but can when any one of these is left out",
        named.join(", ")
    ))
}

/// Units that cannot be packed, of which none is superfluous, by index. None where all can be packed, or
/// where a question was not answered in time.
pub fn irreducible(problem: &Problem, units: &Units, stop: &Stop) -> Option<Vec<u32>> {
    let mut heaviest: Vec<u32> = (0..units.len() as u32).collect();
    let bytes = |unit: &u32| units.bytes(*unit as usize, 1);
    heaviest.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)).then(a.cmp(b)));
    let devices: usize = problem.pools().iter().map(|pool| pool.devices.len()).sum();
    if units.len().saturating_mul(devices) > MOST_VARIABLES {
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
    /// The least part of the candidates that does not fit beside the given units; none where time ran out.
    /// Recursion is as deep as the logarithm of their number.
    fn explain(&self, given: &mut Vec<u32>, grown: bool, candidates: &[u32]) -> Option<Vec<u32>> {
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

    /// Whether some units fit the devices.
    fn fits(&self, chosen: &[u32]) -> Option<bool> {
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
                    if self.units.supported(unit as usize, pool) {
                        let place = variables.add(variable().binary());
                        places.push(place);
                        sum.add_mul(self.units.bytes(unit as usize, 1) / scale, place);
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
        for (sum, most) in sums {
            program.add_constraint(constraint!(sum <= most));
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
