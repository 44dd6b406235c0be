//! Configurations of layers: which tensors they keep for the backward pass, and where.

use stagewright_core::document::Parallelism;

use crate::joint::rules::Allowed;

/// Configuration of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Configuration {
    /// Keeps the tensors that the backward pass reads.
    None,
    /// Recomputes all operators except products.
    Selective,
    /// Recomputes all operators.
    Full,
    /// Keeps the tensors that the backward pass reads in the host's memory.
    Offload,
}

impl Configuration {
    /// All configurations, in the order of their numbers in an objective.
    pub(super) const ALL: [Configuration; 4] =
        [Configuration::None, Configuration::Selective, Configuration::Full, Configuration::Offload];

    /// Whether numbered layers of a plan that may recompute may be in the configuration: the given one, or any, but
    /// `offload` only if it is given or the plan may have states on the host as it likes.
    pub(super) fn is_allowed(self, allowed: Allowed) -> bool {
        match allowed.given(Parallelism::Recompute) {
            Some(given) => given == self as u32,
            None if self == Configuration::Offload => {
                allowed.has(Parallelism::Offload) && allowed.given(Parallelism::Offload).is_none()
            }
            None => true,
        }
    }

    /// The configuration of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Configuration::None),
            "selective" => Some(Configuration::Selective),
            "full" => Some(Configuration::Full),
            "offload" => Some(Configuration::Offload),
            _ => None,
        }
    }
}
