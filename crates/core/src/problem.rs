//! A problem: graph, cluster, objective and pins, checked once and immutable from then on.
//!
//! Devices of one kind are interchangeable unless a pin names one of them. A problem therefore groups devices into
//! *pools*: the devices of one kind that no pin distinguishes. Every solver works on pools, so solvers need no code
//! for pins to a device.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::cluster::{Cluster, DeviceId};
use crate::code::Code;
use crate::code::P::*;
use crate::cost::{Cost, CostError, CostTable};
use crate::document::{Pass, PinsDocument};
use crate::graph::{Graph, OpId, weight_gradients};
use crate::ids::Keyed;
use crate::memo::Memo;
use crate::memory::{self, Memory};
use crate::objective::{Objective, ObjectiveError, synchronisation};
use crate::overflow;
use crate::overhead::{Overhead, Step};
use crate::stop::Stop;

/// Invalid graph, cluster, objective or pins, or an invalid combination of them.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// Costs that cannot be derived.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// Invalid objective.
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    /// A pin of an operator that is not in the graph.
    #[error("a pin names the operator `{name}`, which is not in the graph")]
    UnknownPinnedOperator {
        /// The name.
        name: String,
    },
    /// A pin to a name that the cluster does not have.
    #[error("the pin of `{operator}` names `{target}`, which is not a device, kind or class of the cluster")]
    UnknownPinTarget {
        /// The pinned operator.
        operator: String,
        /// The unknown name.
        target: String,
    },
    /// A pin without targets.
    #[error("the pin of `{operator}` lists no device")]
    EmptyPin {
        /// The pinned operator.
        operator: String,
    },
    /// Replication on a kind without a link.
    #[error("kind `{kind}` has no link, so the synchronisation of a replicated stage cannot be timed")]
    NoLinkForReplicas {
        /// The kind.
        kind: String,
    },
    /// A schedule that splits the backward pass, for a graph in which the backward pass is not split.
    #[error(
        "no backward operator computes only weight gradients, so there is nothing to run apart from the backward pass"
    )]
    WholeBackward,
}

impl ProblemError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            ProblemError::Cost(CostError::NoLink { .. } | CostError::NoLinkForGradient { .. }) => P001,
            ProblemError::Cost(CostError::Overflow { .. }) => P002,
            ProblemError::Objective(_) => P003,
            ProblemError::UnknownPinnedOperator { .. } => P004,
            ProblemError::UnknownPinTarget { .. } => P005,
            ProblemError::EmptyPin { .. } => P006,
            ProblemError::NoLinkForReplicas { .. } => P007,
            ProblemError::WholeBackward => P008,
            ProblemError::Cost(CostError::Underflow { .. }) => P009,
        }
        .into()
    }

    /// Suggested fix.
    pub fn help(&self) -> &'static str {
        match self {
            ProblemError::Cost(CostError::NoLink { .. }) => {
                "give the kind a link in the cluster file, or the tensor measured seconds for the class"
            }
            ProblemError::Cost(CostError::NoLinkForGradient { .. }) => {
                "give the kind a link in the cluster file, or keep the readers of the parameter together"
            }
            ProblemError::Cost(CostError::Overflow { .. }) => {
                "correct the figures: times are in seconds, sizes in bytes"
            }
            ProblemError::Cost(CostError::Underflow { .. }) => {
                "correct the figure, or give 0 for what takes no time: times are in seconds"
            }
            ProblemError::Objective(_) => "correct the options",
            ProblemError::UnknownPinnedOperator { .. } => "correct the name or drop the pin",
            ProblemError::UnknownPinTarget { .. } => "name a device such as `acc0`, a kind or a class",
            ProblemError::EmptyPin { .. } => "name a device, a kind or a class, or drop the pin",
            ProblemError::NoLinkForReplicas { .. } => "give the kind a link, or do not allow replicas",
            ProblemError::WholeBackward => {
                "use 1f1b, or compute weight gradients and input gradients in separate operators"
            }
        }
    }
}

