//! `stagewright.plan/1`: a placement, its value, and its possible distance from the optimum.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::is_zero;
use super::{
    ClusterDocument, OriginDocument, PinsDocument, Precision, RequirementsDocument, SecondGoalDocument,
};

/// The value of `schema` in a plan document.
pub const PLAN_SCHEMA: &str = "stagewright.plan/1";

/// A plan: also the output of `plan --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanDocument {
    /// Always `stagewright.plan/1`.
    pub schema: String,
    /// Proof status.
    pub status: PlanStatus,
    /// Name of the solver that found the plan.
    pub solver: String,
    /// The objective, its rules and the value reached.
    pub objective: ObjectiveDocument,
    /// The lower bound.
    pub bound: BoundDocument,
    /// (value − bound) / value; null without a plan or a bound.
    pub gap: Option<f64>,
    /// Solve time in seconds.
    pub seconds: f64,
    /// Seed of the solve.
    pub seed: u64,
    /// The program that wrote the plan; absent in plans of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginDocument>,
    /// Reason why the search stopped before a proof (`time`, `memory`, `gap`, `interrupted`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Reason why there is no plan, or what the search for it omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Model and memory options of the plan; only those that were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelOptionsDocument>,
    /// The rate of the plan, for throughput, if the unit that it counts is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputDocument>,
    /// Where the seconds of the plan's operators come from; absent without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourcesDocument>,
    /// The cluster that the plan is for, with its measured links and its memory reserves; absent in plans of earlier
    /// releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterDocument>,
    /// The pins of the plan.
    #[serde(default, skip_serializing_if = "no_pins")]
    pub pins: PinsDocument,
    /// The devices in use, in pipeline order if there is one.
    pub devices: Vec<DeviceDocument>,
    /// The loads of the group uplinks, if the cluster has groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<UplinkDocument>,
    /// Every operator once, by decreasing priority, for makespan. A device runs the ready operator that is first in
    /// this list; without a list, it runs the operator that became ready first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Vec<String>>,
    /// The worst case of a plan that is robust against costs that are off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robust: Option<RobustDocument>,
    /// Requirements that the plan meets. The bound holds for the plans that meet them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<RequirementsDocument>,
    /// The second goal, by which the plan was selected among those close to the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_goal: Option<SecondGoalDocument>,
}

/// The worst case of a plan when costs are off. Every kind of operator is a source of error, and all links together are
/// another. If a source is off, all its costs are (1 + deviation) times as high; at most `budget` sources are off at
/// once. The value of the plan, and its bound, are for the costs as predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RobustDocument {
    /// Relative deviation, from 0 to 1.
    pub deviation: f64,
    /// Maximum number of sources that are off at once, at least 1.
    pub budget: u32,
    /// Value in the worst case, in seconds.
    pub worst_s: f64,
    /// The sources that are off in the worst case.
    pub scenario: ScenarioDocument,
    /// Lower bound on the value of every plan in its worst case.
    pub bound_s: f64,
    /// Source of the bound.
    pub source: String,
    /// (worst_s − bound_s) / worst_s.
    pub gap: f64,
    /// Value of the best plan that was found for the costs as predicted.
    pub nominal_best_s: f64,
    /// Worst-case value of the best plan that was found for the costs as predicted.
    pub nominal_best_worst_s: f64,
}

/// Sources of error that are off.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioDocument {
    /// Kinds of operators; the empty name stands for operators without a kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Whether links are off: transfers, uplinks and the synchronisation of gradients and replicas.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub links: bool,
}

/// Shares of the compute time of a plan by the source of the seconds; they add up to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourcesDocument {
    /// Share of seconds that are measured, in the model or in measurements of exactly the same operator or kernel.
    pub measured: f64,
    /// Share of seconds that are interpolated between measurements of other sizes.
    pub interpolated: f64,
    /// Share of seconds that networks predict, which were trained on measurements of other kernels and devices.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub learned: f64,
    /// Relative spread of the networks, on average over the learned seconds; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned_spread: Option<f64>,
    /// Share of seconds from a closed form that was fitted to measurements.
    pub fitted: f64,
    /// Share of seconds from the roofline of the device class.
    pub guessed: f64,
}

fn no_pins(pins: &PinsDocument) -> bool {
    pins.0.is_empty()
}

