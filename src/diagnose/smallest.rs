//! The smallest device count and memory size at which the solver finds a plan.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stagewright_core::cluster::Cluster;
use stagewright_core::document::ClusterDocument;
use stagewright_core::graph::Graph;
use stagewright_core::memory::{set_memory, with_reserve};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Limits, Observer, Settings, Status};

use super::{DiagnosisEffort, Finding, total_bytes};

/// Largest device count of a kind that is tried.
const MAX_DEVICES: u32 = 4096;
/// Relative width at which the bisection over memory ends.
const MEMORY_WIDTH: f64 = 0.005;
/// Divisor of the remaining time that gives the time limit of one probe.
const PROBE_SHARE: u32 = 4;

/// The smallest sufficient count for every kind except hosts.
pub(super) fn counts(
    problem: &Problem,
    units: usize,
    effort: &DiagnosisEffort,
    deadline: Option<Instant>,
) -> Vec<Finding> {
    let mut probe = Probe::new(problem, effort, deadline);
    let mut found = Vec::new();
    for index in 0..problem.cluster().kind_count() {
        let kind = problem.cluster().kind(index);
        if kind.host {
            continue;
        }
        // More than one additional device per unit cannot help.
        let limit = kind.count.saturating_add((units as u32).max(1)).min(MAX_DEVICES);
        let feasible =
            |probe: &mut Probe<'_>, count: u32| probe.with(|cluster| cluster.kinds[index].count = count);
        let mut failed = (kind.count, Answer::No);
        let mut step = 1;
        let mut enough = None;
        while failed.0 < limit {
            let count = kind.count.saturating_add(step).min(limit);
            match feasible(&mut probe, count) {
                Answer::Yes => {
                    enough = Some(count);
                    break;
                }
                other => failed = (count, other),
            }
            step = step.saturating_mul(2);
        }
        let Some(mut count) = enough else { continue };
        while count - failed.0 > 1 {
            let middle = failed.0 + (count - failed.0) / 2;
            match feasible(&mut probe, middle) {
                Answer::Yes => count = middle,
                other => failed = (middle, other),
            }
        }
        found.push(Finding::MoreDevices { kind: kind.name.clone(), count, smallest: failed.1 == Answer::No });
    }
    found
}

/// The smallest sufficient memory for every kind with a memory limit, up to [`MEMORY_WIDTH`].
pub(super) fn memories(
    problem: &Problem,
    effort: &DiagnosisEffort,
    deadline: Option<Instant>,
) -> Vec<Finding> {
    let mut probe = Probe::new(problem, effort, deadline);
    let mut found = Vec::new();
    let reserved = most_bytes(problem);
    for index in 0..problem.cluster().kind_count() {
        let kind = problem.cluster().kind(index);
        let Some(limit) = kind.memory_bytes else { continue };
        let graph = problem.graph().document();
        let with_memory = |bytes: f64| {
            let mut kind = kind.clone();
            match effort.reserve_is_given {
                true => kind.memory_bytes = Some(bytes),
                false => set_memory(graph, &mut kind, bytes),
            }
            kind
        };
        let whole = with_reserve(graph, &with_memory(limit), reserved);
        if kind.count == 0 || limit >= whole {
            continue;
        }
        let feasible = |probe: &mut Probe<'_>, bytes: f64| {
            probe.with(|cluster| cluster.kinds[index] = with_memory(bytes))
        };
        if feasible(&mut probe, whole) != Answer::Yes {
            continue;
        }
        let (mut low, mut high) = (limit, whole);
        let mut proved = Some(limit);
        while high - low > MEMORY_WIDTH * high {
            let middle = 0.5 * (low + high);
            match feasible(&mut probe, middle) {
                Answer::Yes => high = middle,
                answer => {
                    low = middle;
                    proved = (answer == Answer::No).then_some(middle);
                }
            }
        }
        found.push(Finding::MoreMemory { kind: kind.name.clone(), bytes: high, too_few: proved });
    }
    found
}

/// Bytes per device with which every plan fits: all parameters, and all tensors of every microbatch in flight at once.
fn most_bytes(problem: &Problem) -> f64 {
    let in_flight = problem.objective().in_flight(u32::MAX);
    let declared = total_bytes(problem, in_flight);
    if problem.memory().is_sum() {
        return declared;
    }
    let graph = problem.graph();
    let tensors: f64 = graph.tensors().map(|tensor| graph.bytes(tensor)).sum();
    let workspace = graph.operators().map(|op| graph.operator(op).workspace_bytes).fold(0.0, f64::max);
    declared + f64::from(in_flight) * tensors + workspace
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Unknown,
}

/// Solves the problem on changed clusters to decide whether it has any plan.
struct Probe<'a> {
    problem: &'a Problem,
    graph: Arc<Graph>,
    effort: &'a DiagnosisEffort,
    deadline: Option<Instant>,
}

/// Stops at the first plan, or when the user interrupts.
struct FirstPlan<'a> {
    found: bool,
    interrupt: &'a AtomicBool,
}

impl Observer for FirstPlan<'_> {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        self.found |= matches!(event, Event::Incumbent { .. });
        if self.found || self.interrupt.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

impl<'a> Probe<'a> {
    fn new(problem: &'a Problem, effort: &'a DiagnosisEffort, deadline: Option<Instant>) -> Self {
        Probe { problem, graph: Arc::new(problem.graph().clone()), effort, deadline }
    }

    fn with(&mut self, change: impl FnOnce(&mut ClusterDocument)) -> Answer {
        let until = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let left = self.deadline.map_or(Duration::MAX, until);
        if left.is_zero() || self.effort.interrupt.load(Ordering::Relaxed) {
            return Answer::Unknown;
        }
        let mut document = self.problem.cluster().document().clone();
        // The matrix has one row per device of the original cluster, and the objectives probed here do not read it.
        document.matrix = None;
        change(&mut document);
        let objective = *self.problem.objective();
        let Ok(cluster) = Cluster::from_document(document) else { return Answer::Unknown };
        let Ok(problem) =
            Problem::pinned(self.graph.clone(), cluster, objective, self.problem.pins().clone())
        else {
            return Answer::Unknown;
        };
        let limits = Limits {
            time: Some(left / PROBE_SHARE),
            memory: self.effort.memory,
            gap: 1.0,
            simulations: None,
        };
        let mut observer = FirstPlan { found: false, interrupt: &self.effort.interrupt };
        // The first plan stops this solve through the observer, because setting the user's flag would stop everything.
        let mut context = Context::new(
            Settings { limits, threads: self.effort.threads, ..Settings::default() },
            &mut observer,
        );
        match self.effort.solver.solve(&problem, &mut context) {
            Ok(solution) if solution.plan.is_some() => Answer::Yes,
            Ok(solution) if solution.status == Status::Infeasible => Answer::No,
            _ if observer.found => Answer::Yes,
            _ => Answer::Unknown,
        }
    }
}
