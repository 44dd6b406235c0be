//! `stagewright.joint-plan/1`: stages with degrees of parallelism, and a configuration for every layer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ClusterDocument, ModelOptionsDocument, OriginDocument, PlanStatus, RuntimeDocument, Schedule,
    SourcesDocument, ThroughputDocument,
};

/// The value of `schema` in a joint plan.
pub const JOINT_PLAN_SCHEMA: &str = "stagewright.joint-plan/1";

/// A joint plan: also the output of `plan --parallel … --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JointPlanDocument {
    /// Always `stagewright.joint-plan/1`.
    pub schema: String,
    /// Proof status.
    pub status: PlanStatus,
    /// Name of the solver that found the plan.
    pub solver: String,
    /// Name of the model.
    pub model: String,
    /// Options that determine how the model file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ModelOptionsDocument>,
    /// The cluster; null for the devices in the model's file.
    #[serde(default)]
    pub cluster: Option<ClusterDocument>,
    /// Objective and options of the plan.
    pub objective: JointObjectiveDocument,
    /// The lower bound on the value of every plan.
    pub bound: JointBoundDocument,
    /// (value − bound) / value; null without a plan or a bound.
    pub gap: Option<f64>,
    /// Solve time in seconds.
    pub seconds: f64,
    /// The program that wrote the plan; absent in plans of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginDocument>,
    /// Reason why the search stopped before a proof (`time`, `gap`, `interrupted`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Reason why there is no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rate of the plan; absent without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputDocument>,
    /// Where the seconds of the operators come from, each operator undivided and on the devices of its stage; absent
    /// without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourcesDocument>,
    /// How every stage runs the batch; null without a plan, and for `time-per-sample`, where stages differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<JointExecutionDocument>,
    /// The stages in the order of the forward pass; empty without a plan.
    pub stages: Vec<JointStageDocument>,
}

/// The objective of a joint plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JointObjectiveDocument {
    /// The quantity that is minimised.
    pub kind: JointObjectiveKind,
    /// Parallelism that a plan may use, each with its required degree, or null for any. For `zero` the degree is its
    /// stage, for `recompute` the configuration of all numbered layers: none (0), selective (1), full (2) or offload (3), and
    /// for `offload` what is on the host: nothing (0) or the states of the optimizer (1). With null for both, layers may be
    /// in the configuration `offload`, with activations on the host. `mixed` has no degree.
    pub parallel: BTreeMap<Parallelism, Option<u32>>,
    /// Samples of a batch, over all copies; microbatches for `time-per-sample`.
    pub global_batch: u64,
    /// Samples per microbatch, if given; null for any number, and for `time-per-sample`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microbatch: Option<u32>,
    /// Schedules that a plan for an iteration may have: `1f1b`, `interleaved`, `zero-bubble`, `zero-bubble-2p`,
    /// `dualpipe-v`; 1F1B if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<Schedule>,
    /// Stages per device under the schedules `interleaved` and `dualpipe-v`, if given; absent for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
    /// Numbers of numbered layers of the stages, in the order of the stages, if given; absent for any cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Vec<u32>>,
    /// How the workspaces of recomputed layers combine.
    pub recompute_workspace: RecomputeWorkspace,
    /// Constants of the runtime that trains the model; absent for an ideal runtime, in which nothing overlaps and nothing
    /// is lost, and for `time-per-sample`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeDocument>,
    /// Value in seconds; null without a plan.
    pub value_s: Option<f64>,
}

fn one_f_one_b() -> Schedule {
    Schedule::OneFOneB
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// The quantity that a joint plan minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JointObjectiveKind {
    /// Time per microbatch of the slowest stage, with degrees that differ between stages: Piper's time per sample.
    TimePerSample,
    /// Time of one iteration, with the same degree of data parallelism in every stage.
    Iteration,
}

