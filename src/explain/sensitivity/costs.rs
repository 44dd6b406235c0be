//! Costs that differ from the predicted ones.

use std::collections::BTreeMap;

use rand::RngExt;
use stagewright_core::cost::Cost;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::uncertainty::{Scenario, Sources};

use crate::report::table::off;
use crate::robust;

/// The costs of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Costs {
    /// One class of devices, all links or one kind of operator is off by a factor.
    Systematic(Scenario),
    /// Every operator on every class and every transfer is off by a factor of its own, uniform within the deviation.
    Drawn {
        /// Largest deviation.
        deviation: f64,
        /// Seed of all draws.
        seed: u64,
        /// Number of the draw.
        draw: u64,
    },
}

impl Costs {
    /// What is off, and which way.
    pub(super) fn describe(&self, problem: &Problem, sources: &Sources) -> String {
        match self {
            Costs::Systematic(scenario) => off(&robust::off(problem, sources, scenario), scenario.factor),
            Costs::Drawn { draw, .. } => format!("draw {draw}"),
        }
    }

    /// The problem with these costs. O((kinds + groups) · (operators + tensors)).
    pub(super) fn apply(&self, problem: &Problem, sources: &Sources) -> Problem {
        match self {
            Costs::Systematic(scenario) => scenario.apply(problem, sources),
            &Costs::Drawn { deviation, seed, draw } => drawn(problem, deviation, seed, draw),
        }
    }
}

/// A draw. Kinds of one class share the factor of an operator or a transfer, as their devices are the same.
fn drawn(problem: &Problem, deviation: f64, seed: u64, draw: u64) -> Problem {
    // Another seed than that of the solvers.
    let mut rng = seed::stream(seed ^ 0x5E45, draw);
    let mut of_class: BTreeMap<&str, (Cost, f64)> = BTreeMap::new();
    let cluster = problem.cluster();
    let in_first = |cost: Cost| match cost {
        Cost::Operator(op, _) => Cost::Operator(op, 0),
        Cost::Transfer(tensor, _) => Cost::Transfer(tensor, 0),
        Cost::Gradient(parameter, _) => Cost::Gradient(parameter, 0),
        other => other,
    };
    problem.scaled(|cost| {
        let own = if deviation > 0.0 { rng.random_range(1.0 - deviation..=1.0 + deviation) } else { 1.0 };
        let (Cost::Operator(_, kind) | Cost::Transfer(_, kind) | Cost::Gradient(_, kind)) = cost else {
            return own;
        };
        let known = of_class.entry(&cluster.kind(kind).class).or_insert((in_first(cost), own));
        if known.0 != in_first(cost) {
            *known = (in_first(cost), own);
        }
        known.1
    })
}

/// The cases: every class of devices, the links and the kinds of operators with the most seconds, each slower and faster.
pub(super) fn systematic(problem: &Problem, sources: &Sources, deviation: f64) -> Vec<Costs> {
    robust::listed(problem, sources, deviation).into_iter().skip(1).map(Costs::Systematic).collect()
}
