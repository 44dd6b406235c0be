//! Random task graphs by the recipes of Kwok and Ahmad, "Benchmarking and comparison of the task graph scheduling
//! algorithms", Journal of Parallel and Distributed Computing 1999. Neither the graphs nor the text of the paper were
//! available: the recipes are taken from descriptions elsewhere, and choices made here are stated.
//!
//! CCR is the mean seconds of communication of an edge divided by the mean seconds of a task.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Execution;
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::OpId;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;

use crate::task_graphs::{TaskGraph, known_length};

/// RGBOS, random graphs for which the paper finds optimal schedules by branch and bound: tasks of 2 to 78 seconds, each
/// with v/10 successors on average, where v is the number of tasks. The paper has 10, 12, … 32 tasks and a CCR of 0.1,
/// 1 and 10.
pub fn rgbos(number: u64, tasks: usize, ccr: f64) -> TaskGraph {
    let mut rng = seed::stream(0x4B60, number);
    let seconds: Vec<u32> = (0..tasks).map(|_| rng.random_range(2..=78)).collect();
    let mut edges = Vec::new();
    for from in 0..tasks {
        for to in successors(&mut rng, tasks, (from + 1..tasks).collect()) {
            edges.push((from, to, communication(&mut rng, 40.0 * ccr)));
        }
    }
    TaskGraph { seconds, edges }
}

/// A task graph with an optimal schedule: it keeps all processors busy from beginning to end.
#[derive(Debug, Clone)]
pub struct KnownOptimum {
    /// The task graph, tasks in the order in which they start in the optimal schedule.
    pub graph: TaskGraph,
    /// Number of processors.
    pub processors: u32,
    /// Seconds of the optimal schedule.
    pub length: u32,
    /// The processor of every task in the optimal schedule.
    pub processor_of: Vec<u32>,
}

impl KnownOptimum {
    /// The problem of scheduling the graph without contention, as published.
    pub fn problem(&self) -> Problem {
        self.graph.problem(self.processors, Execution::ContentionFree)
    }

    /// Drops the edges that would delay the schedule if transfers went through ports, and returns the problem with
    /// ports, which then has the same optimum. Simulates the schedule once for every edge.
    #[must_use]
    pub fn for_ports(mut self) -> (KnownOptimum, Problem) {
        for edge in std::mem::take(&mut self.graph.edges) {
            self.graph.edges.push(edge);
            let problem = self.graph.problem(self.processors, Execution::Ports);
            if evaluate(&problem, &self.placement()).value > f64::from(self.length) {
                self.graph.edges.pop();
            }
        }
        let problem = self.graph.problem(self.processors, Execution::Ports);
        (self, problem)
    }

    /// The optimal schedule, as a plan for the problem of the graph.
    pub fn placement(&self) -> Placement {
        let device_of = self.processor_of.iter().copied().map(DeviceId).collect();
        Placement::with_priority(device_of, (0..self.processor_of.len() as u32).map(OpId).collect())
    }
}

/// RGPOS, random graphs with a predetermined optimal schedule. The time of every processor is cut at random into tasks,
/// v/p on average, without idle time. Edges join a task to tasks that start after its end, v/10 on average as in
/// [`rgbos`], since the paper does not give the number. Between two processors, the communication of an edge takes less
/// time than passes between its two tasks; within a processor, it may take any time. The paper has 50, 100, … 500 tasks
/// and a CCR of 0.1, 1 and 10; the length is [`known_length`] of v.
///
/// Communication takes strictly less, so that no tensor arrives at the instant at which its device becomes free.
pub fn rgpos(number: u64, tasks: usize, processors: u32, ccr: f64) -> KnownOptimum {
    let mut rng = seed::stream(0x4B61, number);
    let length = known_length(tasks);
    let each = tasks / processors as usize;
    // Start, processor and end of every task.
    let mut spans: Vec<(u32, u32, u32)> = Vec::new();
    for processor in 0..processors {
        let mut instants: Vec<u32> = (1..length).collect();
        let cuts = rng.random_range(1..2 * each) - 1;
        let (chosen, _) = instants.partial_shuffle(&mut rng, cuts);
        chosen.sort_unstable();
        let starts = std::iter::once(0).chain(chosen.iter().copied());
        let ends = chosen.iter().copied().chain([length]);
        spans.extend(starts.zip(ends).map(|(start, end)| (start, processor, end)));
    }
    spans.sort_unstable();
    let mean = f64::from(processors * length) / spans.len() as f64;
    let mut edges = Vec::new();
    for (from, &(_, home, end)) in spans.iter().enumerate() {
        let slack = |to: usize| spans[to].0.checked_sub(end + 1);
        let later = (from + 1..spans.len())
            .filter(|&to| slack(to).is_some_and(|seconds| seconds > 0 || spans[to].1 == home))
            .collect();
        for to in successors(&mut rng, spans.len(), later) {
            let drawn = communication(&mut rng, mean * ccr);
            let limit = if spans[to].1 == home { u32::MAX } else { slack(to).unwrap_or(0) };
            edges.push((from, to, drawn.min(limit)));
        }
    }
    let seconds = spans.iter().map(|(start, _, end)| end - start).collect();
    let processor_of = spans.iter().map(|&(_, processor, _)| processor).collect();
    KnownOptimum { graph: TaskGraph { seconds, edges }, processors, length, processor_of }
}

/// Draws the successors of a task from `later`: on average a tenth of the number of all tasks, or all of `later` if it
/// has fewer.
fn successors(rng: &mut ChaCha8Rng, tasks: usize, mut later: Vec<usize>) -> Vec<usize> {
    let count = rng.random_range(0..=tasks / 5).min(later.len());
    let (chosen, _) = later.partial_shuffle(rng, count);
    chosen.sort_unstable();
    chosen.to_vec()
}

/// Draws the seconds of communication of an edge, with the given mean; at least one.
fn communication(rng: &mut ChaCha8Rng, mean: f64) -> u32 {
    rng.random_range(1..=((2.0 * mean).round() as u32).max(2) - 1)
}
