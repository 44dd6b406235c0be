//! How a file stores a tensor, from the types and shapes of its parts.

use super::header::{Dtype, Entry};
use super::place::Part;
use crate::encoding::{Encoding, elements};
use crate::tensor::Tensor;

/// Parts of a tensor that files hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Stored {
    /// Bytes of all parts.
    pub(super) bytes: u64,
    /// Type and bits of the weights, once known.
    weights: Option<(Dtype, u64)>,
    /// Whether integers are packed, as for AWQ and GPTQ.
    packed: bool,
    /// Bits of a scale, and shape of the scales of a matrix.
    scales: Option<(u64, Vec<u64>)>,
    zeros: bool,
    order: bool,
}

impl Stored {
    /// Adds a part; `single` if it is that of one expert.
    ///
    /// # Errors
    /// If its shape contradicts that of the tensor; the error says how.
    pub(super) fn add(
        &mut self,
        tensor: &Tensor,
        single: bool,
        part: Part,
        entry: &Entry,
    ) -> std::result::Result<(), String> {
        self.bytes = self.bytes.saturating_add(entry.bytes);
        match part {
            Part::Weight | Part::Packed => {
                let bits = stored_bits(tensor, single, part, entry)?;
                match self.weights.replace((entry.dtype, bits)) {
                    Some((dtype, _)) if dtype != entry.dtype => {
                        return Err(format!("is in {} and {}", dtype.name(), entry.dtype.name()));
                    }
                    _ => {}
                }
                self.packed |= part == Part::Packed;
            }
            Part::Scales => {
                let matrices = if single || tensor.shape.len() < 3 { 0 } else { tensor.shape.len() - 2 };
                let shape = entry.shape.get(matrices..).unwrap_or_default().to_vec();
                self.scales = Some((entry.dtype.bits(), shape));
            }
            Part::Zeros => self.zeros = true,
            Part::Order => self.order = true,
            Part::Beside => {}
        }
        Ok(())
    }

    /// Encoding of the tensor: that of its type without scales; with scales, the derived one if it has as many bits, or else
    /// that of the scales' shape.
    ///
    /// # Errors
    /// If no encoding is stored so; the error says how.
    pub(super) fn encoding(&self, tensor: &Tensor) -> std::result::Result<Encoding, String> {
        let Some((dtype, bits)) = self.weights else { return Ok(tensor.encoding) };
        let name = dtype.name();
        if tensor.encoding.is_scaled() && tensor.encoding.bits() == bits && self.scales.is_some() {
            return Ok(tensor.encoding);
        }
        let Some((scale_bits, scales)) = &self.scales else {
            let alone = dtype.encoding().filter(|encoding| encoding.bits() == bits);
            return alone.ok_or_else(|| format!("has {bits}-bit weights in {name} and no scales"));
        };
        let inferred = self.inferred(tensor, [bits, *scale_bits], dtype, scales);
        inferred.ok_or_else(|| {
            format!("has {bits}-bit weights in {name} with scales of the unknown shape {scales:?}")
        })
    }

    /// Encoding of weights and scales of some bits, from the shape of the scales.
    fn inferred(
        &self,
        tensor: &Tensor,
        [bits, scale_bits]: [u64; 2],
        dtype: Dtype,
        scales: &[u64],
    ) -> Option<Encoding> {
        let [.., rows, columns] = tensor.shape[..] else { return None };
        let count = elements(scales)?;
        let width = u8::try_from(bits).ok().filter(|bits| (2..=8).contains(bits))?;
        let group =
            u32::try_from(rows.checked_mul(columns)?.checked_div(count)?).ok().filter(|&group| group > 0);
        if bits == 8 && !self.packed {
            let is_float = !dtype.is_integer();
            let side = |length: u64, blocks: u64| u32::try_from(length.div_ceil(blocks.max(1))).ok();
            return match (count, scales) {
                (1, _) => Some(Encoding::per_tensor(8, is_float)),
                _ if count == rows => Some(Encoding::per_channel(8, is_float)),
                _ if scale_bits == 8 && is_float && group == Some(32) => Encoding::named("mxfp8"),
                (_, &[down, across]) => {
                    Encoding::tiled(8, is_float, side(rows, down)?, side(columns, across)?)
                }
                _ => None,
            };
        }
        match (self.packed && (dtype.bits() == 32 || self.zeros), bits, group?) {
            (false, 4, 16) => Encoding::named("nvfp4_tensor"),
            (false, 4, 32) => Encoding::named("mxfp4"),
            (false, 4, 64) => Encoding::named(if scale_bits == 8 { "bnb4_double" } else { "bnb4" }),
            (true, _, group) if self.order => Encoding::ordered(width, group),
            (true, _, group) if self.zeros => Encoding::grouped(width, group),
            (true, _, group) => Encoding::symmetric(width, group),
            _ => None,
        }
    }
}

/// Bits of a stored weight.
///
/// Weights have the shape of the tensor, up to dimensions of 1; those of stacked experts may have the inputs before the
/// outputs. Packed ones have another shape with as many bits as 2 to 8 for each weight.
fn stored_bits(tensor: &Tensor, single: bool, part: Part, entry: &Entry) -> std::result::Result<u64, String> {
    let shape = if single { tensor.shape.get(1..).unwrap_or_default() } else { &tensor.shape[..] };
    if part == Part::Weight && same(shape, &entry.shape) {
        return Ok(entry.dtype.bits());
    }
    if let (true, Part::Weight, &[experts, outputs, inputs]) = (tensor.role.is_expert(), part, shape)
        && same(&[experts, inputs, outputs], &entry.shape)
    {
        return Ok(entry.dtype.bits());
    }
    let numbers = elements(shape).filter(|&numbers| numbers > 0);
    let bits = numbers.zip(entry.bytes.checked_mul(8)).filter(|(numbers, all)| all.is_multiple_of(*numbers));
    match bits.map(|(numbers, all)| all / numbers) {
        Some(bits) if (2..=8).contains(&bits) && entry.dtype.is_integer() => Ok(bits),
        _ => Err(format!(
            "has the shape {:?} in {}, and the configuration gives it {shape:?}",
            entry.shape,
            entry.dtype.name()
        )),
    }
}

fn same(left: &[u64], right: &[u64]) -> bool {
    let sides = |shape: &[u64]| shape.iter().copied().filter(|&side| side != 1).collect::<Vec<_>>();
    sides(left) == sides(right)
}
