//! `stagewright.local-plan/1`: a language model under llama.cpp on one machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterDocument, ModelOptionsDocument, OriginDocument, PlanStatus};

/// The value of `schema` in a local plan.
pub const LOCAL_PLAN_SCHEMA: &str = "stagewright.local-plan/1";

/// A local plan: also the output of `plan --local --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalPlanDocument {
    /// Always `stagewright.local-plan/1`.
    pub schema: String,
    /// Proof status.
    pub status: PlanStatus,
    /// Name of the solver, or `given` for a command line that was evaluated.
    pub solver: String,
    /// Name of the model.
    pub model: String,
    /// Options that determine how the model file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ModelOptionsDocument>,
    /// The machine.
    pub cluster: ClusterDocument,
    /// The objective.
    pub objective: LocalObjectiveDocument,
    /// The lower bound on the value of the plans that were searched.
    pub bound: LocalBoundDocument,
    /// (value − bound) / value; null without a plan or a bound.
    pub gap: Option<f64>,
    /// Solve time in seconds.
    pub seconds: f64,
    /// The program that wrote the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginDocument>,
    /// Reason why the search stopped before a proof (`time`, `interrupted`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Reason why there is no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The setting; null without a plan.
    pub setting: Option<LocalSettingDocument>,
}

/// Objective of a local plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalObjectiveDocument {
    /// The quantity that is minimised.
    pub kind: LocalGoal,
    /// Tokens of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// Tokens that are generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Tokens before the token that is generated, for `decode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tokens of the micro-batch, if given; null for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<u64>,
    /// Whether projections are on a device that does not have their layer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub to_devices: bool,
    /// Value in seconds; null without a plan.
    pub value_s: Option<f64>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The seconds that a local plan minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalGoal {
    /// Seconds of a generated token.
    Decode,
    /// Seconds until a prompt is read.
    Prefill,
    /// Seconds of a prompt and of the tokens that answer it.
    Request,
}

/// A lower bound on the value of every local plan with the same context, sequences and encoding of keys and values, with one of
/// the micro-batches of the question (512 for `decode` unless another is given), and with projections on the device of their
/// layer or in RAM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalBoundDocument {
    /// The bound in seconds; null if there is none.
    pub value_s: Option<f64>,
    /// Source of the bound.
    pub source: String,
}

/// Options of llama.cpp, with what follows from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalSettingDocument {
    /// The options of `llama-server` as words of a shell, without the model.
    pub flags: String,
    /// Tokens of the context.
    pub context: u64,
    /// Sequences that share the context.
    pub sequences: u64,
    /// Tokens of a logical batch.
    pub batch: u64,
    /// Tokens of a micro-batch.
    pub micro_batch: u64,
    /// Encodings of cached keys and values.
    pub cache: [String; 2],
    /// `--gpu-layers`: slots on devices, counted from the output.
    pub gpu_layers: u64,
    /// Blocks of the model, those of multi-token prediction among them; the output is a further slot.
    pub blocks: u64,
    /// Seconds of a generated token; null if its speed is not known.
    pub token_s: Option<f64>,
    /// Seconds until the prompt is read; null without a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_s: Option<f64>,
    /// The devices in the order of the command line.
    pub devices: Vec<LocalMemoryDocument>,
    /// The processor and RAM.
    pub host: LocalMemoryDocument,
    /// Projections that are elsewhere than their slot, a line for each set of blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<LocalOverrideDocument>,
}

/// A device or the host, with what it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalMemoryDocument {
    /// Name as llama.cpp prints it: `CUDA0`, or `CPU` for the host.
    pub name: String,
    /// Kind in the cluster.
    pub kind: String,
    /// First slot, and the slot after the last; equal if there is none.
    pub slots: [u64; 2],
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes of the cache.
    pub cache: u64,
    /// Bytes of buffers of computation.
    pub compute: u64,
    /// Bytes of the context of the device, and of room for copies of weights of the host.
    pub other: u64,
    /// Bytes that are free before llama.cpp starts.
    pub memory: u64,
}

/// Projections of some blocks that are elsewhere than their slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalOverrideDocument {
    /// The blocks.
    pub blocks: Vec<u64>,
    /// Names of the projections below the block: `ffn_up_exps`.
    pub modules: Vec<String>,
    /// Name of the device, or `CPU`.
    pub target: String,
}

impl LocalMemoryDocument {
    /// All bytes.
    pub fn total(&self) -> u64 {
        [self.cache, self.compute, self.other].into_iter().fold(self.weights, u64::saturating_add)
    }
}
