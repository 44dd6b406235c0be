//! Quantisation of a configuration: which tensors are stored in fewer bits, and how.

use super::config::Config;
use crate::encoding::Encoding;
use crate::tensor::Role;
use stagewright_formats::Result;

/// How the tensors of a checkpoint are encoded.
#[derive(Debug, Clone)]
pub(super) struct Scheme {
    /// Encoding of what is not quantised.
    plain: Encoding,
    cache: Option<Encoding>,
}

impl Scheme {
    /// Encoding of a tensor by its name, role and shape.
    pub(super) fn encoding(&self, _name: &str, _role: Role, _shape: &[u64]) -> Encoding {
        self.plain
    }

    /// Encoding of cached keys and values that the checkpoint asks for.
    pub(super) fn cache(&self) -> Option<Encoding> {
        self.cache
    }
}

/// Reads the number format and the quantisation of a configuration.
pub(super) fn read(config: &Config, _beside: Option<&Config>) -> Result<Scheme> {
    let plain = match config.text("dtype").or_else(|| config.text("torch_dtype")) {
        Some("float32") => Encoding::F32,
        Some("float16") => Encoding::F16,
        _ => Encoding::BF16,
    };
    Ok(Scheme { plain, cache: None })
}
