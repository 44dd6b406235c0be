//! Degrees of parallelism of a worker.

use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};
use stagewright_structure::Mixer;

use crate::model::Model;

/// Degrees of parallelism of a worker, which has `tensor · data` devices.
///
/// Attention is divided among `tensor` devices and copied `data` times, each copy with sequences of its own. Experts are
/// divided over all devices: into `experts` groups of whole experts, and each expert among `expert_tensor` devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parallel {
    /// Tensor degree of everything but routed experts.
    pub tensor: u64,
    /// Copies of attention with sequences of their own (attention data parallelism).
    pub data: u64,
    /// Devices that share an expert.
    pub expert_tensor: u64,
    /// Groups of whole experts (expert parallelism).
    pub experts: u64,
}

impl Parallel {
    /// Tensor parallelism of attention and experts alike.
    pub fn tensor(degree: u64) -> Parallel {
        Parallel { tensor: degree, data: 1, expert_tensor: degree, experts: 1 }
    }

    /// Number of devices.
    pub fn devices(self) -> u64 {
        self.tensor.saturating_mul(self.data)
    }

    /// Checks the degrees against a model: heads of queries, of linear attention and of states are divided evenly, as engines
    /// require, and experts into equal groups. Fewer heads of keys than devices are copied.
    ///
    /// # Errors
    /// If a degree is 0 or does not fit (L020). `label` names the input that has the degrees.
    pub fn check(self, label: &str, model: &Model) -> Result<()> {
        let degrees = [
            ("tp", self.tensor),
            ("dp", self.data),
            ("moe_tp", self.expert_tensor),
            ("moe_ep", self.experts),
        ];
        let wrong = |path: &str, message: String, help: &str| {
            Err(InputError::at_path(L::L020, label, path, message, help))
        };
        if let Some((name, _)) = degrees.into_iter().find(|&(_, degree)| degree == 0) {
            return wrong(name, format!("`{name}` is 0"), "give at least 1");
        }
        for kind in &model.kinds {
            let heads = heads(&kind.mixer);
            if !heads.is_multiple_of(self.tensor) {
                let message = format!("{heads} heads cannot be divided among {} devices", self.tensor);
                return wrong("tp", message, "choose a degree that divides the heads");
            }
            let Some(experts) = &kind.experts else { continue };
            if !experts.count.is_multiple_of(self.experts) {
                let message =
                    format!("{} experts cannot be divided into {} groups", experts.count, self.experts);
                return wrong("moe_ep", message, "choose a degree that divides the experts");
            }
            let devices = self.expert_tensor.saturating_mul(self.experts);
            if devices != self.devices() {
                let message = format!(
                    "attention has {} devices and experts have {devices}: tp {} times dp {} is not moe_tp {} times moe_ep {}",
                    self.devices(),
                    self.tensor,
                    self.data,
                    self.expert_tensor,
                    self.experts
                );
                return wrong("moe_tp", message, "let both products be the number of devices");
            }
        }
        Ok(())
    }
}

/// Heads that tensor parallelism divides; 0, which any degree divides, without any.
fn heads(mixer: &Mixer) -> u64 {
    match mixer {
        Mixer::Attention(attention) => attention.heads,
        Mixer::Latent(latent) => latent.heads,
        Mixer::Compressed(compressed) => compressed.heads,
        Mixer::Linear(linear) => linear.value_heads,
        Mixer::StateSpace(space) => space.heads,
        Mixer::Convolution(convolution) => convolution.width,
        Mixer::None => 0,
    }
}