/// Devices of one kind that no pin distinguishes. The replicas of a stage are in one pool, since an operator that is
/// pinned to one device runs on that device.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Kind of the devices.
    pub kind: usize,
    /// The devices, by index; at least one.
    pub devices: Vec<DeviceId>,
    /// Whether the devices are hosts, which pay nothing for communication.
    pub host: bool,
    /// Bytes of one device that a plan may use, infinite if unlimited; see [`memory::usable`].
    pub memory: f64,
    /// Bytes per second of a device's link; infinite for hosts and for kinds without a link.
    pub bandwidth: f64,
    /// Synchronisations of replicas per microbatch: one in version 1 and without a schedule; otherwise one per
    /// iteration, divided among its microbatches.
    pub synchronisations: f64,
    /// Group of the devices, if they are in one.
    pub group: Option<usize>,
}

impl Pool {
    /// Number of devices.
    pub fn count(&self) -> u32 {
        self.devices.len() as u32
    }

    /// Seconds per microbatch in which replicas synchronise parameters of `parameter_bytes` bytes.
    #[inline]
    pub fn synchronisation(&self, parameter_bytes: f64, replicas: u32) -> f64 {
        self.synchronisations * synchronisation(parameter_bytes, replicas, self.bandwidth)
    }
}

/// A validated problem.
#[derive(Debug, Clone)]
pub struct Problem {
    graph: Arc<Graph>,
    cluster: Arc<Cluster>,
    /// The costs before they are divided among microbatches, as in the documents.
    documented: Arc<CostTable>,
    costs: Arc<CostTable>,
    memory: Arc<Memory>,
    objective: Objective,
    pins: PinsDocument,
    pools: Vec<Pool>,
    pool_of: Keyed<DeviceId, usize>,
    /// Pools that each operator may use; `None` for an operator without a pin.
    allowed: Vec<Option<Box<[bool]>>>,
    /// Whether the schedule defers each operator; empty if it defers none.
    weight_gradients: Vec<bool>,
    /// Factors of the costs, in the order in which `scaled` asks for them; `None` for costs as in the documents.
    scaling: Option<Arc<[f64]>>,
    memo: Memo,
    overhead: Arc<Overhead>,
}

impl Problem {
    /// Checks the inputs and derives all tables, in time O(kinds · (operators + tensors)).
    ///
    /// # Errors
    /// If the inputs are invalid or do not fit together. A problem without a solution is not an error.
    pub fn new(
        graph: impl Into<Arc<Graph>>,
        cluster: impl Into<Arc<Cluster>>,
        objective: impl Into<Objective>,
    ) -> Result<Problem, ProblemError> {
        Problem::pinned(graph, cluster, objective, PinsDocument::default())
    }

    /// Checks the inputs and derives all tables as [`Problem::new`] does, for operators that are pinned to devices.
    ///
    /// # Errors
    /// If the inputs are invalid or do not fit together. A problem without a solution is not an error.
    pub fn pinned(
        graph: impl Into<Arc<Graph>>,
        cluster: impl Into<Arc<Cluster>>,
        objective: impl Into<Objective>,
        pins: PinsDocument,
    ) -> Result<Problem, ProblemError> {
        let (graph, cluster) = (graph.into(), cluster.into());
        let objective = objective.into();
        objective.validate()?;
        let documented = Arc::new(CostTable::new(&graph, &cluster)?);
        let costs = per_microbatch(&documented, &graph, &objective);
        let memory = Arc::new(Memory::new(graph.clone()));
        Problem::with_tables(graph, cluster, objective, pins, [documented, costs], memory)
    }

