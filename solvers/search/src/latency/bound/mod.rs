//! A lower bound on the latency by the last call, the last call before it, and so on.
//!
//! # The recursion
//!
//! Let R(v) be the time at which operator v is ready in some placement. On a host, R(v) = p_v + max R(u) over the
//! inputs u. For a call Y, which is convex, let ↓Y be Y with all its ancestors; then J = ↓Y \ Y is closed under
//! predecessors, an *ideal*, and Y waits for every maximal element of J, so
//!
//! > R(v) ≥ load(Y) + max {R(u): u ∈ J},  load(Y) = Σ p + Σ inputs + Σ outputs.
//!
//! Let F(v, k) be the minimum of this bound with k more calls in a chain of calls that wait for one another:
//!
//! > F(v, k) = min { p_v + max F(u, k) over the inputs u;  min over Y ∋ v of load(Y) + max {F(u, k − 1): u ∈ J} }
//!
//! over the convex sets Y that one device can run and hold. By induction on the calls before v, R(v) ≥ F(v, k) whenever
//! at most k calls are before v or contain it, so the latency is at least the largest F(v, K), where K is the number of
//! calls of all devices of the pool; with several pools of accelerators, k is a vector with a number for each.
//!
//! The relaxation drops the condition that two inputs u and u' of one call belong to the same placement: each input
//! takes the calls that suit it best, and each may use all k. Along any single path the recursion is exact, and
//! everything that convexity forces into a call is paid for with its memory, its work and all its tensors. If branches
//! are short beside the calls, as in residual networks and transformers, the chain of the last operator with all other
//! operators on hosts is a placement of exactly that value, which is then optimal. [`Relaxed`] contains this placement.
//!
//! # How it is computed
//!
//! - `nodes`: colocation classes that calls hold whole become nodes.
//! - `ideals`: every Y is a difference I \ J of two ideals, so there are at most as many as pairs of ideals.
//! - `least`: for each J and v the minimum load of a set I \ J with v in it. F needs no other loads. Sets that do not
//!   wait for all of J are among them; they are also in the row of the smaller ideal, where they start no later.
//! - `chain`: F, level by level.
//! - `read_off`: the placement that F suggests.
//! - `choice`: the choice of nodes to leave out if there are too many ideals.
//!
//! Using ideals as states is due to Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph
//! Operators", NeurIPS 2020, whose dynamic program is for throughput; for latency they have only an integer program.

mod chain;
mod choice;
mod ideals;
mod least;
mod nodes;
mod read_off;

use stagewright_core::bound::{Bound, LowerBound, strongest_before};
use stagewright_core::call_timing::Offload;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::evaluate::evaluate;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::round_down;

use chain::Chain;
use choice::Choice;

/// Work limits of the bound, which is valid for every choice of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallChainEffort {
    /// Maximum number of ideals; nodes are left out to stay within the limit.
    pub ideals: usize,
    /// Maximum number of operators, tensors and their readers visited for the loads of calls; nodes are left out to
    /// stay within the limit.
    pub steps: u64,
}

impl CallChainEffort {
    /// 2¹² ideals and 2²⁵ steps, about a second.
    pub const DEFAULT: CallChainEffort = CallChainEffort { ideals: 1 << 12, steps: 1 << 25 };

    /// 2¹⁷ ideals and 2³² steps, minutes.
    pub const HIGH: CallChainEffort = CallChainEffort { ideals: 1 << 17, steps: 1 << 32 };
}

impl Default for CallChainEffort {
    fn default() -> CallChainEffort {
        CallChainEffort::DEFAULT
    }
}

/// The bound at a given effort.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallChains {
    /// Work limits.
    pub effort: CallChainEffort,
}

/// A bound with the placement that its recursion suggests.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxed {
    /// The bound; infinite if no placement exists.
    pub bound: LowerBound,
    /// A feasible placement and its latency: the chain of calls of the operator that is ready last, with the chains of
    /// the operators that it waits for as far as they are compatible. `None` if they are not compatible, even with one
    /// call.
    pub plan: Option<(Placement, f64)>,
    /// Whether no node was left out, so that more effort is useless.
    pub complete: bool,
}

impl CallChains {
    const NAME: &'static str = "call-chains";

    /// The bound with the placement that it suggests; `None` if stopped.
    ///
    /// Takes O(steps + levels · (ideals · nodes + operators)) time, with one level for each number of calls in a chain;
    /// if nodes are left out, the steps are repeated a few times.
    ///
    /// # Panics
    /// If the objective is not latency.
    pub fn relax(&self, problem: &Problem, stop: &Stop) -> Option<Relaxed> {
        assert!(self.applies(problem), "a bound for latency alone");
        let offload = Offload::new(problem);
        let Choice { groups, nodes, ideals, least } = Choice::new(&offload, self.effort, stop)?;
        let complete = nodes.len() == groups.len();
        let chain = Chain::new(&offload, &groups, &nodes, &ideals, &least);
        let levels = chain.levels(stop)?;
        let latest = levels.value();
        let bound = LowerBound {
            value: if latest.is_finite() { round_down(latest) } else { latest },
            source: CallChains::NAME,
            certificate: None,
        };
        let plan = read_off::placement(&chain, &levels, stop).and_then(|placement| {
            let evaluation = evaluate(problem, &placement);
            evaluation.is_feasible().then_some((placement, evaluation.value))
        });
        // The chains of several calls may put a colocation class on two devices, while a single call would hold it.
        let plan = plan.or_else(|| {
            let one_call = Objective::Latency { calls: 1 };
            let problem =
                (problem.objective().calls() > 1).then(|| problem.with_objective(one_call).ok())??;
            self.relax(&problem, stop)?.plan
        });
        Some(Relaxed { bound, plan, complete })
    }
}

impl Bound for CallChains {
    fn name(&self) -> &'static str {
        CallChains::NAME
    }

    fn applies(&self, problem: &Problem) -> bool {
        problem.objective().kind() == ObjectiveKind::Latency
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::new(None, Default::default()))
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let relaxed = self.relax(problem, stop)?;
        relaxed.bound.value.is_finite().then_some(relaxed.bound)
    }
}

/// The initial bound of a search: the stronger of the closed forms and [`CallChains`] at its default effort, with the
/// placement that the latter suggests. If `stop` ends [`CallChains`], only the closed forms count.
///
/// # Panics
/// If the objective is not latency.
pub fn first(problem: &Problem, stop: &Stop) -> (LowerBound, Option<Placement>) {
    let closed = strongest_before(problem, stop);
    match CallChains::default().relax(problem, stop) {
        Some(Relaxed { bound, plan, .. }) if bound.value.is_finite() => {
            (closed.max(bound), plan.map(|(placement, _)| placement))
        }
        _ => (closed, None),
    }
}