/// Import options of a plan's model and its memory reserve: choices that the model and the cluster leave open and that
/// must be repeated when the plan is read again. The names are those of the command-line options.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOptionsDocument {
    /// Format of the model, if it was given rather than detected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Samples of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Whether the operators of every layer share a device.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole_layers: bool,
    /// Symbolic dimensions that were given a size.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dims: BTreeMap<String, u64>,
    /// Tokens already in the key-value cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Sequences in the key-value cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequences: Option<u64>,
    /// Precision that the model was cast to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Whether the readers of shared weights share a device.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tied_together: bool,
    /// Whether every operator launches a kernel of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_fusion: bool,
    /// Version of the cost rules, in plans of earlier releases. Only version 2 remains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_rules: Option<u8>,
    /// Unit of the model's times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<TimeUnitDocument>,
    /// Whether input nodes keep their profiled times.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_input_costs: bool,
    /// Device class of the profiled times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_class: Option<String>,
    /// Rule for gradient transfers, if a profile lists only forward edges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradients: Option<GradientsDocument>,
    /// Bytes reserved on every device that is not a host, instead of the cluster's reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reserve: Option<u64>,
    /// Files of measurements that price the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<String>,
    /// Kind of the step of a language model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseDocument>,
    /// New tokens of a sequence in prefill and training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Encoding of cached keys and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Whether an operator is a kernel or a layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granularity: Option<GranularityDocument>,
    /// Routed experts in an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expert_group: Option<u64>,
    /// Update rule of training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<OptimizerDocument>,
    /// Whether prefill computes the logits of every token.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_logits: bool,
    /// Whether layers of multi-token prediction run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prediction: bool,
    /// Tokens of a sequence that encoders of images, audio or text read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tower_tokens: Option<u64>,
    /// Architecture that a configuration is read as, instead of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Widths and counts that override those of a configuration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, u64>,
}

/// Kind of a step of a language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PhaseDocument {
    /// The prompts of new sequences.
    Prefill,
    /// One more token of every sequence.
    Decode,
    /// A training step.
    Training,
}

/// The unit that an operator of a generated graph represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GranularityDocument {
    /// A kernel.
    Operator,
    /// A layer.
    Layer,
}

/// Update rule of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerDocument {
    /// Stochastic gradient descent without state.
    Sgd,
    /// Stochastic gradient descent with momentum.
    Momentum,
    /// Adam (Kingma and Ba 2015).
    Adam,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnitDocument {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

/// Rule for gradient transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GradientsDocument {
    /// Gradients are transferred like the activations.
    Mirrored,
    /// Gradients go from each reader of an activation back to its producer.
    Reversed,
}

/// Rates of a plan per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThroughputDocument {
    /// Batches; under a schedule, microbatches.
    pub batches_per_s: f64,
    /// Samples, if the batch size is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// Tokens, if the number of tokens per sample is known as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
}

/// Proof status of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanStatus {
    /// Value and bound agree within the optimality tolerance.
    Optimal,
    /// A plan, with a gap.
    Feasible,
    /// Proved that no plan exists.
    Infeasible,
    /// No plan found, and infeasibility not proved.
    Unknown,
}

impl PlanStatus {
    /// Name of the status in documents.
    pub fn name(self) -> &'static str {
        match self {
            PlanStatus::Optimal => "optimal",
            PlanStatus::Feasible => "feasible",
            PlanStatus::Infeasible => "infeasible",
            PlanStatus::Unknown => "unknown",
        }
    }
}

/// The objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectiveKind {
    /// The bottleneck load: time per sample of a full pipeline.
    #[default]
    Throughput,
    /// Time of one sample through offloaded calls.
    Latency,
    /// Time of one step under dataflow execution.
    Makespan,
}

impl ObjectiveKind {
    /// Name of the objective in documents and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ObjectiveKind::Throughput => "throughput",
            ObjectiveKind::Latency => "latency",
            ObjectiveKind::Makespan => "makespan",
        }
    }
}

/// Rule for the sets of operators that may share a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// The devices can be ordered so that forward tensors only go forward.
    #[default]
    Contiguous,
    /// No forward path leaves a device and comes back.
    Convex,
    /// Any set of operators.
    Free,
}

impl Split {
    /// Name of the split rule in documents and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Split::Contiguous => "contiguous",
            Split::Convex => "convex",
            Split::Free => "free",
        }
    }
}

/// Rule that adds communication to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Communication {
    /// Compute plus everything sent and received.
    #[default]
    Serial,
    /// The larger of compute and everything sent and received.
    Overlap,
    /// The largest of compute, received and sent.
    Duplex,
}

/// Rule that combines the loads of the forward and the backward pass of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Training {
    /// The largest load.
    #[default]
    Combined,
    /// The largest forward load plus the largest backward load.
    Separate,
}

/// Execution model of a step, for the makespan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// Every device sends and receives one tensor at a time, and so does every uplink.
    #[default]
    Ports,
    /// Transfers take time but do not contend, and every reader is sent the tensor separately: the rules of GiPH's
    /// simulator.
    ContentionFree,
}

