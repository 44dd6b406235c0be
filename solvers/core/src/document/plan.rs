//! `stagewright.plan/1`: a placement, what it is worth, and how far from optimal it can be.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PinsDocument, Precision};

/// The value of `schema` in a plan document.
pub const PLAN_SCHEMA: &str = "stagewright.plan/1";

/// A plan: also what `plan --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanDocument {
    /// Always `stagewright.plan/1`.
    pub schema: String,
    /// What was proved.
    pub status: PlanStatus,
    /// Name of the solver that found it.
    pub solver: String,
    /// What was minimised, under which rules, and the value reached.
    pub objective: ObjectiveDocument,
    /// The lower bound.
    pub bound: BoundDocument,
    /// (value − bound) / value; null where there is no plan or no bound.
    pub gap: Option<f64>,
    /// Seconds that the solve took.
    pub seconds: f64,
    /// Seed of the solve.
    pub seed: u64,
    /// Why the search stopped short of a proof (`time`, `memory`, `gap`, `interrupted`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Why there is no plan, or what the search for it left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Options about the model and the memory that the plan was made under; what was not given is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelOptionsDocument>,
    /// For throughput: how much the plan does in a second, where it is known of what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputDocument>,
    /// The pins that the plan was made under.
    #[serde(default, skip_serializing_if = "no_pins")]
    pub pins: PinsDocument,
    /// The devices in use, in pipeline order where there is one.
    pub devices: Vec<DeviceDocument>,
    /// The loads of the group uplinks, where the cluster has groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<UplinkDocument>,
    /// For makespan: every operator once, by decreasing priority. Of those that are ready on a device, the
    /// first in this list runs first; without it, that which was ready first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Vec<String>>,
}

fn no_pins(pins: &PinsDocument) -> bool {
    pins.0.is_empty()
}

/// How the model of a plan was read, and how much memory was kept free: what the model and the cluster leave open, and
/// what has to be the same when the plan is read again. The names are those of the options of the command line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOptionsDocument {
    /// Format of the model, where it was not recognised but told.
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
    /// Tokens that are in the key-value cache already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Sequences that the key-value cache is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequences: Option<u64>,
    /// Type of the numbers that the model was cast to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Whether the readers of shared weights share a device.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tied_together: bool,
    /// Whether every operator launches a kernel of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_fusion: bool,
    /// Version of the cost rules, where it is not the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_rules: Option<u8>,
    /// Unit of the model's times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<TimeUnitDocument>,
    /// Whether input nodes keep their profiled times.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_input_costs: bool,
    /// Class of devices that profiled times are for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_class: Option<String>,
    /// How gradients are sent, where a profile lists forward edges alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradients: Option<GradientsDocument>,
    /// Bytes that are kept free on every device that is no host, in place of what the cluster says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reserve: Option<u64>,
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

/// How gradients are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GradientsDocument {
    /// Like the activations.
    Mirrored,
    /// From each reader back.
    Reversed,
}

/// How much a plan does in a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThroughputDocument {
    /// Batches; under a schedule, microbatches.
    pub batches_per_s: f64,
    /// Samples, where it is known how many a batch has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// Tokens, where it is known as well how many a sample has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
}

/// What was proved of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanStatus {
    /// Value and bound agree within the optimality tolerance.
    Optimal,
    /// A plan, with a gap.
    Feasible,
    /// Proved that there is no plan.
    Infeasible,
    /// No plan found, and none excluded.
    Unknown,
}

/// The objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectiveKind {
    /// The bottleneck load: time per sample of a full pipeline.
    #[default]
    Throughput,
    /// One sample through offloaded calls.
    Latency,
    /// One step under dataflow execution.
    Makespan,
}

/// Which sets of operators may share a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// The devices can be ordered so that forward tensors only go forward.
    #[default]
    Contiguous,
    /// No forward path leaves a device and comes back.
    Convex,
    /// Anything.
    Free,
}

/// How communication adds to compute.
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

/// How the passes of a training step are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Training {
    /// The largest load.
    #[default]
    Combined,
    /// The largest forward load plus the largest backward load.
    Separate,
}

/// How a step runs, for the makespan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// Every device sends and receives one tensor at a time, and so does every uplink.
    #[default]
    Ports,
    /// Transfers take their time and hinder nothing, and every reader is sent its tensor: the rules of GiPH's
    /// simulator.
    ContentionFree,
}

