//! The solve: the combinations of degrees, and the answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use stagewright_core::document::{
    CONFIGURATIONS, ClusterDocument, GraphDocument, JointExecutionDocument, JointLayerDocument,
    JointStageDocument, Parallelism, RuntimeDocument, Schedule,
};
use stagewright_core::solver::{Context, Event, SolveError, Status, StopReason};
use stagewright_core::tolerance::{OPTIMAL_RELATIVE, round_down};

use super::cut;
use super::error::ModelError;
use super::model::Model;
use super::pool::{Pool, pools};
use super::program::{Pipeline, Placed};
use super::runtime::Runtime;
use super::search::search;
use super::space::{Combination, Space};
use super::table::{Degrees, ON_HOST};

/// Name of the solver.
pub const NAME: &str = "joint";

/// Maximum number of combinations of degrees.
const MAX_COMBINATIONS: usize = 1 << 18;
/// Largest batch.
const MAX_BATCH: u64 = 1 << 17;

/// Features that a plan may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Kinds of parallelism, each with its required degree, if given: for ZeRO the stage, for recomputation the index of
    /// the configuration of all numbered layers (none, selective, full, offload), for what is on the host nothing (0) or the
    /// states of the optimizer (1). Without degrees for either, layers may keep activations on the host as well. Stages
    /// with devices of two kinds have no degree.
    pub parallel: BTreeMap<Parallelism, Option<u32>>,
    /// Samples of a batch, over all copies.
    pub global_batch: u64,
    /// Samples of a microbatch, if they are given.
    pub microbatch: Option<u32>,
    /// Schedules of the microbatches: 1F1B, interleaved 1F1B, zero-bubble, zero-bubble-2p and DualPipeV.
    pub schedules: Vec<Schedule>,
    /// Stages per device under schedules with several, if the number is given.
    pub chunks: Option<u32>,
    /// Numbers of numbered layers of the stages, in their order, if they are given.
    pub cut: Option<Vec<u32>>,
    /// Constants of the runtime; without them, of one that loses nothing and overlaps nothing.
    pub runtime: Option<RuntimeDocument>,
}

/// A model, devices, and the features that a plan may use.
#[derive(Debug, Clone)]
pub struct Problem {
    pub(super) model: Arc<Model>,
    /// Kinds of devices, and the pool of stages with devices of two kinds after them if a plan may have these.
    pub(super) pools: Vec<Pool>,
    pub(super) request: Request,
    /// The layer after the last of each stage, if given.
    pub(super) cut: Option<Vec<usize>>,
    pub(super) runtime: Runtime,
}

impl Problem {
    /// Reads a training graph and a cluster; `layers` has the layer of every operator, if it has one, and whether the
    /// layer is numbered.
    ///
    /// # Errors
    /// If no plan can be made for the graph and the cluster.
    pub fn new(
        graph: &GraphDocument,
        layers: &[Option<(String, bool)>],
        cluster: &ClusterDocument,
        request: Request,
    ) -> Result<Problem, ModelError> {
        let range = |what, found: u64, range| Err(ModelError::Range { what, found, range });
        if !(1..=MAX_BATCH).contains(&request.global_batch) {
            return range("the global batch", request.global_batch, "1 to 131072");
        }
        if let Some(microbatch) = request.microbatch
            && (microbatch == 0 || !request.global_batch.is_multiple_of(microbatch.into()))
        {
            return range("the microbatch", microbatch.into(), "a divisor of the global batch");
        }
        let is_known = |schedule: &Schedule| {
            matches!(
                schedule,
                Schedule::OneFOneB
                    | Schedule::Interleaved
                    | Schedule::ZeroBubble
                    | Schedule::ZeroBubbleTwice
                    | Schedule::DualPipeV
            )
        };
        if request.schedules.is_empty() || !request.schedules.iter().all(is_known) {
            return Err(ModelError::Schedules);
        }
        for (&parallelism, &degree) in &request.parallel {
            match (parallelism, degree) {
                (Parallelism::Mixed, Some(found)) => {
                    return range("the degree of mixed", found.into(), "absent");
                }
                (_, None)
                | (Parallelism::Zero, Some(0..=3))
                | (Parallelism::Recompute, Some(0..=3))
                | (Parallelism::Offload, Some(0..=1)) => {}
                (Parallelism::Offload, Some(found)) => {
                    return range("what offload keeps on the host", found.into(), "0 or 1");
                }
                (Parallelism::Recompute, Some(index)) => {
                    return range("the configuration of recompute", index.into(), "0 to 3");
                }
                (Parallelism::Zero, Some(stage)) => {
                    return range("the stage of ZeRO", stage.into(), "0 to 3");
                }
                (_, Some(0)) => return range("a degree", 0, "1 or more"),
                (Parallelism::Shard, Some(1)) => {
                    return range("the number of copies of shard", 1, "2 or more");
                }
                (Parallelism::Dp, Some(data)) if !request.global_batch.is_multiple_of(data.into()) => {
                    return range("the degree of dp", data.into(), "a divisor of the global batch");
                }
                _ => {}
            }
        }
        if let Some((name, value, range)) = request.runtime.as_ref().and_then(RuntimeDocument::fault) {
            return Err(ModelError::Runtime { name, value, range });
        }
        let runtime = Runtime::new(request.runtime.as_ref());
        let (mut pools, classes) = pools(graph, cluster, &runtime)?;
        if request.parallel.contains_key(&Parallelism::Mixed) {
            let [first, second] = &pools[..] else { return Err(ModelError::Mixed { found: pools.len() }) };
            pools.push(Pool::mixed(first, second));
        }
        let model = Model::new(graph, layers, &classes, runtime.fused_attention)?;
        let devices = request.parallel.get(&Parallelism::Pp).copied().unwrap_or(Some(1));
        cut::check(&request.schedules, devices, request.chunks, request.cut.as_deref())?;
        let cut = request.cut.as_deref().map(|cut| cut::ends(&model.layers, cut)).transpose()?;
        let problem = Problem { model: Arc::new(model), pools, request, cut, runtime };
        let found = problem.tensors_of_all() * problem.shared_up_to(MAX_COMBINATIONS).len();
        match found <= MAX_COMBINATIONS {
            true => Ok(problem),
            false => Err(ModelError::Combinations { found, most: MAX_COMBINATIONS }),
        }
    }