/// The pipeline schedule, which determines the activations that a stage keeps. The value of a plan is the time of an
/// iteration under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
pub enum Schedule {
    /// One microbatch at a time.
    #[default]
    #[serde(rename = "none")]
    None,
    /// All forward passes, then all backward passes: every stage keeps all microbatches.
    #[serde(rename = "gpipe")]
    GPipe,
    /// One forward, one backward: the j-th stage from the last keeps min(j, microbatches).
    #[serde(rename = "1f1b")]
    OneFOneB,
    /// 1F1B with several stages per device.
    #[serde(rename = "interleaved")]
    Interleaved,
    /// 1F1B with separate weight gradients.
    #[serde(rename = "zero-bubble")]
    ZeroBubble,
    /// Zero-bubble with about twice as many microbatches in flight, whose iterations follow each other without a
    /// barrier.
    #[serde(rename = "zero-bubble-2p")]
    ZeroBubbleTwice,
    /// Two stages per device, the second half of the pipeline from the last device back to the first; forward passes of one
    /// of them run beside backward passes of the other.
    #[serde(rename = "dualpipe-v")]
    DualPipeV,
}

impl Schedule {
    /// Name in documents and options.
    pub fn name(self) -> &'static str {
        match self {
            Schedule::None => "none",
            Schedule::GPipe => "gpipe",
            Schedule::OneFOneB => "1f1b",
            Schedule::Interleaved => "interleaved",
            Schedule::ZeroBubble => "zero-bubble",
            Schedule::ZeroBubbleTwice => "zero-bubble-2p",
            Schedule::DualPipeV => "dualpipe-v",
        }
    }

    /// Whether weight gradients run apart from the backward pass.
    pub fn is_split(self) -> bool {
        matches!(self, Schedule::ZeroBubble | Schedule::ZeroBubbleTwice | Schedule::DualPipeV)
    }

    /// Whether a device runs several stages, its *chunks*.
    pub fn has_chunks(self) -> bool {
        matches!(self, Schedule::Interleaved | Schedule::DualPipeV)
    }

    /// Device of a stage, both from 0: round-robin, but under DualPipeV from the first device to the last and back.
    ///
    /// # Panics
    /// If there are no devices.
    pub fn device(self, stage: usize, devices: usize) -> usize {
        let (chunk, position) = (stage / devices, stage % devices);
        if self == Schedule::DualPipeV && chunk % 2 == 1 { devices - 1 - position } else { position }
    }

    /// Stages of a device, in the order of the pipeline.
    ///
    /// # Panics
    /// If there are no devices.
    pub fn stages_of(
        self,
        device: usize,
        devices: usize,
        stages: usize,
    ) -> impl Iterator<Item = usize> + Clone {
        let chunks = 0..stages.div_ceil(devices);
        // The device of a position is its own inverse.
        let stage = move |chunk: usize| chunk * devices + self.device(chunk * devices + device, devices);
        chunks.map(stage).filter(move |&stage| stage < stages)
    }
}

/// The objective with its rules and the value reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveDocument {
    /// Value to minimise.
    pub kind: ObjectiveKind,
    /// The split rule. Ignored for latency, whose calls have a rule of their own, and for makespan, which has none.
    pub split: Split,
    /// The communication mode.
    pub communication: Communication,
    /// The training mode.
    pub training: Training,
    /// The pipeline schedule, `none` by default.
    #[serde(default, skip_serializing_if = "no_schedule")]
    pub schedule: Schedule,
    /// Microbatches of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microbatches: Option<u32>,
    /// Maximum number of devices one stage may be replicated on; 1 by default. All are of one kind, and no pin
    /// distinguishes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<u32>,
    /// Maximum number of calls per accelerator, for latency; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// Execution model of a step, for the makespan; `ports` by default.
    #[serde(default, skip_serializing_if = "through_ports")]
    pub execution: Execution,
    /// The value; null without a plan.
    pub value_s: Option<f64>,
}

fn no_schedule(schedule: &Schedule) -> bool {
    *schedule == Schedule::None
}

fn through_ports(execution: &Execution) -> bool {
    *execution == Execution::Ports
}

/// A lower bound on the value of every plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BoundDocument {
    /// The bound; null if none is known or the problem is infeasible.
    pub value_s: Option<f64>,
    /// Source of the bound: the name of a bound, or `exhausted` for a finished search.
    pub source: String,
    /// Evidence from which a checker can recompute the bound, if any.
    pub certificate: Option<CertificateDocument>,
}