    /// The problem, given tables that depend on its graph and its cluster alone.
    fn with_tables(
        graph: Arc<Graph>,
        cluster: Arc<Cluster>,
        objective: Objective,
        pins: PinsDocument,
        [documented, costs]: [Arc<CostTable>; 2],
        memory: Arc<Memory>,
    ) -> Result<Problem, ProblemError> {
        overflow::check(&graph, &cluster, &documented, &objective)?;
        let microbatches = microbatches(&graph, &objective);
        let weight_gradients = weight_gradients_of(&graph, &objective)?;
        let targets = resolve_pins(&graph, &cluster, &pins)?;
        let (pools, pool_of) = pools(&graph, &cluster, &targets, microbatches);
        if objective.rules().max_replicas > 1 {
            let linkless = pools
                .iter()
                .find(|pool| !pool.host && pool.count() > 1 && cluster.kind(pool.kind).link.is_none());
            if let Some(pool) = linkless {
                let kind = cluster.kind(pool.kind).name.clone();
                return Err(ProblemError::NoLinkForReplicas { kind });
            }
        }
        let mut allowed = vec![None; graph.operator_count()];
        for (op, devices) in targets {
            let mut mask = vec![false; pools.len()].into_boxed_slice();
            for device in devices {
                mask[pool_of[device]] = true;
            }
            allowed[op.index()] = Some(mask);
        }
        Ok(Problem {
            graph,
            cluster,
            documented,
            costs,
            memory,
            objective,
            pins,
            pools,
            pool_of,
            allowed,
            weight_gradients,
            scaling: None,
            memo: Memo::default(),
            overhead: Arc::default(),
        })
    }

    /// The problem under another objective. It is made at the first call; later calls share the results that have since
    /// been derived from it. Costs stay [scaled](Problem::scaled).
    ///
    /// # Errors
    /// If the objective is invalid or does not fit the other inputs. A problem without a solution is not an error.
    pub fn with_objective(&self, objective: impl Into<Objective>) -> Result<Problem, ProblemError> {
        let objective = objective.into();
        if objective == self.objective {
            return Ok(self.clone());
        }
        let siblings = self.memo(Siblings::default);
        if let Some(problem) = siblings.get(&objective) {
            return Ok(problem);
        }
        let problem = self.under(objective)?;
        Ok(siblings.add(problem))
    }

    fn under(&self, objective: Objective) -> Result<Problem, ProblemError> {
        objective.validate()?;
        let (graph, cluster, pins) = (self.graph.clone(), self.cluster.clone(), self.pins.clone());
        let (documented, memory) = (self.documented.clone(), self.memory.clone());
        let has_these_costs = self.scaling.is_none()
            && microbatches(&graph, &objective) == microbatches(&graph, &self.objective);
        let costs = match has_these_costs {
            true => self.costs.clone(),
            false => per_microbatch(&documented, &graph, &objective),
        };
        let mut problem = Problem::with_tables(graph, cluster, objective, pins, [documented, costs], memory)?;
        problem.overhead = self.overhead.clone();
        Ok(match &self.scaling {
            Some(scaling) => {
                let mut factors = scaling.iter();
                problem.scaled(|_| factors.next().copied().unwrap_or(1.0))
            }
            None => problem,
        })
    }

    /// The problem with other pins. Costs are those of the documents.
    ///
    /// # Errors
    /// Pins that name what the graph or the cluster does not have, or a pool that cannot be replicated on.
    pub fn with_pins(&self, pins: PinsDocument) -> Result<Problem, ProblemError> {
        let (graph, cluster) = (self.graph.clone(), self.cluster.clone());
        let costs = per_microbatch(&self.documented, &graph, &self.objective);
        let tables = [self.documented.clone(), costs];
        Problem::with_tables(graph, cluster, self.objective, pins, tables, self.memory.clone())
    }

    /// The problem of another graph and the pins of that graph, on the same cluster and under the same objective.
    ///
    /// # Errors
    /// If the inputs are invalid or do not fit together. A problem without a solution is not an error.
    pub(crate) fn with_graph(&self, graph: Graph, pins: PinsDocument) -> Result<Problem, ProblemError> {
        Problem::pinned(graph, self.cluster.clone(), self.objective, pins)
    }

    /// The problem with the colocation classes of the given pairs of operators merged. The costs stay as they are, even
    /// those of gradients that no longer have to be synchronised: the result is for bounds, which do not count these.
    pub(crate) fn colocated(&self, pairs: impl IntoIterator<Item = [OpId; 2]>) -> Problem {
        let graph = Arc::new(self.graph.colocated(pairs));
        Problem { memory: Arc::new(Memory::new(graph.clone())), graph, memo: Memo::default(), ..self.clone() }
    }

