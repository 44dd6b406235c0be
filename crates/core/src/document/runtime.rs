//! Constants of a runtime that trains a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::is_zero;

/// Constants of a runtime that trains a model: what it overlaps, what it keeps in memory, and what its host takes. The
/// section *Runtimes* of `docs/joint.md` has the formulas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeDocument {
    /// Name of the runtime.
    pub name: String,
    /// Source of the constants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Seconds of operators of the passes, over those of the cost model; 1 if absent.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub compute: f64,
    /// Seconds of collectives over copies, over those of the cost model; 1 if absent.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub copies: f64,
    /// Seconds of exchanges with experts and of tokens, over those of the cost model; 1 if absent.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub exchanges: f64,
    /// Seconds of transfers between stages, over those of the cost model; 1 if absent.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub transfers: f64,
    /// Whether norms, residuals and other operators on whole tokens are divided over a tensor-parallel group.
    pub sequence_parallel: bool,
    /// Whether an attention runs in one kernel.
    pub fused_attention: bool,
    /// Rate of the products of an attention in one kernel, over that of other products.
    pub attention: f64,
    /// Share of the memory bandwidth that operators reach, at most 1.
    pub memory: f64,
    /// Times that an operator other than a product moves its bytes.
    pub passes: f64,
    /// Times that a norm moves its bytes and keeps its result.
    pub norms: f64,
    /// Times that the softmax of an attention that does not run in one kernel moves its bytes and keeps its result.
    pub scores: f64,
    /// Share of the bandwidth of a link in a server that collectives and transfers reach, at most 1.
    pub link: f64,
    /// Share of the bandwidth of a link between servers that collectives and transfers reach, at most 1.
    pub network: f64,
    /// Share of the seconds of tensor-parallel collectives that no compute hides; more than 1 if they take longer.
    pub tensor: f64,
    /// Share of the shorter of compute and collectives that remains if they overlap, at most 1, at ZeRO 2 and 3.
    pub contention: f64,
    /// Seconds of the host for the forward pass of a layer.
    pub host_s: f64,
    /// Additional seconds of the host for the forward pass of a layer in a pipeline over several servers, for each device
    /// of a tensor-parallel group to the power of 1.25.
    pub pipeline_host_s: f64,
    /// Seconds of an iteration outside its passes, reductions and updates.
    pub iteration_s: f64,
    /// Bytes of a gradient that are reduced, over those of the gradient in the graph.
    pub reduction: f64,
    /// Bytes of a gradient that are kept, over those of the gradient in the graph.
    pub gradients: f64,
    /// Bytes that activations take in memory, over those of their tensors; 1 if absent.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub activations: f64,
    /// Collectives over copies for each layer.
    pub buckets: f64,
    /// Workspace of a loss, over the bytes that it reads.
    pub loss: f64,
    /// Whether every device of a tensor-parallel group has the workspace of the whole loss.
    pub whole_loss: bool,
    /// Bytes of a device outside the plan: contexts, communicators and buffers.
    pub reserve_bytes: f64,
    /// Share of the memory of a device that a plan leaves free besides them; 0 if absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub margin: f64,
    /// Seconds that a transfer between stages in different servers takes besides those of its bytes, on a kind of at
    /// least `wide_servers` servers; 0 if absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wide_transfer_s: f64,
    /// Number of servers of a kind from which transfers take `wide_transfer_s`; 0 if absent.
    #[serde(default, skip_serializing_if = "is_zero_count")]
    pub wide_servers: u32,
}

fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero_count(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_one(factor: &f64) -> bool {
    *factor == 1.0
}

impl RuntimeDocument {
    /// Bytes of a device with `memory` bytes that a plan must leave free.
    pub fn reserve(&self, memory: f64) -> f64 {
        self.reserve_bytes + self.margin * memory
    }

    /// The first constant that is out of range: its name, its value, and the range. The ranges are far wider than any
    /// runtime, and so narrow that no figure of a plan overflows.
    pub fn fault(&self) -> Option<(&'static str, f64, &'static str)> {
        let shares = [("memory", self.memory), ("link", self.link), ("network", self.network)];
        let rates = [("attention", self.attention), ("passes", self.passes)];
        let repeats = [("norms", self.norms), ("scores", self.scores)];
        let factors = [
            ("compute", self.compute),
            ("copies", self.copies),
            ("exchanges", self.exchanges),
            ("transfers", self.transfers),
            ("tensor", self.tensor),
            ("reduction", self.reduction),
            ("gradients", self.gradients),
            ("activations", self.activations),
            ("buckets", self.buckets),
            ("loss", self.loss),
        ];
        let seconds = [
            ("host_s", self.host_s),
            ("pipeline_host_s", self.pipeline_host_s),
            ("iteration_s", self.iteration_s),
            ("wide_transfer_s", self.wide_transfer_s),
        ];
        let find = |constants: &[(&'static str, f64)], minimum: f64, maximum: f64, allowed: &'static str| {
            let is_out = |&&(_, value): &&(&str, f64)| !(value >= minimum && value <= maximum);
            constants.iter().find(is_out).map(|&(name, value)| (name, value, allowed))
        };
        find(&shares, 1e-6, 1.0, "1e-6 to 1")
            .or_else(|| find(&[("contention", self.contention), ("margin", self.margin)], 0.0, 1.0, "0 to 1"))
            .or_else(|| find(&rates, 1e-6, 1e6, "1e-6 to 1e6"))
            .or_else(|| find(&repeats, 1.0, 1e6, "1 to 1e6"))
            .or_else(|| find(&factors, 0.0, 1e6, "0 to 1e6"))
            .or_else(|| find(&seconds, 0.0, 1e6, "0 to 1e6"))
            .or_else(|| find(&[("reserve_bytes", self.reserve_bytes)], 0.0, 1e18, "0 to 1e18"))
    }
}