    /// The operators of every layer, by their index in the graph, with the name of the layer, in the order of the forward
    /// pass. O(layers + operators).
    pub fn layers(&self) -> Vec<(&str, Vec<usize>)> {
        let mut layers: Vec<_> =
            self.model.layers.iter().map(|layer| (layer.name.as_str(), Vec::new())).collect();
        for (operator, &layer) in self.model.layer_of.iter().enumerate() {
            layers[layer].1.push(operator);
        }
        layers
    }
}

/// The outcome of a solve.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Proof status.
    pub status: Status,
    /// Seconds of an iteration.
    pub value: Option<f64>,
    /// The lower bound on the value of every plan; `None` if the problem is infeasible.
    pub bound: Option<f64>,
    /// Settings common to all stages.
    pub execution: Option<JointExecutionDocument>,
    /// The stages in the order of the forward pass; empty without a plan.
    pub stages: Vec<JointStageDocument>,
    /// Reason why the solve ended before a proof.
    pub stop: Option<StopReason>,
    /// Reason why there is no plan.
    pub reason: Option<String>,
}

/// Finds a plan with the minimum time of an iteration, and a lower bound on all plans.
///
/// Every combination of microbatch, degrees, stage of ZeRO and schedule has a bound from the work of the layers; those with the
/// lowest bound are solved first, by dynamic programming over the stages or, for interleaved stages, by local search. The
/// result does not depend on the number of threads.
///
/// # Errors
/// If threads cannot be started.
pub fn solve(problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
    let stop = context.stop().clone();
    let allowed = match problem.request.parallel.get(&Parallelism::Recompute) {
        None => vec![0],
        Some(None) => {
            let may_offload = problem.request.parallel.get(&Parallelism::Offload) == Some(&None);
            (0..CONFIGURATIONS.len()).filter(|&index| may_offload || index != ON_HOST).collect()
        }
        Some(Some(given)) => vec![*given as usize],
    };
    let space = Space {
        chunks: problem.request.chunks,
        cut: problem.cut.clone(),
        ..Space::new(&problem.model, &problem.pools, &problem.runtime, allowed)
    };
    let combinations = problem.combinations();
    let gap = context.limits.gap;
    let pool = context.pool()?;
    let (mut value, mut bound) = (f64::INFINITY, f64::NEG_INFINITY);
    // The same for all plans, and in no cost of the search.
    let always = problem.runtime.iteration_s;
    let found = search(&space, combinations, gap, &pool, &stop, |of_plan, of_bound| {
        let (of_plan, of_bound) = (of_plan + always, of_bound + always);
        if of_plan < value {
            value = of_plan;
            context.emit(Event::Incumbent { value });
        }
        if of_bound > bound && of_bound.is_finite() {
            bound = of_bound;
            context.emit(Event::Bound { value: round_down(bound), source: NAME });
        }
    });
    let stopped = found.is_stopped.then(|| stop.reason().unwrap_or(StopReason::Memory));
    Ok(match &found.best {
        Some((combination, pipeline)) => {
            let stopped = stopped.or((gap > 0.0).then_some(StopReason::Gap));
            problem.solution(combination, pipeline, found.bound, stopped)
        }
        None => problem.without_plan(&space, found.bound, stopped),
    })
}