/// Evidence for a bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CertificateDocument {
    /// A price per second of each device kind. With u over colocation classes,
    /// Σ_u min_c price_c · seconds(u, c) / Σ_c count_c · price_c bounds the bottleneck from below.
    ///
    /// With prices of memory, a class also pays price · ⌊bytes / quantum⌋ on a kind, for the bytes that it holds on any
    /// device, and count · price · ⌊memory / quantum⌋ of every kind is subtracted from the sum. With `below_s`, no
    /// class is on a kind where its seconds, divided by the maximum number of replicas there, reach `below_s`; the
    /// bound is then at most `below_s`.
    Fluid {
        /// Non-negative price by kind, positive for at least one kind with devices.
        prices: BTreeMap<String, f64>,
        /// Prices of memory by kind; none by default.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        memory: BTreeMap<String, MemoryPriceDocument>,
        /// A value of the objective: assignments that imply at least this value are excluded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        below_s: Option<f64>,
    },
    /// The colocation class of this operator takes at least the bound on every device that may run it.
    HeaviestUnit {
        /// One operator of the class.
        operator: String,
    },
    /// A path of operators v_1, …, v_C cuts the step into windows: 0 before the start of v_1, 2i − 1 while v_i runs,
    /// and 2i after its end, up to the start of v_(i+1) or the end of the step. Work that can only run in the listed
    /// windows takes at least its priced seconds of them, and every other window has a minimum length: the sum of both
    /// bounds the makespan from below. Without listed windows it bounds the latency as well.
    ///
    /// Prices of memory are as in `fluid`, in seconds; `below_s` excludes a class from a kind where a path through one
    /// of its operators takes at least that long.
    Windows {
        /// Non-negative price by kind, positive for at least one kind with devices.
        prices: BTreeMap<String, f64>,
        /// Operators on a path of the graph, in its order; the path may have further operators between them.
        path: Vec<String>,
        /// The windows whose work is counted, ascending.
        windows: Vec<u32>,
        /// Prices of memory by kind; none by default.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        memory: BTreeMap<String, MemoryPriceDocument>,
        /// A value of the objective: assignments that imply at least this value are excluded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        below_s: Option<f64>,
    },
    /// Prices at which the devices cannot hold all colocation classes below a threshold. Every set of classes that a
    /// stage on r devices may run with a load of at most the threshold costs at most r times the price of such a
    /// device, but all classes together cost more than all devices, so no plan has the threshold as its value.
    ColumnGeneration {
        /// A value in seconds: no plan has this value or a lower one.
        threshold_s: f64,
        /// Non-negative price of a colocation class by one of its operators; zero if missing.
        prices: BTreeMap<String, f64>,
        /// Non-negative price of a device by its name. It applies to all devices of its kind that no pin distinguishes
        /// from it; zero if none of them is listed.
        devices: BTreeMap<String, f64>,
        /// Every colocation class by one of its operators. The order does not affect the proof, only the work of
        /// checking it: few tensors should lead from the classes before any position to those after it.
        order: Vec<String>,
    },
}

/// The price of memory on a device, which is counted in whole quanta.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryPriceDocument {
    /// Positive number of bytes.
    pub quantum_bytes: f64,
    /// Non-negative price of a quantum.
    pub price: f64,
}

/// One device of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceDocument {
    /// Name of the device; of the first one if the stage is replicated.
    pub name: String,
    /// Kind of the device.
    pub kind: String,
    /// Position in the pipeline, from 0; null if the plan has no order.
    pub stage: Option<u32>,
    /// Number of devices that run the stage, the named device included. The others are of its kind and appear in the
    /// same pins: a device that a pin distinguishes from it cannot be a replica.
    pub replicas: u32,
    /// The operators of each call of an accelerator, the calls in order, for latency; null for a host, which has no
    /// calls.
    pub calls: Option<Vec<Vec<String>>>,
    /// The load. With `separate` training, forward plus backward load. For latency, the busy seconds: the sum over the
    /// calls, or over the operators of a host. For makespan, the seconds of its compute and of its link's transfers.
    pub load_s: f64,
    /// Seconds of compute, before division among replicas.
    pub compute_s: f64,
    /// Seconds of communication, gradients of shared parameters included, before division among replicas;
    /// synchronisation of replicas not included.
    pub communication_s: f64,
    /// Bytes in use; for makespan, the peak.
    pub memory_bytes: f64,
    /// Operators on the device.
    pub ops: Vec<String>,
}

/// The load of one group's uplink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UplinkDocument {
    /// Name of the group.
    pub group: String,
    /// Seconds of the tensors that cross the uplink; for makespan, its busy seconds.
    pub load_s: f64,
}