/// A kind of parallelism, or a technique that a joint plan chooses along with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Parallelism {
    /// Tensor parallelism: operators split over the devices of a group.
    Tp,
    /// Data parallelism: copies of a stage.
    Dp,
    /// Context parallelism: the tokens of a sample divided over the devices of a copy.
    Cp,
    /// Pipeline parallelism: stages.
    Pp,
    /// Expert parallelism: the experts of a layer on several devices.
    Ep,
    /// States of the optimizer, gradients and parameters split over copies (ZeRO).
    Zero,
    /// States split over groups of copies instead of all copies (hybrid sharding).
    Shard,
    /// Activations recomputed in the backward pass.
    Recompute,
    /// States of the optimizer in the host's memory, and updates on the host.
    Offload,
    /// Stages with devices of two kinds.
    Mixed,
}

/// Configurations of a layer in plans of iterations, in the order of the degrees of [`Parallelism::Recompute`].
pub const CONFIGURATIONS: [&str; 4] = ["none", "selective", "full", "offload"];

impl Parallelism {
    /// All kinds of parallelism, and all techniques.
    pub const ALL: [Parallelism; 10] = [
        Parallelism::Tp,
        Parallelism::Dp,
        Parallelism::Cp,
        Parallelism::Pp,
        Parallelism::Ep,
        Parallelism::Zero,
        Parallelism::Shard,
        Parallelism::Recompute,
        Parallelism::Offload,
        Parallelism::Mixed,
    ];

    /// Name in documents and options.
    pub fn name(self) -> &'static str {
        match self {
            Parallelism::Tp => "tp",
            Parallelism::Dp => "dp",
            Parallelism::Cp => "cp",
            Parallelism::Pp => "pp",
            Parallelism::Ep => "ep",
            Parallelism::Zero => "zero",
            Parallelism::Shard => "shard",
            Parallelism::Recompute => "recompute",
            Parallelism::Offload => "offload",
            Parallelism::Mixed => "mixed",
        }
    }

    /// The item of `--parallel` that gives a degree, such as `tp=8` or `recompute=full`.
    pub fn given(self, degree: u32) -> String {
        match (self, CONFIGURATIONS.get(degree as usize)) {
            (Parallelism::Recompute, Some(configuration)) => format!("{}={configuration}", self.name()),
            _ => format!("{}={degree}", self.name()),
        }
    }
}

/// How the devices of a context-parallel group exchange tokens for attentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ContextExchange {
    /// Keys and values pass from device to device (Liu et al., "Ring Attention", ICLR 2024).
    Ring,
    /// Tokens are exchanged for heads before an attention, and back after it (Jacobs et al., "DeepSpeed Ulysses", 2023).
    AllToAll,
}

impl ContextExchange {
    /// All ways to exchange tokens.
    pub const ALL: [ContextExchange; 2] = [ContextExchange::Ring, ContextExchange::AllToAll];

    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            ContextExchange::Ring => "ring",
            ContextExchange::AllToAll => "all-to-all",
        }
    }
}

/// How the workspaces of recomputed layers combine over the layers of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecomputeWorkspace {
    /// The largest workspace of a layer: one layer is recomputed at a time.
    #[default]
    Max,
    /// The sum of the workspaces of the layers, as Piper counts.
    Sum,
}

impl RecomputeWorkspace {
    /// Name in documents and options.
    pub fn name(self) -> &'static str {
        match self {
            RecomputeWorkspace::Max => "max",
            RecomputeWorkspace::Sum => "sum",
        }
    }
}

/// Settings common to all stages of a plan for one iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JointExecutionDocument {
    /// Samples of a microbatch.
    pub microbatch: u32,
    /// Microbatches of an iteration, for every copy.
    pub microbatches: u32,
    /// Degree of data parallelism.
    pub data: u32,
    /// Degree of context parallelism: parts of the tokens of a sample, each on a tensor-parallel group.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub context: u32,
    /// How attentions exchange tokens under context parallelism; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ContextExchange>,
    /// Degree of expert parallelism, which divides the product of the degrees of data and context parallelism.
    pub expert: u32,
    /// States that copies divide among themselves: none (0), the optimizer's (1), gradients as well (2), or parameters
    /// as well (3).
    pub zero: u32,
    /// Number of copies that divide states among themselves, a divisor of all copies; absent if all of them do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// Whether states of the optimizer are in the host's memory, where updates run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offload: bool,
    /// Schedule of the microbatches.
    #[serde(default = "one_f_one_b")]
    pub schedule: Schedule,
    /// Stages per device, more than one under `interleaved` and two under `dualpipe-v`. With p devices in a pipeline, stage
    /// k is on device k mod p; under `dualpipe-v` it is on device 2 p − 1 − k if k ≥ p.
    #[serde(default = "one")]
    pub chunks: u32,
}

