//! Tensors of ONNX Runtime as bytes.

#![allow(unsafe_code, reason = "ONNX Runtime owns the memory of its tensors and hands out pointers")]

use ort::memory::Allocator;
use ort::value::{DynTensor, TensorElementType, ValueType};
use stagewright_formats::onnx::proto::tensor_proto::DataType;

/// A tensor that several threads may read.
#[derive(Debug)]
pub(crate) struct Tensor {
    value: DynTensor,
    /// Element type, as in ONNX.
    pub(crate) elem: i32,
    /// Shape.
    pub(crate) dims: Vec<u64>,
}

// SAFETY: a shared tensor is only read, through pointers that ONNX Runtime does not change during its life.
unsafe impl Sync for Tensor {}

/// Element types: number in ONNX, type of ONNX Runtime.
const ELEMENTS: [(DataType, TensorElementType); 19] = [
    (DataType::Float, TensorElementType::Float32),
    (DataType::Uint8, TensorElementType::Uint8),
    (DataType::Int8, TensorElementType::Int8),
    (DataType::Uint16, TensorElementType::Uint16),
    (DataType::Int16, TensorElementType::Int16),
    (DataType::Int32, TensorElementType::Int32),
    (DataType::Int64, TensorElementType::Int64),
    (DataType::Bool, TensorElementType::Bool),
    (DataType::Float16, TensorElementType::Float16),
    (DataType::Double, TensorElementType::Float64),
    (DataType::Uint32, TensorElementType::Uint32),
    (DataType::Uint64, TensorElementType::Uint64),
    (DataType::Bfloat16, TensorElementType::Bfloat16),
    (DataType::Float8e4m3fn, TensorElementType::Float8E4M3FN),
    (DataType::Float8e4m3fnuz, TensorElementType::Float8E4M3FNUZ),
    (DataType::Float8e5m2, TensorElementType::Float8E5M2),
    (DataType::Float8e5m2fnuz, TensorElementType::Float8E5M2FNUZ),
    (DataType::Uint4, TensorElementType::Uint4),
    (DataType::Int4, TensorElementType::Int4),
];

/// The type of ONNX Runtime for an element type of ONNX; `None` if its elements have no fixed size.
pub(crate) fn element(elem: i32) -> Option<TensorElementType> {
    ELEMENTS.iter().find(|(number, _)| *number as i32 == elem).map(|(_, element)| *element)
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// If elements have no fixed size, the size overflows, or there is no memory.
    pub(crate) fn zeros(elem: i32, dims: &[u64]) -> Result<Tensor, String> {
        let element = element(elem).ok_or("elements without a fixed size")?;
        let shape: Option<Vec<i64>> = dims.iter().map(|&dim| i64::try_from(dim).ok()).collect();
        let shape = shape.filter(|shape| {
            shape
                .iter()
                .try_fold(1_i64, |product, &dim| product.checked_mul(dim))
                .is_some_and(|count| count <= 1 << 48)
        });
        let shape = shape.ok_or("a tensor too large")?;
        let value =
            DynTensor::new(&Allocator::default(), element, shape).map_err(|error| error.to_string())?;
        Ok(Tensor { value, elem, dims: dims.to_vec() })
    }

    /// A tensor that a session made.
    ///
    /// # Errors
    /// If elements have no fixed size.
    pub(crate) fn made(value: DynTensor) -> Result<Tensor, String> {
        let ValueType::Tensor { ty, shape, .. } = value.dtype() else {
            return Err("a value that is not a tensor".into());
        };
        let elem = ELEMENTS.iter().find(|(_, element)| element == ty).map(|(number, _)| *number as i32);
        let elem = elem.ok_or("elements without a fixed size")?;
        let dims = shape.iter().map(|&dim| dim as u64).collect();
        Ok(Tensor { value, elem, dims })
    }

    /// The value, as the input of a session.
    pub(crate) fn value(&self) -> &DynTensor {
        &self.value
    }

    fn len(&self) -> usize {
        self.value.size().unwrap_or(0)
    }

    /// Content of the tensor, in row-major order.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.len() {
            0 => &[],
            // SAFETY: the tensor is in the memory of this process and has `len` bytes.
            len => unsafe { std::slice::from_raw_parts(self.value.data_ptr().cast(), len) },
        }
    }

    /// Content of the tensor, in row-major order, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self.len() {
            0 => &mut [],
            // SAFETY: as in `bytes`, and the tensor is borrowed exclusively.
            len => unsafe { std::slice::from_raw_parts_mut(self.value.data_ptr_mut().cast(), len) },
        }
    }
}
