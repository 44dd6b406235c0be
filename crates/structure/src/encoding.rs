//! Encodings of weights and caches: plain numbers, block formats of llama.cpp, and quantised formats with scales.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How numbers are stored: blocks of a fixed size, and possibly scales beside them.
///
/// In documents an encoding is its name, as in `bf16`, `q4_k` or `fp8_128x128`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Encoding(Form);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Form {
    /// A row of [`NAMED`].
    Named(u8),
    /// Numbers of some bits with a scale for a block of `rows` by `columns`, which is [`WHOLE`] for a whole dimension;
    /// possibly a zero point for each block, and the number of the group of each input.
    Scaled {
        bits: u8,
        is_float: bool,
        rows: u32,
        columns: u32,
        scale_bytes: u8,
        zero_bits: u8,
        ordered: bool,
    },
}

/// Side of a block that spans a dimension, whatever its size.
const WHOLE: u32 = u32::MAX;

/// Name, numbers in a block, bytes of a block. Block formats are those of `ggml`, by its `ggml_type_name`; a row of a
/// tensor is a whole number of blocks.
const NAMED: &[(&str, u64, u64)] = &[
    ("f64", 1, 8),
    ("f32", 1, 4),
    ("f16", 1, 2),
    ("bf16", 1, 2),
    ("fp8", 1, 1),
    ("i64", 1, 8),
    ("i32", 1, 4),
    ("i16", 1, 2),
    ("i8", 1, 1),
    ("u8", 1, 1),
    ("bool", 1, 1),
    ("q4_0", 32, 18),
    ("q4_1", 32, 20),
    ("q5_0", 32, 22),
    ("q5_1", 32, 24),
    ("q8_0", 32, 34),
    ("q8_1", 32, 36),
    ("q2_k", 256, 84),
    ("q3_k", 256, 110),
    ("q4_k", 256, 144),
    ("q5_k", 256, 176),
    ("q6_k", 256, 210),
    ("q8_k", 256, 292),
    ("iq2_xxs", 256, 66),
    ("iq2_xs", 256, 74),
    ("iq3_xxs", 256, 98),
    ("iq1_s", 256, 50),
    ("iq4_nl", 32, 18),
    ("iq3_s", 256, 110),
    ("iq2_s", 256, 82),
    ("iq4_xs", 256, 136),
    ("iq1_m", 256, 56),
    ("tq1_0", 256, 54),
    ("tq2_0", 256, 66),
    ("q1_0", 128, 18),
    // 32 numbers of 4 bits and a scale of 8 bits, as in the OCP microscaling formats.
    ("mxfp4", 32, 17),
    ("mxfp8", 32, 33),
    // 16 numbers of 4 bits and a scale of 8 bits, in blocks of 64 in GGUF files.
    ("nvfp4", 16, 9),
    // Numbers of 4 bits in bitsandbytes (nf4, fp4): 64 of them with a scale of 32 bits, or of 8 bits if scales are quantised
    // again.
    ("bnb4", 64, 36),
    ("bnb4_double", 64, 33),
    // `nvfp4` with a scale of 32 bits for a whole matrix besides, as checkpoints of Hugging Face store it.
    (NVFP4_TENSOR, 16, 9),
];

const NVFP4_TENSOR: &str = "nvfp4_tensor";

impl Encoding {
    /// 32-bit floating point.
    pub const F32: Encoding = Encoding(Form::Named(1));
    /// IEEE half precision.
    pub const F16: Encoding = Encoding(Form::Named(2));
    /// bfloat16.
    pub const BF16: Encoding = Encoding(Form::Named(3));
    /// 8-bit floating point, with no more than one scale for a whole tensor.
    pub const FP8: Encoding = Encoding(Form::Named(4));

    /// Finds an encoding by its name, as documents write it; `None` if there is no such encoding.
    ///
    /// ```
    /// use stagewright_structure::Encoding;
    /// let q4_k = Encoding::named("q4_k").expect("a block format of llama.cpp");
    /// assert_eq!(q4_k.bytes(&[4096, 4096]), Some(4096 * 4096 / 256 * 144));
    /// // 8-bit numbers, and a 32-bit scale for every block of 128 by 128.
    /// let scaled = Encoding::named("fp8_128x128").expect("scaled blocks");
    /// assert_eq!(scaled.bytes(&[256, 384]), Some(256 * 384 + 2 * 3 * 4));
    /// ```
    pub fn named(name: &str) -> Option<Encoding> {
        if let Some(index) = NAMED.iter().position(|&(known, ..)| known == name) {
            return Some(Encoding(Form::Named(index as u8)));
        }
        let (kind, block) = name.split_once('_')?;
        let (is_float, bits) = match kind.strip_prefix("fp") {
            Some(bits) => (true, bits),
            None => (false, kind.strip_prefix("int")?),
        };
        let bits = bits.parse().ok().filter(|bits| matches!(bits, 2..=8))?;
        match block {
            "tensor" => return Some(Encoding::per_tensor(bits, is_float)),
            "channel" => return Some(Encoding::per_channel(bits, is_float)),
            _ => {}
        }
        if let Some(columns) = block.strip_prefix('g').filter(|_| !is_float) {
            return match (columns.strip_suffix('s'), columns.strip_suffix('i')) {
                (Some(columns), _) => Encoding::symmetric(bits, columns.parse().ok()?),
                (_, Some(columns)) => Encoding::ordered(bits, columns.parse().ok()?),
                _ => Encoding::grouped(bits, columns.parse().ok()?),
            };
        }
        let (rows, columns) = block.split_once('x')?;
        Encoding::tiled(bits, is_float, rows.parse().ok()?, columns.parse().ok()?)
    }