    /// The problem with every cost multiplied by its factor, which must be positive and finite. Memory stays the same.
    /// `factor` is called in a fixed order. O((kinds + groups) · (operators + tensors)).
    #[must_use]
    pub fn scaled(&self, mut factor: impl FnMut(Cost) -> f64) -> Problem {
        let before = self.scaling.as_deref().unwrap_or_default();
        let mut scaling = Vec::new();
        let mut factor = |cost| {
            let factor = factor(cost);
            scaling.push(factor * before.get(scaling.len()).copied().unwrap_or(1.0));
            factor
        };
        let costs = Arc::new((*self.costs).clone().scaled(&mut factor));
        let by_kind: Vec<f64> =
            (0..self.cluster.kind_count()).map(|kind| factor(Cost::Replicas(kind))).collect();
        let mut pools = self.pools.clone();
        for pool in &mut pools {
            pool.synchronisations *= by_kind[pool.kind];
        }
        Problem { costs, pools, scaling: Some(scaling.into()), memo: Memo::default(), ..self.clone() }
    }

    /// Whether the costs of the problem differ from those of its documents.
    pub(crate) fn is_scaled(&self) -> bool {
        self.scaling.is_some()
    }

    /// A result that is derived from this problem, computed once.
    pub(crate) fn memo<T: Any + Send + Sync>(&self, compute: impl FnOnce() -> T) -> Arc<T> {
        self.memo.get(compute)
    }

    /// A result that is derived from this problem, computed once, but not kept if `stop` may have cut it short;
    /// otherwise like [`Problem::memo`].
    pub(crate) fn memo_before<T: Any + Send + Sync>(
        &self,
        compute: impl FnOnce() -> T,
        stop: &Stop,
    ) -> Arc<T> {
        self.memo.get_before(compute, stop)
    }

    /// Time that the last contraction and the last evaluation took together, under any objective; zero before the first
    /// of them. A solver needs about that long in addition to its search, whatever the limit.
    pub fn overhead(&self) -> Duration {
        self.overhead.total()
    }

    /// Runs a step that counts as overhead.
    pub(crate) fn timed<T>(&self, step: Step, work: impl FnOnce() -> T) -> T {
        self.overhead.time(step, work)
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The cost tables.
    pub fn costs(&self) -> &CostTable {
        &self.costs
    }

    /// The memory rules.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The objective.
    pub fn objective(&self) -> &Objective {
        &self.objective
    }

    /// The pins as given.
    pub fn pins(&self) -> &PinsDocument {
        &self.pins
    }

    /// The pools.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// The pool of a device.
    pub fn pool_of(&self, device: DeviceId) -> usize {
        self.pool_of[device]
    }

    /// Whether the pins allow an operator on a pool.
    pub fn pinned_to(&self, op: OpId, pool: usize) -> bool {
        self.allowed[op.index()].as_ref().is_none_or(|mask| mask[pool])
    }

    /// Whether an operator is a weight gradient that the schedule runs separately from the backward pass; see
    /// [`weight_gradients`].
    pub fn is_deferred(&self, op: OpId) -> bool {
        self.weight_gradients.get(op.index()).copied().unwrap_or(false)
    }

    /// Seconds of an operator on a pool; `None` if it cannot or must not run there.
    pub fn seconds(&self, op: OpId, pool: usize) -> Option<f64> {
        if self.pinned_to(op, pool) { self.costs.seconds(op, self.pools[pool].kind) } else { None }
    }
}

/// The problem under other objectives.
#[derive(Default)]
struct Siblings(Mutex<Vec<Problem>>);

impl Siblings {
    fn get(&self, objective: &Objective) -> Option<Problem> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|problem| problem.objective == *objective).cloned()
    }

    /// Stores a problem, unless one under the same objective is already stored. Returns the stored problem.
    fn add(&self, problem: Problem) -> Problem {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = known.iter().find(|first| first.objective == problem.objective) {
            return first.clone();
        }
        known.push(problem.clone());
        problem
    }
}

/// Number of microbatches among which an iteration divides its costs. An iteration updates the parameters once, whereas
/// version 1 counts an update for each microbatch.
fn microbatches(graph: &Graph, objective: &Objective) -> u32 {
    if graph.is_version_2() { objective.rules().microbatches } else { 1 }
}

