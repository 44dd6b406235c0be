//! The solve: reductions, and branch and bound from the Lagrangian bound of the root.

use rayon::ThreadPool;
use rustc_hash::FxHashMap;
use stagewright_core::document::{FORBIDDEN_COST, StrategyCertificateDocument};
use stagewright_core::solver::{Context, Event, SolveError, Status, Stop, StopReason};
use stagewright_core::tolerance::{gap, round_down};

use crate::branch::{AT_ROOT, FOR_A_PLAN, Plan, Tree};
use crate::dual::{Dual, Multipliers};
use crate::improve::State;
use crate::network::{Adjacency, Network};
use crate::problem::Problem;
use crate::reduce::{Reduced, reduce};

/// Name of the solver.
pub const NAME: &str = "lagrangian";

/// The outcome of a solve.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Proof status.
    pub status: Status,
    /// The strategy of every node, if there is a plan.
    pub strategies: Option<Vec<u32>>,
    /// Cost of the plan.
    pub cost: Option<i64>,
    /// Largest usage of the plan.
    pub peak_usage: Option<i64>,
    /// Lower bound on the cost of every plan; `None` if the problem is infeasible, or if the solve ended before any
    /// bound.
    pub bound: Option<f64>,
    /// Whether the bound comes from the whole tree rather than from its root.
    pub is_of_tree: bool,
    /// Evidence for the bound of the root.
    pub certificate: Option<StrategyCertificateDocument>,
    /// Reason why the solve ended before a proof.
    pub stop: Option<StopReason>,
    /// Number of nodes of the tree.
    pub tree_nodes: u64,
}

/// Starting plan and multipliers of a solve, and whether it ends at the root.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'s> {
    /// One strategy for every node, to start from.
    pub strategies: Option<&'s [u32]>,
    /// A certificate for the same problem to start from.
    pub certificate: Option<&'s StrategyCertificateDocument>,
    /// Whether to end after the root is bounded.
    pub root_only: bool,
}

/// Finds a plan of minimum cost and a lower bound.
///
/// The problem is reduced first: strategies without an allowed partner are removed, and nodes that a neighbour
/// determines are merged into it. Strategies that alone cost more than a first plan are excluded. Prices of usage and
/// messages give a Lagrangian bound at every node of a branch and bound. The choices that they suggest become plans
/// after a repair and a descent. An exhausted tree closes the gap.
///
/// A start that does not fit the problem is ignored. A plan is optimal within the tolerance of the project, 10⁻⁹ of its
/// cost; below 10⁹ that is exact, since costs are integers. The result does not depend on the number of threads.
///
/// # Errors
/// If threads cannot be started, or if a plan breaks a constraint, which is a defect of the solver.
pub fn solve(
    problem: &Problem,
    request: Request<'_>,
    context: &mut Context<'_>,
) -> Result<Solution, SolveError> {
    let stop = context.stop().clone();
    let (network, times) = Network::new(problem, FORBIDDEN_COST);
    let Some(reduced) = reduce(&network, &stop) else { return Ok(Solution::infeasible(0)) };
    let pool = context.pool()?;
    let (first, begun) = match request.strategies {
        Some(strategies) => (Some(strategies.to_vec()), request.certificate.cloned()),
        None => pool.install(|| first_plan(&reduced, &times, context.limits.memory, &stop)),
    };
    let best = first.as_deref().and_then(|strategies| known(problem, &reduced, strategies, &stop));
    let start = Start { reduced, cutoff: FORBIDDEN_COST, best };
    let least_cutoff = begun.as_ref().and_then(|certificate| certificate.cutoff);
    let Start { reduced, cutoff, best } = start.below_plan(problem, least_cutoff, &stop);
    let dual = Dual::new(&reduced);
    // A changed cutoff restarts the ascent, because its early iterations find plans.
    let root = begun
        .as_ref()
        .filter(|certificate| certificate.cutoff.unwrap_or(FORBIDDEN_COST) == cutoff)
        .and_then(|certificate| from_certificate(&dual, &times, certificate))
        .unwrap_or_else(|| dual.start());
    let mut tree = Tree::new(dual, root, best, AT_ROOT, context.limits.memory);
    let explored = explore(&mut tree, request.root_only, &pool, context);
    // The first ascent may have reached a higher bound than the ascent after the cutoff. A certificate given by the
    // caller proves nothing yet.
    let first = begun.filter(|_| request.strategies.is_none());
    let certificate = certificate(&mut tree, &reduced, &times, cutoff)
        .into_iter()
        .chain(first)
        .reduce(|strongest, other| if other.cost > strongest.cost { other } else { strongest });
    match tree.best() {
        Some(best) => explored.with_plan(problem, reduced.lift(&best.choice), certificate),
        None => Ok(explored.without_plan(certificate)),
    }
}