    /// Integers of some bits, with a 16-bit scale and a zero point for every `columns` inputs, as AWQ stores them; `None` if
    /// the group is empty.
    pub fn grouped(bits: u8, columns: u32) -> Option<Encoding> {
        Encoding::group(bits, columns, bits, false)
    }

    /// Integers of some bits, with a 16-bit scale for every `columns` inputs and no zero points; `None` if the group is
    /// empty.
    pub fn symmetric(bits: u8, columns: u32) -> Option<Encoding> {
        Encoding::group(bits, columns, 0, false)
    }

    /// Integers of some bits, with a 16-bit scale and a zero point for every `columns` inputs, and a 32-bit number of the
    /// group of every input, as GPTQ stores them; `None` if the group is empty.
    pub fn ordered(bits: u8, columns: u32) -> Option<Encoding> {
        Encoding::group(bits, columns, bits, true)
    }

    fn group(bits: u8, columns: u32, zero_bits: u8, ordered: bool) -> Option<Encoding> {
        let form =
            Form::Scaled { bits, is_float: false, rows: 1, columns, scale_bytes: 2, zero_bits, ordered };
        (columns > 0 && columns < WHOLE).then_some(Encoding(form))
    }

    /// Numbers of some bits, with a 32-bit scale for every block of `rows` by `columns`; `None` if the block is empty.
    pub fn tiled(bits: u8, is_float: bool, rows: u32, columns: u32) -> Option<Encoding> {
        let filled = |side: u32| side > 0 && side < WHOLE;
        (filled(rows) && filled(columns)).then_some(Encoding::scaled(bits, is_float, rows, columns, 4))
    }

    /// Numbers of some bits, with a 16-bit scale for every output.
    pub fn per_channel(bits: u8, is_float: bool) -> Encoding {
        Encoding::scaled(bits, is_float, 1, WHOLE, 2)
    }

    /// Numbers of some bits, with a 32-bit scale for a whole matrix.
    pub fn per_tensor(bits: u8, is_float: bool) -> Encoding {
        Encoding::scaled(bits, is_float, WHOLE, WHOLE, 4)
    }

    fn scaled(bits: u8, is_float: bool, rows: u32, columns: u32, scale_bytes: u8) -> Encoding {
        Encoding(Form::Scaled { bits, is_float, rows, columns, scale_bytes, zero_bits: 0, ordered: false })
    }

    /// Name, as documents write it.
    pub fn name(self) -> Cow<'static, str> {
        let (bits, is_float, rows, columns, scale_bytes, zero_bits, ordered) = match self.0 {
            Form::Named(index) => return NAMED[usize::from(index)].0.into(),
            Form::Scaled { bits, is_float, rows, columns, scale_bytes, zero_bits, ordered } => {
                (bits, is_float, rows, columns, scale_bytes, zero_bits, ordered)
            }
        };
        let kind = if is_float { "fp" } else { "int" };
        match (rows, columns) {
            (WHOLE, _) => format!("{kind}{bits}_tensor"),
            (_, WHOLE) => format!("{kind}{bits}_channel"),
            _ if ordered => format!("{kind}{bits}_g{columns}i"),
            _ if zero_bits > 0 => format!("{kind}{bits}_g{columns}"),
            _ if scale_bytes == 2 => format!("{kind}{bits}_g{columns}s"),
            _ => format!("{kind}{bits}_{rows}x{columns}"),
        }
        .into()
    }

    /// Bits of a stored number, without its share of scales: whole bits of a block format.
    pub(crate) fn bits(self) -> u64 {
        match self.0 {
            Form::Named(index) => {
                let (_, block, bytes) = NAMED[usize::from(index)];
                bytes * 8 / block
            }
            Form::Scaled { bits, .. } => u64::from(bits),
        }
    }

    /// Whether numbers have scales, so that a file may hold several tensors for one.
    pub(crate) fn is_scaled(self) -> bool {
        match self.0 {
            Form::Named(index) => NAMED[usize::from(index)].1 > 1,
            Form::Scaled { .. } => true,
        }
    }

    /// Bytes of a tensor with its scales: the last dimension counts the inputs of a product, the one before it the
    /// outputs. `None` if a row is no whole number of blocks, or if the number overflows.
    pub fn bytes(self, shape: &[u64]) -> Option<u64> {
        let columns = shape.last().copied().unwrap_or(1);
        let elements = elements(shape)?;
        let rows = if shape.len() > 1 { shape[shape.len() - 2] } else { 1 };
        let matrices = elements.checked_div(rows.checked_mul(columns)?).unwrap_or(0);
        match self.0 {
            Form::Named(index) => {
                let (name, block, bytes) = NAMED[usize::from(index)];
                let beside = if name == NVFP4_TENSOR { matrices.checked_mul(4)? } else { 0 };
                let blocks = columns.is_multiple_of(block).then_some(elements / block)?;
                blocks.checked_mul(bytes)?.checked_add(beside)
            }
            Form::Scaled {
                bits,
                rows: block_rows,
                columns: block_columns,
                scale_bytes,
                zero_bits,
                ordered,
                ..
            } => {
                let across = columns.div_ceil(u64::from(block_columns));
                let blocks =
                    rows.div_ceil(u64::from(block_rows)).checked_mul(across)?.checked_mul(matrices)?;
                let weights = elements.checked_mul(u64::from(bits))?.div_ceil(8);
                let scales = blocks.checked_mul(u64::from(scale_bytes))?;
                let zeros = blocks.checked_mul(u64::from(zero_bits))?.div_ceil(8);
                let order = if ordered { columns.checked_mul(matrices)?.checked_mul(4)? } else { 0 };
                weights.checked_add(scales)?.checked_add(zeros)?.checked_add(order)
            }
        }
    }

    /// Bytes of a number, with its share of a scale for a block.
    pub fn bytes_per_number(self) -> f64 {
        match self.0 {
            Form::Named(index) => {
                let (_, block, bytes) = NAMED[usize::from(index)];
                bytes as f64 / block as f64
            }
            Form::Scaled { bits, rows, columns, scale_bytes, zero_bits, .. } => {
                let beside = f64::from(scale_bytes) + f64::from(zero_bits) / 8.0;
                f64::from(bits) / 8.0 + beside / (f64::from(rows) * f64::from(columns))
            }
        }
    }
}