/// A lower bound on the value of every joint plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JointBoundDocument {
    /// The bound in seconds; null if there is none.
    pub value_s: Option<f64>,
    /// Source of the bound.
    pub source: String,
}

/// A stage: layers on a group of devices.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JointStageDocument {
    /// Kind of the stage's devices; absent for `time-per-sample`, where there is one kind, and if `mixed` names two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Copies of the stage on each of two kinds of devices; absent if all are on one kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mixed: BTreeMap<String, u32>,
    /// Degree of data parallelism: copies of the stage.
    pub data: u32,
    /// Degree of tensor parallelism: devices of a copy.
    pub tensor: u32,
    /// Maximum number of microbatches in flight in a copy.
    pub in_flight: u32,
    /// Seconds per microbatch, of all passes.
    pub seconds: f64,
    /// Seconds of the forward pass of a microbatch; absent for `time-per-sample`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_s: Option<f64>,
    /// Seconds of the weight gradients of a microbatch that run separately from the backward pass, under the
    /// zero-bubble schedules and DualPipeV; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_s: Option<f64>,
    /// Seconds of an iteration after its last microbatch: the synchronisation of gradients, and the update; absent for
    /// `time-per-sample`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_s: Option<f64>,
    /// Bytes of memory in use on a device, by all stages on it.
    pub memory_bytes: f64,
    /// Bytes of memory in use on a device for parameters, gradients and the optimizer of this stage; absent for
    /// `time-per-sample`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_bytes: Option<f64>,
    /// Bytes of the host's memory for one device of this stage, by itself; absent if the stage has nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_bytes: Option<f64>,
    /// Bytes of activations of this stage at its maximum number of microbatches in flight; absent for
    /// `time-per-sample`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_bytes: Option<f64>,
    /// The layers, with their configurations.
    pub layers: Vec<JointLayerDocument>,
}

impl JointStageDocument {
    /// Kinds of the stage's devices for display, with the copies on each if there are two.
    pub fn place(&self) -> Option<String> {
        let copies = self.mixed.iter().map(|(kind, copies)| format!("{copies} {kind}"));
        match self.mixed.is_empty() {
            true => self.kind.clone(),
            false => Some(copies.collect::<Vec<_>>().join(" + ")),
        }
    }
}

/// A layer of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JointLayerDocument {
    /// Name of the layer.
    pub layer: String,
    /// Name of the layer's configuration.
    pub configuration: String,
}

/// Seconds per microbatch on a stage, and bytes on each of its devices, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct JointPartsDocument {
    /// Seconds of operators, in both passes.
    pub compute_s: f64,
    /// Seconds of recomputation in the backward pass, and for which it waits for activations from and to the host.
    pub recompute_s: f64,
    /// Seconds of collectives in tensor-parallel groups.
    pub tensor_s: f64,
    /// Seconds of exchanges with experts.
    pub expert_s: f64,
    /// Seconds of exchanges in context-parallel groups that no compute hides.
    pub context_s: f64,
    /// Seconds of collectives over copies that no compute hides, at ZeRO 2 and 3.
    pub zero_s: f64,
    /// Seconds that devices wait for the host.
    pub host_s: f64,
    /// Seconds of transfers from other stages.
    pub transfer_s: f64,
    /// Bytes of parameters.
    pub parameter_bytes: f64,
    /// Bytes of gradients.
    pub gradient_bytes: f64,
    /// Bytes of states of the optimizer.
    pub optimizer_bytes: f64,
    /// Bytes of activations of the microbatches in flight.
    pub activation_bytes: f64,
    /// Bytes of the largest workspace of a layer.
    pub workspace_bytes: f64,
}