/// The reduced problem from which the tree starts.
struct Start {
    reduced: Reduced,
    /// Strategies of at least this cost are removed from the reduced network.
    cutoff: i64,
    best: Option<Plan>,
}

impl Start {
    /// Excludes strategies that alone cost more than the best plan, or than `least_cutoff` if that is higher, since no
    /// better plan contains them.
    fn below_plan(self, problem: &Problem, least_cutoff: Option<i64>, stop: &Stop) -> Start {
        let Some(plan) = &self.best else { return self };
        let strategies = self.reduced.lift(&plan.choice);
        let above = problem.cost(&strategies).map_or(FORBIDDEN_COST, |cost| cost + 1);
        let cutoff = least_cutoff.map_or(above, |least| least.max(above));
        if problem.exceeds(cutoff)
            && let Some(reduced) = reduce(&Network::new(problem, cutoff).0, stop)
            && let Some(choice) = reduced.restrict(&strategies)
        {
            let best = Some(Plan { cost: reduced.network.cost(&choice), choice });
            return Start { reduced, cutoff, best };
        }
        self
    }
}

/// The outcome of a branch and bound.
struct Explored {
    /// Lower bound of the tree.
    bound: f64,
    /// Whether any open nodes remain.
    is_left: bool,
    /// Number of tree nodes that were bounded.
    nodes: u64,
    stop: Option<StopReason>,
}

/// Steps through the tree until the tree is exhausted, the gap is reached, or a limit ends the search.
fn explore(tree: &mut Tree<'_>, root_only: bool, pool: &ThreadPool, context: &mut Context<'_>) -> Explored {
    let stop = context.stop().clone();
    let (mut cost, mut bound) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut is_left = true;
    let ended = loop {
        if let Some(best) = tree.best().filter(|best| best.cost < cost) {
            cost = best.cost;
            context.emit(Event::Incumbent { value: cost });
        }
        if tree.bounded > 0 && tree.bound() > bound {
            bound = tree.bound();
            context.emit(Event::Bound { value: round_down(bound), source: NAME });
        }
        let is_enough = cost.is_finite() && context.gap_reached(cost, bound);
        match is_left {
            false => break None,
            true if is_enough => break Some(StopReason::Gap),
            true if root_only && tree.bounded > 0 => break stop.reason(),
            true => {}
        }
        // The root is bounded even if a limit is reached before.
        if tree.bounded > 0
            && let Some(reason) = stop.reason()
        {
            break Some(reason);
        }
        is_left = pool.install(|| tree.step(&stop));
    };
    Explored { bound, is_left, nodes: tree.bounded, stop: ended }
}

impl Explored {
    /// The solution, given a plan.
    fn with_plan(
        self,
        problem: &Problem,
        strategies: Vec<u32>,
        certificate: Option<StrategyCertificateDocument>,
    ) -> Result<Solution, SolveError> {
        let Explored { bound, is_left, nodes, stop } = self;
        let of_root = certificate.as_ref().map_or(f64::NEG_INFINITY, |certificate| certificate.cost);
        let (allowed, peak) = problem.evaluate(&strategies);
        let cost = problem
            .cost(&strategies)
            .ok_or_else(|| SolveError::Invariant(format!("a plan of cost {allowed:?} uses {peak}")))?;
        let is_optimal = !is_left || gap(cost as f64, bound) == 0.0;
        // Costs are integers. An exhausted tree proves its plan optimal only within the tolerance.
        let of_tree = round_down(bound.min(cost as f64)).ceil();
        let is_of_tree = !is_left || (nodes > 1 && of_tree > of_root);
        let bound = if is_of_tree { of_tree.max(of_root) } else { of_root };
        Ok(Solution {
            status: if is_optimal { Status::Optimal } else { Status::Feasible },
            strategies: Some(strategies),
            cost: Some(cost),
            peak_usage: Some(peak),
            bound: bound.is_finite().then_some(bound),
            is_of_tree,
            certificate,
            stop: stop.filter(|_| !is_optimal),
            tree_nodes: nodes,
        })
    }

