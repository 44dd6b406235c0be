//! Checks of a structure, whatever it was read from.

use stagewright_formats::code::M;
use stagewright_formats::{At, InputError, Result};

use crate::structure::Structure;

/// Maximum number of layers of a model with its towers.
pub(crate) const MOST_LAYERS: usize = 1 << 14;
/// Maximum number of bytes and of weights of a model: a 64-bit number holds sums of a few of them.
const MOST_BYTES: u64 = 1 << 56;

impl Structure {
    /// Number of weights, each tensor counted once.
    pub fn parameters(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.elements()).sum()
    }

    /// Bytes of all weights.
    pub fn weight_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    /// Refuses structures whose sizes no computation can hold.
    ///
    /// # Errors
    /// If there is no layer, or too many layers, weights or bytes (M015).
    pub fn check(&self, label: &str) -> Result<()> {
        let fault = |message: String| {
            let help = "check the widths and the number of layers";
            InputError::new(M::M015, label, At::Whole, message, help)
        };
        let layers = self.layers.len() + self.towers.iter().map(|tower| tower.layers.len()).sum::<usize>();
        if layers == 0 || layers > MOST_LAYERS {
            return Err(fault(format!("a model has between 1 and {MOST_LAYERS} layers, not {layers}")));
        }
        let mut total = 0u64;
        for tensor in &self.tensors {
            let elements = tensor.shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
            let largest =
                elements.map(|elements| elements.max(tensor.bytes)).filter(|&count| count <= MOST_BYTES);
            total = match largest.and_then(|count| total.checked_add(count)) {
                Some(sum) if sum <= MOST_BYTES => sum,
                _ => return Err(fault(format!("the tensor `{}` is absurdly large", tensor.name))),
            };
        }
        Ok(())
    }
}
