//! The solve: thresholds between a lower bound and the best known plan.

use rayon::ThreadPool;
use stagewright_core::solver::{Context, Event, SolveError, Status, StopReason};
use stagewright_core::tolerance::{OPTIMAL_RELATIVE, round_down};

use crate::sample::lattice::Lattice;
use crate::sample::problem::{Layer, Problem};
use crate::sample::stage::Least;
use crate::sample::threshold::{Answer, Planned, within};

/// Name of the solver.
pub const NAME: &str = "threshold";

/// Largest gap at which a threshold just below the best plan is tried.
const NEAR: f64 = 0.02;

/// The outcome of a solve.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Proof status.
    pub status: Status,
    /// The stages in the order of the forward pass; empty without a plan.
    pub stages: Vec<PlannedStage>,
    /// Seconds per microbatch of the slowest stage.
    pub value: Option<f64>,
    /// The lower bound on the value of every plan; `None` if the problem is infeasible.
    pub bound: Option<f64>,
    /// Reason why the solve ended before a proof.
    pub stop: Option<StopReason>,
}

/// A stage of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStage {
    /// Indices of the layers of the stage, in topological order.
    pub layers: Vec<usize>,
    /// Degree of tensor parallelism.
    pub tensor: u32,
    /// Number of copies of the stage.
    pub data: u32,
    /// Maximum number of microbatches in flight in a copy.
    pub in_flight: u32,
    /// Seconds per microbatch.
    pub seconds: f64,
    /// Bytes of memory in use on a device.
    pub memory_bytes: f64,
    /// Index of the configuration of every layer among those of its degree in the file.
    pub configurations: Vec<u32>,
}

/// Finds a plan with the minimum time per microbatch of the slowest stage, and a lower bound.
///
/// Stages, their degrees and the configurations of their layers are those of Piper (Tarnawski et al. 2021), with its cost
/// model; the choice of configurations is exact where Piper's is greedy. A threshold on the time of a stage is moved
/// between the bound and the best plan until they meet. Plans of one linear order of the layers come first; then every
/// set of layers that is closed under successors may end a pipeline. The result does not depend on the number of threads.
///
/// # Errors
/// If threads cannot be started.
pub fn solve(problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
    let least = Least::new(problem);
    let mut search = Search { problem, least, bound: 0.0, best: None, is_infeasible: false };
    search.bound = search.first_bound();
    let pool = context.pool()?;
    if search.bound == f64::INFINITY {
        return Ok(search.solution(None));
    }
    let linear = Lattice::new(problem, true);
    let all = Lattice::new(problem, false);
    // The linear order gives plans, but no bounds.
    let ended = search.close(&linear, false, &pool, context);
    let ended = ended.or_else(|| search.close(&all, true, &pool, context));
    Ok(search.solution(ended))
}

/// Thresholds that are neither excluded nor known to be feasible.
struct Thresholds {
    /// Lower bound: every plan has a stage that takes at least this time.
    bound: f64,
    /// Lowest threshold that the search left undecided.
    unknown: f64,
    /// A threshold that every stage meets.
    largest: f64,
    /// Difference between the bound and the next threshold while no plan is known.
    excess: f64,
}

impl Thresholds {
    fn new(bound: f64, largest: f64) -> Thresholds {
        Thresholds { bound, unknown: f64::INFINITY, largest, excess: 0.125 * bound.max(largest * 1e-6) }
    }

    /// The next two thresholds, given the value of the best plan.
    fn next(&mut self, value: f64) -> [f64; 2] {
        let Thresholds { bound, unknown, largest, .. } = *self;
        let known = value.min(unknown);
        if known - bound <= NEAR * known && unknown == f64::INFINITY {
            // A plan just below the best one, or the proof that there is none, ends the search.
            [bound + 0.4 * (value - bound), value * (1.0 - OPTIMAL_RELATIVE)]
        } else if known.is_finite() {
            [1.0, 2.0].map(|part| bound + part / 3.0 * (known - bound))
        } else {
            self.excess *= 4.0;
            [(bound + self.excess / 2.0).min(largest), (bound + self.excess).min(largest)]
        }
    }

    /// Raises the bound after a threshold was excluded; `next` is the next threshold that a plan may meet. Returns
    /// whether there is no plan at all.
    fn exclude(&mut self, threshold: f64, next: f64) -> bool {
        self.bound = self.bound.max(next);
        next == f64::INFINITY || threshold >= self.largest
    }

    /// Whether all thresholds that can be decided have been decided.
    fn is_exhausted(&self) -> bool {
        self.unknown - self.bound <= 1e-4 * self.bound || self.unknown == f64::INFINITY
    }
}

struct Search<'p> {
    problem: &'p Problem,
    least: Least,
    bound: f64,
    best: Option<(f64, Vec<Planned>)>,
    is_infeasible: bool,
}