/// The pipeline schedule: the value is the time of its iteration, and a stage keeps the activations it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// 1F1B with several stages a device.
    #[serde(rename = "interleaved")]
    Interleaved,
    /// 1F1B with the weight gradient split off.
    #[serde(rename = "zero-bubble")]
    ZeroBubble,
}

/// The objective with its rules and the value reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveDocument {
    /// What is minimised.
    pub kind: ObjectiveKind,
    /// The split rule. Latency has a rule of its own, that of its calls, and makespan has none: neither reads
    /// it.
    pub split: Split,
    /// The communication mode.
    pub communication: Communication,
    /// The training mode.
    pub training: Training,
    /// The pipeline schedule, `none` where it is not given.
    #[serde(default, skip_serializing_if = "no_schedule")]
    pub schedule: Schedule,
    /// Microbatches of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microbatches: Option<u32>,
    /// Most devices one stage may be replicated on; 1 where it is not given. They are of one kind, and no pin
    /// tells them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<u32>,
    /// For latency, most calls of one accelerator; 1 where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// For the makespan, how a step runs; `ports` where it is not given.
    #[serde(default, skip_serializing_if = "through_ports")]
    pub execution: Execution,
    /// The value; null where there is no plan.
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
    /// The bound; null where none is known or the problem is infeasible.
    pub value_s: Option<f64>,
    /// Where it comes from: the name of a bound, or `exhausted` for a finished search.
    pub source: String,
    /// What a checker needs to recompute it, if anything does.
    pub certificate: Option<CertificateDocument>,
}

/// Evidence for a bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CertificateDocument {
    /// A price per second of each device kind. With u over colocation classes,
    /// Σ_u min_c price_c · seconds(u, c) / Σ_c count_c · price_c bounds the bottleneck from below.
    Fluid {
        /// Price by kind, not negative, at least one of a kind with devices positive.
        prices: BTreeMap<String, f64>,
    },
    /// The colocation class of this operator takes at least the bound on every device that may run it.
    HeaviestUnit {
        /// One operator of the class.
        operator: String,
    },
    /// Prices at which the devices cannot hold all colocation classes below a threshold. No set of classes that a
    /// stage on r devices may run with a load of at most the threshold is worth more than r times the price of such
    /// a device, and the classes are worth more together than all devices: so no plan has the threshold as its value.
    ColumnGeneration {
        /// The value, in seconds, that no plan has, nor any lower one.
        threshold_s: f64,
        /// Price of a colocation class by one of its operators, not negative; zero where it is not given.
        prices: BTreeMap<String, f64>,
        /// Price of a device by its name, not negative; for all devices of its kind that no pin tells apart from it,
        /// and zero where none of them is given.
        devices: BTreeMap<String, f64>,
        /// Every colocation class by one of its operators. What is proved does not depend on the order, but the work
        /// of proving it does: few tensors should lead from the classes before any place to those after it.
        order: Vec<String>,
    },
}

/// One device of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceDocument {
    /// Name of the device; of the first one where the stage is replicated.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Place in the pipeline, from 0; null where the plan has no order.
    pub stage: Option<u32>,
    /// Devices that run this stage, this one included. The others are of its kind and appear in the same
    /// pins: one that a pin tells apart from it is no replica.
    pub replicas: u32,
    /// For latency: the operators of each call of an accelerator, the calls in order; null for a host, which makes none.
    pub calls: Option<Vec<Vec<String>>>,
    /// The load. With `separate` training, forward plus backward load. For latency, the seconds in use: the
    /// sum over the calls, or over the operators of a host. For makespan, what it computes and what its link
    /// carries.
    pub load_s: f64,
    /// Seconds of compute, before division among replicas.
    pub compute_s: f64,
    /// Seconds of communication, before division among replicas; synchronisation of replicas not included.
    pub communication_s: f64,
    /// Bytes in use; for makespan, the most at any moment.
    pub memory_bytes: f64,
    /// Its operators.
    pub ops: Vec<String>,
}

/// The load of one group's uplink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UplinkDocument {
    /// Name of the group.
    pub group: String,
    /// Seconds of the tensors that cross it; for makespan, the seconds that it carries something.
    pub load_s: f64,
}