fn per_microbatch(documented: &Arc<CostTable>, graph: &Graph, objective: &Objective) -> Arc<CostTable> {
    match microbatches(graph, objective) {
        1 => documented.clone(),
        several => Arc::new((**documented).clone().per_microbatch(graph, several)),
    }
}

/// The weight gradients, if the schedule runs them separately.
fn weight_gradients_of(graph: &Graph, objective: &Objective) -> Result<Vec<bool>, ProblemError> {
    if !objective.rules().schedule.is_split() {
        return Ok(Vec::new());
    }
    let found = weight_gradients(graph);
    let has_backward = graph.operators().any(|op| graph.operator(op).pass == Pass::Backward);
    match has_backward && !found.contains(&true) {
        true => Err(ProblemError::WholeBackward),
        false => Ok(found),
    }
}

/// The operators with a pin, by index, and the devices that each may use.
fn resolve_pins(
    graph: &Graph,
    cluster: &Cluster,
    pins: &PinsDocument,
) -> Result<Vec<(OpId, Vec<DeviceId>)>, ProblemError> {
    if pins.0.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for op in graph.operators() {
        let name = &graph.operator(op).name;
        let Some(targets) = pins.0.get(name) else { continue };
        let mut devices = Vec::new();
        for target in targets.names() {
            let named = cluster.named(target);
            if named.is_empty() {
                let (operator, target) = (name.clone(), target.clone());
                return Err(ProblemError::UnknownPinTarget { operator, target });
            }
            devices.extend(named);
        }
        if devices.is_empty() {
            return Err(ProblemError::EmptyPin { operator: name.clone() });
        }
        devices.sort_unstable();
        devices.dedup();
        found.push((op, devices));
    }
    if found.len() < pins.0.len() {
        let known: rustc_hash::FxHashSet<&str> =
            graph.operators().map(|op| graph.operator(op).name.as_str()).collect();
        let name = pins.0.keys().find(|name| !known.contains(name.as_str())).cloned().unwrap_or_default();
        return Err(ProblemError::UnknownPinnedOperator { name });
    }
    Ok(found)
}

/// Splits every kind into pools: devices that appear in the same pins share a pool.
fn pools(
    graph: &Graph,
    cluster: &Cluster,
    targets: &[(OpId, Vec<DeviceId>)],
    microbatches: u32,
) -> (Vec<Pool>, Keyed<DeviceId, usize>) {
    // Refines one partition by every distinct set of targets: devices stay together unless a set separates them.
    let mut part: Keyed<DeviceId, usize> = cluster.devices().map(|device| cluster.kind_of(device)).collect();
    let mut sets: Vec<&Vec<DeviceId>> = targets.iter().map(|(_, devices)| devices).collect();
    sets.sort_unstable();
    sets.dedup();
    for set in sets {
        let mut keys: Keyed<DeviceId, (usize, bool)> = part.iter().map(|&part| (part, false)).collect();
        for &device in set {
            keys[device].1 = true;
        }
        let mut distinct = keys.clone();
        distinct.sort_unstable();
        distinct.dedup();
        for (part, key) in part.iter_mut().zip(&keys) {
            *part = distinct.binary_search(key).expect("every key is listed");
        }
    }
    let mut pools: Vec<Pool> = Vec::new();
    let mut pool_of_part: std::collections::BTreeMap<usize, usize> = Default::default();
    let mut pool_of = Keyed::from(Vec::with_capacity(part.len()));
    for device in cluster.devices() {
        let pool = *pool_of_part.entry(part[device]).or_insert_with(|| {
            let kind = cluster.kind_of(device);
            let spec = cluster.kind(kind);
            let bandwidth = match (&spec.link, spec.host) {
                (Some(link), false) => link.bandwidth,
                _ => f64::INFINITY,
            };
            pools.push(Pool {
                kind,
                devices: Vec::new(),
                host: spec.host,
                memory: memory::usable(graph, cluster, kind),
                bandwidth,
                synchronisations: 1.0 / f64::from(microbatches),
                group: cluster.group_of_kind(kind),
            });
            pools.len() - 1
        });
        pools[pool].devices.push(device);
        pool_of.push(pool);
    }
    (pools, pool_of)
}