impl Search<'_> {
    /// The larger of two bounds: the work of all layers divided among all devices, and the time of the slowest layer.
    fn first_bound(&self) -> f64 {
        let problem = self.problem;
        let work: f64 = self.least.device_seconds.iter().sum();
        let of_layer = |layer: &Layer| {
            let configurations = layer.configurations.iter().zip(&problem.degrees);
            let each = configurations.flat_map(|(configurations, &degree)| {
                let copies = problem.copies.iter().filter(move |&&copies| {
                    u64::from(copies) * u64::from(degree) <= u64::from(problem.devices)
                });
                copies.flat_map(move |&copies| {
                    configurations.iter().map(move |configuration| {
                        configuration.seconds / f64::from(copies)
                            + configuration.parameters * problem.synchronisation(copies)
                    })
                })
            });
            each.fold(f64::INFINITY, f64::min)
        };
        let slowest = problem.layers.iter().map(of_layer).fold(0.0, f64::max);
        (work / f64::from(problem.devices)).max(slowest)
    }

    /// A threshold that every stage meets.
    fn largest(&self) -> f64 {
        let of_layer = |layer: &Layer| {
            let each = layer.configurations.iter().flatten().map(|configuration| {
                let transfers: f64 =
                    configuration.input_seconds.iter().chain(&configuration.output_seconds).sum();
                configuration.seconds + transfers + configuration.parameters * 4.0 / self.problem.bandwidth
            });
            each.fold(0.0, f64::max)
        };
        2.0 * self.problem.layers.iter().map(of_layer).sum::<f64>()
    }

    fn value(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| best.0)
    }

    fn is_closed(&self, bound: f64) -> bool {
        self.is_infeasible || self.value() * (1.0 - OPTIMAL_RELATIVE) <= bound
    }

    /// Moves thresholds until the bound and the plan meet; `proves` states that the lattice has all sets.
    fn close(
        &mut self,
        lattice: &Lattice,
        proves: bool,
        pool: &ThreadPool,
        context: &mut Context<'_>,
    ) -> Option<StopReason> {
        let (stop, memory) = (context.stop().clone(), context.limits.memory);
        let mut open = Thresholds::new(self.bound, self.largest());
        loop {
            if self.is_closed(open.bound) {
                return None;
            }
            if let Some(reason) = stop.reason() {
                return Some(reason);
            }
            let value = self.value();
            if proves && value.is_finite() && context.gap_reached(value, open.bound) {
                return Some(StopReason::Gap);
            }
            let thresholds = open.next(value);
            // A threshold that takes too long is postponed in favour of lower ones.
            let slice = context.time_slice(0.3).stop().clone();
            let run = |threshold| within(self.problem, &self.least, lattice, threshold, memory, &slice);
            let both = || rayon::join(|| run(thresholds[0]), || run(thresholds[1]));
            let (low, high) = pool.install(both);
            let mut is_stuck = true;
            for (answer, threshold) in [low, high].into_iter().zip(thresholds) {
                match answer {
                    Answer::Plan(stages) => is_stuck &= !self.improve(stages, context),
                    Answer::Above(next) => {
                        is_stuck = false;
                        if open.exclude(threshold, next) {
                            if proves {
                                self.is_infeasible = self.best.is_none();
                                self.bound = self.value();
                            }
                            return None;
                        }
                    }
                    // Lower thresholds take less time and memory.
                    Answer::Unknown => open.unknown = open.unknown.min(threshold),
                }
            }
            if proves && open.bound > self.bound {
                self.bound = open.bound.min(self.value());
                context.emit(Event::Bound { value: round_down(self.bound), source: NAME });
            }
            if is_stuck && open.is_exhausted() {
                return Some(slice.reason().unwrap_or(StopReason::Memory));
            }
        }
    }

    /// Keeps a plan if it is better than the best one.
    fn improve(&mut self, stages: Vec<Planned>, context: &mut Context<'_>) -> bool {
        let seconds = stages.iter().map(|stage| stage.seconds).fold(0.0, f64::max);
        let is_better = seconds < self.value();
        if is_better {
            self.best = Some((seconds, stages));
            context.emit(Event::Incumbent { value: seconds });
        }
        is_better
    }

    fn solution(self, stop: Option<StopReason>) -> Solution {
        let (problem, bound) = (self.problem, self.bound);
        let is_optimal = self.best.is_some() && self.is_closed(bound);
        let status = match &self.best {
            Some(_) if is_optimal => Status::Optimal,
            Some(_) => Status::Feasible,
            None if self.is_infeasible || bound == f64::INFINITY => Status::Infeasible,
            None => Status::Unknown,
        };
        let mut place = vec![0; problem.layers.len()];
        for (position, layer) in problem.topological_order().into_iter().enumerate() {
            place[layer] = position;
        }
        let planned = |stage: &Planned| {
            let Planned { layers, degrees, in_flight, seconds, configurations } = stage;
            let index = |(&layer, &choice): (&usize, &u32)| {
                (layer, problem.layers[layer].configurations[degrees.tensor][choice as usize].index)
            };
            let mut chosen: Vec<(usize, u32)> = layers.iter().zip(configurations).map(index).collect();
            chosen.sort_by_key(|&(layer, _)| place[layer]);
            PlannedStage {
                tensor: problem.degrees[degrees.tensor],
                data: degrees.copies,
                in_flight: *in_flight,
                seconds: *seconds,
                memory_bytes: problem.bytes(layers, degrees.tensor, configurations, *in_flight),
                layers: chosen.iter().map(|&(layer, _)| layer).collect(),
                configurations: chosen.iter().map(|&(_, index)| index).collect(),
            }
        };
        // Stages were found from the last to the first.
        let stages = self.best.iter().flat_map(|best| best.1.iter().rev()).map(planned).collect();
        Solution {
            status,
            stages,
            value: self.best.as_ref().map(|best| best.0),
            bound: (status != Status::Infeasible).then(|| round_down(bound.min(self.value()))),
            stop: if matches!(status, Status::Optimal | Status::Infeasible) { None } else { stop },
        }
    }
}
