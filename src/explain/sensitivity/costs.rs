//! Costs that differ from the predicted ones.

use std::collections::BTreeMap;

use rand::RngExt;
use stagewright_core::cost::Cost;
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::uncertainty::{SourceId, Sources};

use crate::report::units::{name, percent};

/// Number of kinds of operators with cases of their own: those with the most seconds.
const KINDS: usize = 3;

/// The group of costs that is off.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Off {
    /// The operators on devices of a class.
    Class(String),
    /// The costs of a source.
    Source(SourceId),
}

impl Off {
    fn includes(&self, problem: &Problem, sources: &Sources, cost: Cost) -> bool {
        match (self, cost) {
            (Off::Class(class), Cost::Operator(_, kind)) => problem.cluster().kind(kind).class == *class,
            (Off::Class(_), _) => false,
            (Off::Source(source), Cost::Operator(op, _)) => *source == sources.of(op),
            (Off::Source(source), _) => *source == sources.links(),
        }
    }

    fn describe(&self, sources: &Sources) -> String {
        match self {
            Off::Class(class) => format!("operators on {}", name(class)),
            Off::Source(source) if *source == sources.links() => "transfers".into(),
            Off::Source(source) => match sources.kind(*source) {
                Some(kind) => format!("operators of kind `{}`", name(kind)),
                None => "operators without a kind".into(),
            },
        }
    }
}

/// The costs of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Costs {
    /// One class of devices, all links or one kind of operator is off by a factor.
    Systematic {
        /// The group of costs that is off.
        off: Off,
        /// The factor by which the affected costs are multiplied.
        factor: f64,
    },
    /// Every operator on every class and every transfer is off by a factor of its own, uniform within the deviation.
    Drawn {
        /// Largest deviation.
        deviation: f64,
        /// Seed of all draws.
        seed: u64,
        /// Index of the draw.
        draw: u64,
    },
}

impl Costs {
    /// Describes the costs that are off, and in which direction.
    pub(super) fn describe(&self, sources: &Sources) -> String {
        match self {
            Costs::Systematic { off, factor } => {
                let way = if *factor > 1.0 { "longer" } else { "less" };
                format!("{} take {} {way}", off.describe(sources), percent((factor - 1.0).abs()))
            }
            Costs::Drawn { draw, .. } => format!("draw {draw}"),
        }
    }

    /// The problem with these costs. O((kinds + groups) · (operators + tensors)).
    pub(super) fn apply(&self, problem: &Problem, sources: &Sources) -> Problem {
        match self {
            Costs::Systematic { off, factor } => {
                problem.scaled(|cost| if off.includes(problem, sources, cost) { *factor } else { 1.0 })
            }
            &Costs::Drawn { deviation, seed, draw } => drawn(problem, deviation, seed, draw),
        }
    }
}

/// Applies a draw to a problem. Kinds of the same class share the factors of operators and transfers, because their
/// devices are alike.
fn drawn(problem: &Problem, deviation: f64, seed: u64, draw: u64) -> Problem {
    // A seed that differs from the solvers' seed.
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

/// The cases, each with the factors 1 + `deviation` and 1 − `deviation`: every class of devices, the links, and the
/// three kinds of operators with the most seconds. If the cluster has one class and the model one kind of operator, the
/// kind is left out, because either covers all compute. O(operators · pools).
///
/// The only class of a cluster is still a case of its own: scaling all compute by 1 − p is equivalent, up to a common
/// factor, to scaling all links by 1 / (1 − p), which is more than 1 + p.
pub(super) fn systematic(problem: &Problem, sources: &Sources, deviation: f64) -> Vec<Costs> {
    let cluster = problem.cluster();
    let mut off = Vec::new();
    for kind in (0..cluster.kind_count()).filter(|&kind| cluster.kind(kind).count > 0) {
        let of_class = Off::Class(cluster.kind(kind).class.clone());
        if !off.contains(&of_class) {
            off.push(of_class);
        }
    }
    let is_one_class = off.len() == 1;
    off.push(Off::Source(sources.links()));
    let longest = longest_kinds(problem, sources);
    if !is_one_class || longest.len() > 1 {
        off.extend(longest.into_iter().map(Off::Source));
    }
    let both = |off: Off| {
        [1.0 + deviation, 1.0 - deviation].map(|factor| Costs::Systematic { off: off.clone(), factor })
    };
    off.into_iter().flat_map(both).collect()
}

/// The kinds of operators with the most seconds, timing each operator on the pool where it is fastest.
fn longest_kinds(problem: &Problem, sources: &Sources) -> Vec<SourceId> {
    let mut seconds: Keyed<SourceId, f64> = Keyed::filled(0.0, sources.count());
    for op in problem.graph().operators() {
        let times = (0..problem.pools().len()).filter_map(|pool| problem.seconds(op, pool));
        seconds[sources.of(op)] += times.reduce(f64::min).unwrap_or(0.0);
    }
    let mut kinds: Vec<SourceId> = seconds.ids().filter(|&source| seconds[source] > 0.0).collect();
    kinds.sort_by(|&left, &right| seconds[right].total_cmp(&seconds[left]).then(left.cmp(&right)));
    kinds.truncate(KINDS);
    kinds
}