    /// The solution without a plan.
    fn without_plan(self, certificate: Option<StrategyCertificateDocument>) -> Solution {
        let none = Solution::infeasible(self.nodes);
        if !self.is_left {
            return none;
        }
        let of_root = certificate.as_ref().map_or(f64::NEG_INFINITY, |certificate| certificate.cost);
        let of_tree = round_down(self.bound).ceil();
        Solution {
            status: Status::Unknown,
            bound: Some(of_tree.max(of_root)).filter(|bound| bound.is_finite()),
            is_of_tree: of_tree > of_root && self.nodes > 1,
            certificate,
            stop: self.stop,
            ..none
        }
    }
}

impl Solution {
    fn infeasible(tree_nodes: u64) -> Solution {
        Solution {
            status: Status::Infeasible,
            strategies: None,
            cost: None,
            peak_usage: None,
            bound: None,
            is_of_tree: false,
            certificate: None,
            stop: None,
            tree_nodes,
        }
    }
}

/// Runs a short ascent. Returns the strategies of the plan that it finds, if any, and its certificate.
fn first_plan(
    reduced: &Reduced,
    times: &[i64],
    memory: Option<u64>,
    stop: &Stop,
) -> (Option<Vec<u32>>, Option<StrategyCertificateDocument>) {
    let dual = Dual::new(reduced);
    let start = dual.start();
    let mut tree = Tree::new(dual, start, None, FOR_A_PLAN, memory);
    tree.step(stop);
    let strategies = tree.best().map(|plan| reduced.lift(&plan.choice));
    (strategies, certificate(&mut tree, reduced, times, FORBIDDEN_COST))
}

/// The given strategies, improved by single changes, if they form a plan.
fn known(problem: &Problem, reduced: &Reduced, strategies: &[u32], stop: &Stop) -> Option<Plan> {
    let counts = problem.document().nodes.costs.iter().map(Vec::len);
    let is_sound = strategies.len() == problem.node_count()
        && strategies.iter().zip(counts).all(|(&strategy, count)| (strategy as usize) < count);
    if !is_sound || problem.cost(strategies).is_none() {
        return None;
    }
    let adjacent = Adjacency::new(&reduced.network);
    let mut state = State::new(&reduced.network, &adjacent, stop);
    state.set(&reduced.restrict(strategies)?);
    Some(Plan { cost: state.descend(), choice: state.choice })
}

/// The multipliers of a certificate, if it belongs to this problem.
fn from_certificate(
    dual: &Dual<'_>,
    times: &[i64],
    certificate: &StrategyCertificateDocument,
) -> Option<Multipliers> {
    let points = &dual.reduced().points;
    let by_time: FxHashMap<i64, u32> =
        points.iter().enumerate().map(|(index, &point)| (times[point as usize], index as u32)).collect();
    let prices: Option<Vec<(u32, f64)>> =
        certificate.prices.iter().map(|&(time, price)| Some((*by_time.get(&time)?, price))).collect();
    let originals = &dual.reduced().originals;
    let order = dual.elimination().core.iter().map(|&node| originals[node as usize]);
    let messages = certificate.messages.iter().flatten().flatten().copied();
    order.eq(certificate.order.iter().copied()).then(|| dual.multipliers(prices?, messages))?
}

/// Evidence for the bound of the root, if the root was bounded.
fn certificate(
    tree: &mut Tree<'_>,
    reduced: &Reduced,
    times: &[i64],
    cutoff: i64,
) -> Option<StrategyCertificateDocument> {
    let root = tree.root().clone();
    if root.bound == f64::NEG_INFINITY {
        return None;
    }
    let dual = tree.dual();
    let everything = vec![true; dual.elimination().offsets.last().copied().unwrap_or(0) as usize];
    let bound = dual.reduced_costs(&root.multipliers, &everything, &mut Vec::new());
    let original = |node: u32| reduced.originals[node as usize];
    Some(StrategyCertificateDocument {
        cost: round_down(bound.min(cutoff as f64)),
        cutoff: (cutoff < FORBIDDEN_COST).then_some(cutoff),
        prices: root
            .multipliers
            .prices()
            .map(|(point, price)| (times[reduced.points[point as usize] as usize], price))
            .collect(),
        merged: reduced.merged.clone(),
        eliminated: dual.elimination().eliminated().map(original).collect(),
        order: dual.elimination().core.iter().map(|&node| original(node)).collect(),
        messages: dual
            .messages(&root.multipliers)
            .into_iter()
            .map(|pair| pair.map(<[f64]>::to_vec))
            .collect(),
    })
}
