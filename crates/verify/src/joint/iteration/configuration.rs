//! Configurations of layers: which tensors they keep for the backward pass.

/// Configuration of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Configuration {
    /// Keeps the tensors that the backward pass reads.
    None,
    /// Recomputes all operators except products.
    Selective,
    /// Recomputes all operators.
    Full,
}

impl Configuration {
    /// The configuration of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Configuration::None),
            "selective" => Some(Configuration::Selective),
            "full" => Some(Configuration::Full),
            _ => None,
        }
    }
}