impl Problem {
    /// A solution with a plan, and with the lower bound on the plans of all combinations that were searched. `stopped`
    /// is the reason if the search ended without a proof.
    fn solution(
        &self,
        combination: &Combination,
        pipeline: &Pipeline,
        bound: f64,
        stopped: Option<StopReason>,
    ) -> Solution {
        let value = pipeline.value + self.runtime.iteration_s;
        let bound = (bound + self.runtime.iteration_s).min(value);
        let is_optimal = bound >= value * (1.0 - OPTIMAL_RELATIVE);
        let Degrees { microbatch, data, context, exchange, expert, zero, shards, offload, .. } =
            combination.degrees;
        Solution {
            status: if is_optimal { Status::Optimal } else { Status::Feasible },
            value: Some(value),
            bound: Some(round_down(bound)),
            execution: Some(JointExecutionDocument {
                microbatch,
                microbatches: combination.microbatches,
                data,
                expert,
                zero,
                schedule: combination.schedule,
                chunks: pipeline.chunks,
                context,
                exchange,
                shards,
                offload,
            }),
            stages: self.stages(combination, pipeline),
            stop: stopped.filter(|_| !is_optimal),
            reason: None,
        }
    }

    /// The stages of a plan, each with its kind, or with the copies on two kinds.
    fn stages(&self, combination: &Combination, pipeline: &Pipeline) -> Vec<JointStageDocument> {
        let mut counts = vec![0; self.pools.len()];
        pipeline.stages.iter().for_each(|stage| counts[stage.pool] += 1);
        let mut on_first = combination.copies_on_first(&self.pools, &counts).into_iter();
        let stage = |stage: &Placed| {
            let (pool, document) = (&self.pools[stage.pool], self.stage(combination, stage));
            let Some(parts) = &pool.parts else {
                return JointStageDocument { kind: Some(pool.name.clone()), ..document };
            };
            let first = on_first.next().unwrap_or_default();
            let copies = [first, document.data - first];
            let mixed = parts.iter().map(|part| part.name.clone()).zip(copies).collect();
            JointStageDocument { mixed, ..document }
        };
        pipeline.stages.iter().map(stage).collect()
    }

    /// A stage of a plan, without its devices.
    fn stage(&self, combination: &Combination, stage: &Placed) -> JointStageDocument {
        let layers = &self.model.layers[stage.first..stage.end];
        let has_activations_on_host = stage.costs.configurations.contains(&(ON_HOST as u32));
        let layers =
            layers.iter().zip(&stage.costs.configurations).map(|(layer, &choice)| JointLayerDocument {
                layer: layer.name.clone(),
                configuration: CONFIGURATIONS[choice as usize].into(),
            });
        JointStageDocument {
            kind: None,
            mixed: BTreeMap::new(),
            data: combination.degrees.data,
            tensor: combination.tensor[stage.pool],
            in_flight: stage.in_flight,
            seconds: stage.forward + stage.backward + stage.weight,
            forward_s: Some(stage.forward),
            weight_s: combination.schedule.is_split().then_some(stage.weight),
            update_s: Some(stage.costs.update),
            memory_bytes: stage.costs.memory,
            state_bytes: Some(stage.costs.state),
            host_bytes: (combination.degrees.offload || has_activations_on_host).then_some(stage.costs.host),
            activation_bytes: Some(stage.costs.activations),
            layers: layers.collect(),
        }
    }

    /// The outcome of a search that found no plan: a proof that there is none, unless the search was stopped or left
    /// out plans.
    fn without_plan(&self, space: &Space<'_>, bound: f64, stopped: Option<StopReason>) -> Solution {
        let is_proved = stopped.is_none() && bound == f64::INFINITY;
        Solution {
            status: if is_proved { Status::Infeasible } else { Status::Unknown },
            value: None,
            bound: Some(round_down(bound + self.runtime.iteration_s)).filter(|bound| bound.is_finite()),
            execution: None,
            stages: Vec::new(),
            stop: stopped,
            reason: match (is_proved, stopped) {
                (true, _) => Some(self.cause(space)),
                (false, None) => {
                    Some("the search found no plan, but did not exclude all; more time does not help".into())
                }
                (false, Some(_)) => None,
            },
        }
    }

    /// Explains why there is no plan: a degree that does not divide what it must divide, or the missing memory of the
    /// combination that needs the least.
    fn cause(&self, space: &Space<'_>) -> String {
        self.undivided().unwrap_or_else(|| space.shortage(&self.combinations()))
    }
}
