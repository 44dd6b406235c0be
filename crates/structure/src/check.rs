//! Checks of a structure, whatever it was read from.

use serde_json::{Value, json};
use stagewright_formats::code::M;
use stagewright_formats::{At, InputError, Result};

use crate::structure::Structure;

/// Maximum number of layers of a model with its towers.
pub(crate) const MOST_LAYERS: usize = 1 << 14;
/// Largest width or count of a structure, so that products of two cannot overflow.
const LARGEST: u64 = 1 << 28;
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

    /// Refuses widths and counts of which products could overflow.
    ///
    /// # Errors
    /// If one is above 2^28 (M015). The place is its path in the structure.
    pub(crate) fn check_widths(&self, label: &str) -> Result<()> {
        // Tensors are checked by their totals.
        let fields = json!({"hidden": self.hidden, "vocabulary": self.vocabulary, "context": self.context,
            "embedding": self.embedding, "layers": self.layers, "towers": self.towers, "other": self.other});
        let Some(path) = too_large(&fields) else { return Ok(()) };
        let message = format!("a width or count of the structure is larger than {LARGEST}");
        Err(InputError::at_path(
            M::M015,
            label,
            path,
            message,
            "check the value, or those that it follows from",
        ))
    }

    /// Refuses structures whose sizes no computation can hold.
    ///
    /// # Errors
    /// If there is no layer, or too many layers, weights or bytes, or a width is too large (M015).
    pub fn check(&self, label: &str) -> Result<()> {
        let fault = |message: String| {
            let help = "check the widths and the number of layers";
            InputError::new(M::M015, label, At::Whole, message, help)
        };
        let layers = self.layers.len() + self.towers.iter().map(|tower| tower.layers.len()).sum::<usize>();
        let layers = layers.saturating_add(usize::try_from(self.missing_predictions).unwrap_or(usize::MAX));
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
        self.check_widths(label)
    }
}

/// Path of the first number above [`LARGEST`].
fn too_large(value: &Value) -> Option<String> {
    let within = |key: String, value: &Value| {
        too_large(value).map(|inner| if inner.is_empty() { key.clone() } else { format!("{key}.{inner}") })
    };
    match value {
        Value::Number(number) => number.as_u64().is_some_and(|count| count > LARGEST).then(String::new),
        Value::Array(values) => {
            values.iter().enumerate().find_map(|(index, value)| within(index.to_string(), value))
        }
        Value::Object(map) => map.iter().find_map(|(key, value)| within(key.clone(), value)),
        _ => None,
    }
}
