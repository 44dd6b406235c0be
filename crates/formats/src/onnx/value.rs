//! Known properties of a value: its element type, its shape, and its content if small and constant.

use stagewright_core::document::Precision;

use super::proto::TensorProto;
use super::proto::tensor_proto::{DataLocation, DataType};

/// Largest number of elements of a value with content: shapes are computed from lists with one or two entries
/// per dimension. Every node may make one, so its content should not be much larger than the node itself.
pub(super) const MAX_CONTENT: usize = 2 * LARGEST_RANK;

/// Largest dimension: larger ones are mistakes or attacks, and products of few such dimensions leave the
/// exact range of `f64`.
pub(super) const LARGEST_DIM: u64 = 1 << 40;

/// Largest rank of a shape.
pub(super) const LARGEST_RANK: usize = 64;

/// A value of the graph. Content is in row-major order; integers beyond 2⁵³ are rounded, which only affects
/// ends of slices that mean "to the end of the axis".
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Value {
    pub(super) elem: i32,
    pub(super) dims: Vec<u64>,
    pub(super) content: Option<Vec<f64>>,
}

impl Value {
    pub(super) fn new(elem: i32, dims: Vec<u64>) -> Self {
        Value { elem, dims, content: None }
    }

    /// A list of integers, such as a shape.
    pub(super) fn integers(content: Vec<f64>) -> Self {
        Value { elem: DataType::Int64 as i32, dims: vec![content.len() as u64], content: Some(content) }
    }

    /// Adds content, unless it is too long, does not fill the shape, or has a number that is not finite, such as after
    /// a division by zero: no size follows from that.
    pub(super) fn with(mut self, content: Option<Vec<f64>>) -> Self {
        let fits = |content: &Vec<f64>| {
            content.len() <= MAX_CONTENT
                && content.len() as f64 == super::work::elements(&self.dims)
                && content.iter().all(|number| number.is_finite())
        };
        self.content = content.filter(fits);
        self
    }

    /// Size in bytes; `None` if elements have no fixed size.
    pub(super) fn bytes(&self) -> Option<f64> {
        Some((super::work::elements(&self.dims) * bits(self.elem)? / 8.0).ceil())
    }

    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }
}

/// Element type by its number in the file.
pub(super) fn elem(value: i32) -> DataType {
    DataType::try_from(value).unwrap_or(DataType::Undefined)
}

/// Bits per element.
fn bits(value: i32) -> Option<f64> {
    use DataType::*;
    Some(match elem(value) {
        Undefined | String => return None,
        Uint2 | Int2 => 2.0,
        Uint4 | Int4 | Float4e2m1 => 4.0,
        Float6e2m3 | Float6e3m2 => 6.0,
        Bool | Uint8 | Int8 | Float8e4m3fn | Float8e4m3fnuz | Float8e5m2 | Float8e5m2fnuz | Float8e8m0 => 8.0,
        Uint16 | Int16 | Float16 | Bfloat16 => 16.0,
        Float | Uint32 | Int32 => 32.0,
        Double | Uint64 | Int64 | Complex64 => 64.0,
        Complex128 => 128.0,
    })
}

/// Whether elements are integers, whose division truncates.
pub(super) fn is_integer(value: i32) -> bool {
    use DataType::*;
    matches!(elem(value), Uint8 | Int8 | Uint16 | Int16 | Int32 | Int64 | Uint32 | Uint64)
}

/// Whether a constant of this type is a parameter: indices, shapes and masks are not.
pub(super) fn is_parameter(value: i32) -> bool {
    use DataType::*;
    !matches!(elem(value), Int32 | Int64 | Uint32 | Uint64 | Bool | String | Undefined)
}

/// Precision of an element type; `None` if operators do not compute with it.
pub(super) fn precision(value: i32) -> Option<Precision> {
    use DataType::*;
    Some(match elem(value) {
        Double => Precision::Fp64,
        Float => Precision::Fp32,
        Float16 => Precision::Fp16,
        Bfloat16 => Precision::Bf16,
        Float8e4m3fn | Float8e4m3fnuz | Float8e5m2 | Float8e5m2fnuz => Precision::Fp8,
        Int8 | Uint8 => Precision::Int8,
        Int4 | Uint4 => Precision::Int4,
        _ => return None,
    })
}

/// Element type after casting floating-point numbers; integers keep theirs.
pub(super) fn cast(value: i32, to: Option<Precision>) -> i32 {
    use DataType::*;
    let Some(to) = to.filter(|_| matches!(elem(value), Double | Float | Float16 | Bfloat16)) else {
        return value;
    };
    (match to {
        Precision::Fp64 => Double,
        Precision::Fp32 | Precision::Tf32 => Float,
        Precision::Fp16 => Float16,
        Precision::Bf16 => Bfloat16,
        Precision::Fp8 => Float8e4m3fn,
        Precision::Fp4 => Float4e2m1,
        Precision::Int8 => Int8,
        Precision::Int4 => Int4,
    }) as i32
}

/// Value of a tensor of the file; `None` if its shape is invalid.
pub(super) fn of_tensor(tensor: &TensorProto) -> Option<Value> {
    let dims = dims(tensor.dims.iter().copied())?;
    let value = Value::new(tensor.data_type(), dims);
    if tensor.data_location() == DataLocation::External {
        return Some(value);
    }
    Some(value.with(content(tensor)))
}

/// Checks dimensions and their number.
pub(super) fn dims(dims: impl ExactSizeIterator<Item = i64>) -> Option<Vec<u64>> {
    if dims.len() > LARGEST_RANK {
        return None;
    }
    dims.map(|dim| u64::try_from(dim).ok().filter(|&dim| dim <= LARGEST_DIM)).collect()
}

/// Content of a tensor, for the types of shapes and scales.
fn content(tensor: &TensorProto) -> Option<Vec<f64>> {
    fn raw<const N: usize>(bytes: &[u8], read: fn([u8; N]) -> f64) -> Option<Vec<f64>> {
        let (chunks, rest) = bytes.as_chunks::<N>();
        (rest.is_empty() && chunks.len() <= MAX_CONTENT)
            .then(|| chunks.iter().map(|&chunk| read(chunk)).collect())
    }
    let kind = elem(tensor.data_type());
    if let Some(bytes) = tensor.raw_data.as_deref() {
        return match kind {
            DataType::Int64 => raw(bytes, |bytes| i64::from_le_bytes(bytes) as f64),
            DataType::Int32 => raw(bytes, |bytes| f64::from(i32::from_le_bytes(bytes))),
            DataType::Float => raw(bytes, |bytes| f64::from(f32::from_le_bytes(bytes))),
            DataType::Double => raw(bytes, f64::from_le_bytes),
            DataType::Bool => raw(bytes, |[byte]| f64::from(byte)),
            _ => None,
        };
    }
    Some(match kind {
        DataType::Int64 => tensor.int64_data.iter().map(|&number| number as f64).collect(),
        DataType::Int32 | DataType::Bool => {
            tensor.int32_data.iter().map(|&number| f64::from(number)).collect()
        }
        DataType::Float => tensor.float_data.iter().map(|&number| f64::from(number)).collect(),
        DataType::Double => tensor.double_data.clone(),
        _ => return None,
    })
}