/// Number of elements of a shape; `None` if it overflows.
pub(crate) fn elements(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Encoding, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        Encoding::named(&name).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{name}` is no encoding of weights; write `bf16`, `q4_k`, `fp8_128x128`, `fp8_channel`, `int4_g128` or the like"
            ))
        })
    }
}

impl JsonSchema for Encoding {
    fn schema_name() -> Cow<'static, str> {
        "Encoding".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Name of an encoding: a plain number (bf16), a block format of llama.cpp (q4_k), numbers with a scale for a block of rows by columns (fp8_128x128), for an output (fp8_channel) or for a matrix (fp8_tensor), or integers with a scale and a zero point for a group of inputs (int4_g128; int4_g128s without zero points, int4_g128i with the group of every input)."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for &(name, block, bytes) in NAMED {
            let encoding = Encoding::named(name).unwrap();
            assert_eq!(encoding.name(), name);
            let beside = if name == NVFP4_TENSOR { 4 } else { 0 };
            assert_eq!(encoding.bytes(&[3, 2 * block]), Some(6 * bytes + beside));
        }
        for name in [
            "fp8_128x128",
            "int4_g128",
            "int8_1x64",
            "fp4_1x16",
            "int4_g32s",
            "int3_g128i",
            "fp8_tensor",
            "int8_channel",
        ] {
            assert_eq!(Encoding::named(name).unwrap().name(), name);
        }
        for name in [
            "",
            "fp",
            "fp8_",
            "fp8_0x1",
            "int4_g0",
            "int9_g128",
            "q4",
            "fp8_1x",
            "int4_g-1",
            "int_g128",
            "fp8_g128",
            "int4_gs",
            "fp8_1x4294967295",
        ] {
            assert_eq!(Encoding::named(name), None, "{name}");
        }
    }

    #[test]
    fn bytes_count_blocks_scales_and_zero_points() {
        let bytes = |name: &str, shape: &[u64]| Encoding::named(name).unwrap().bytes(shape);
        assert_eq!(bytes("q6_k", &[10, 100]), None, "a row is no whole number of blocks");
        assert_eq!(bytes("int4_g128", &[64, 256]), Some(64 * 128 + 64 * 2 * 2 + 64));
        assert_eq!(bytes("fp8_128x128", &[5, 130, 200]), Some(5 * (130 * 200 + 2 * 2 * 4)));
        assert_eq!(bytes("int4_g128s", &[64, 256]), Some(64 * 128 + 64 * 2 * 2));
        assert_eq!(bytes("int4_g128i", &[3, 64, 256]), Some(3 * (64 * 128 + 64 * 2 * 2 + 64 + 4 * 256)));
        assert_eq!(bytes("fp8_tensor", &[5, 130, 200]), Some(5 * (130 * 200 + 4)), "a scale for each matrix");
        assert_eq!(bytes("fp8_channel", &[5, 130, 200]), Some(5 * (130 * 200 + 130 * 2)));
        assert_eq!(bytes("nvfp4_tensor", &[2, 8, 32]), Some(2 * (8 * 18 + 4)));
        assert_eq!(bytes("bf16", &[u64::MAX, 2]), None, "overflow");
        assert_eq!(bytes("bf16", &[]), Some(2));
    }
}
