//! Equal constants, of which a runtime holds only one.
//!
//! Two constants are equal if the file stores the same bytes for both, or if the same operator computes both from equal
//! constants with the same attributes: runtimes eliminate common subexpressions before they fold constants. So every
//! constant has the number of the first constant equal to it, and an expression is identified by its operator, its
//! attributes and the numbers of its inputs.
//!
//! Weights are exceptions. Equal bytes do not make two initialisers one weight: training makes them differ, and
//! runtimes allocate each. Two initialisers are one weight only if they are the same region of an external file.
//! Literals, in `Constant` nodes, are not trained, so equal literals are one constant. A constant computed from weights
//! equals only constants computed from the same weights.
//!
//! Operators outside the standard sets may draw random numbers, so their outputs equal no other constant.

use std::borrow::Cow;
use std::rc::Rc;

use prost::Message;
use sha2::{Digest, Sha256};

use super::domain;
use super::proto::tensor_proto::{DataLocation, DataType};
use super::proto::{AttributeProto, NodeProto, TensorProto};
use super::value::{Value, elem, is_integer};

/// Metadata key of a tensor, for the digest of values that were left out of it.
pub(super) const DIGEST: &str = "stagewright.digest";

/// Largest number of bytes by which a constant is identified; a larger one is identified by its digest.
const LONGEST_BYTES: usize = 1024;

/// Integers beyond this are rounded in the content of a value.
const EXACT: f64 = (1_u64 << 53) as f64;

/// Key of a constant: equal constants have equal keys.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    elem: i32,
    dims: Vec<u64>,
    source: Source,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Source {
    /// Small known content, in bits.
    Content(Vec<u64>),
    /// Bytes in the file, or their digest. A weight equals only other weights.
    Stored { bytes: Vec<u8>, is_weight: bool },
    /// A region of an external file.
    Region { file: String, offset: u64 },
    /// Output of an operator.
    Computed {
        /// Operator and attributes.
        call: Vec<u8>,
        opset: i64,
        output: usize,
        /// Numbers of the inputs.
        inputs: Vec<Option<usize>>,
        weights: Rc<[usize]>,
    },
}

impl Identity {
    fn new(value: &Value, source: Source) -> Identity {
        Identity { elem: value.elem, dims: value.dims.clone(), source }
    }

    /// Identity of a constant with small known content that is not a weight.
    pub(super) fn content(value: &Value) -> Option<Identity> {
        let content = value.content.as_ref()?;
        let is_exact = !is_integer(value.elem) || content.iter().all(|number| number.abs() < EXACT);
        let bits = || content.iter().map(|number| number.to_bits()).collect();
        is_exact.then(|| Identity::new(value, Source::Content(bits())))
    }

    /// Identity of a tensor whose values are in the file.
    pub(super) fn stored(value: &Value, tensor: &TensorProto, is_weight: bool) -> Option<Identity> {
        let bytes = bytes(tensor)?;
        Some(Identity::new(value, Source::Stored { bytes, is_weight }))
    }

    /// Identity of a tensor in an external file. A tensor with neither an offset nor a length has lost its data, and
    /// equals no other.
    pub(super) fn region(value: &Value, tensor: &TensorProto) -> Option<Identity> {
        let entry = |key: &str| {
            tensor.external_data.iter().find(|entry| entry.key() == key).map(|entry| entry.value())
        };
        let file = entry("location").filter(|file| !file.is_empty())?;
        let offset = entry("offset").or(entry("length").map(|_| "0"))?.parse().ok()?;
        let bytes = value.bytes()? as u64;
        let source = Source::Region { file: file.to_owned(), offset };
        // The same bytes may have another shape.
        Some(Identity { elem: value.elem, dims: vec![bytes], source })
    }

    /// Identity of an output of an operator whose inputs are the constants with these numbers.
    pub(super) fn computed(
        node: &NodeProto,
        opset: i64,
        output: usize,
        value: &Value,
        inputs: Vec<Option<usize>>,
        weights: &Rc<[usize]>,
    ) -> Option<Identity> {
        if !matches!(domain(node.domain()), "" | "com.microsoft") {
            return None;
        }
        let mut attributes: Vec<AttributeProto> = node.attribute.iter().map(normal).collect::<Option<_>>()?;
        attributes.sort_by(|left, right| left.name().cmp(right.name()));
        let call = NodeProto {
            op_type: node.op_type.clone(),
            domain: Some(domain(node.domain()).to_owned()),
            attribute: attributes,
            ..NodeProto::default()
        };
        let weights = Rc::clone(weights);
        Some(Identity::new(
            value,
            Source::Computed { call: call.encode_to_vec(), opset, output, inputs, weights },
        ))
    }
}

/// The tensor of a node `Constant`, made from the node's list of numbers if it has one.
pub(super) fn literal(node: &NodeProto) -> Option<Cow<'_, TensorProto>> {
    let list = |elem: DataType, length: usize| TensorProto {
        dims: vec![length as i64],
        data_type: Some(elem as i32),
        ..TensorProto::default()
    };
    node.attribute.iter().find_map(|attribute| match (&attribute.t, attribute.name()) {
        (Some(tensor), _) => Some(Cow::Borrowed(tensor)),
        (None, "value_floats") => {
            let numbers = &attribute.floats;
            let tensor = list(DataType::Float, numbers.len());
            Some(Cow::Owned(TensorProto { float_data: numbers.clone(), ..tensor }))
        }
        (None, "value_ints") => {
            let numbers = &attribute.ints;
            let tensor = list(DataType::Int64, numbers.len());
            Some(Cow::Owned(TensorProto { int64_data: numbers.clone(), ..tensor }))
        }
        _ => None,
    })
}

/// An attribute reduced to the fields that determine its value; `None` if its tensor has no values.
fn normal(attribute: &AttributeProto) -> Option<AttributeProto> {
    if attribute.t.is_none() && attribute.tensors.is_empty() {
        return Some(AttributeProto { doc_string: None, ..attribute.clone() });
    }
    let short = |tensor: &TensorProto| {
        Some(TensorProto {
            dims: tensor.dims.clone(),
            data_type: tensor.data_type,
            raw_data: Some(bytes(tensor)?),
            ..TensorProto::default()
        })
    };
    // An attribute has one value. Tensors are large, so they are not cloned with the rest.
    Some(AttributeProto {
        name: attribute.name.clone(),
        r#type: attribute.r#type,
        t: match &attribute.t {
            Some(tensor) => Some(short(tensor)?),
            None => None,
        },
        tensors: attribute.tensors.iter().map(short).collect::<Option<_>>()?,
        ..AttributeProto::default()
    })
}

/// The bytes of a tensor as they are in memory, or their digest; `None` if the file does not have all of them.
fn bytes(tensor: &TensorProto) -> Option<Vec<u8>> {
    if tensor.data_location() == DataLocation::External {
        return None;
    }
    if let Some(digest) = tensor.metadata_props.iter().find(|entry| entry.key() == DIGEST) {
        return Some(digest.value().as_bytes().to_vec());
    }
    let bytes = match &tensor.raw_data {
        Some(bytes) => Cow::Borrowed(bytes.as_slice()),
        None => Cow::Owned(typed(tensor)?),
    };
    let shape = super::value::dims(tensor.dims.iter().copied())?;
    let is_whole = Value::new(tensor.data_type(), shape).bytes() == Some(bytes.len() as f64);
    let is_long = bytes.len() > LONGEST_BYTES;
    is_whole.then(|| if is_long { Sha256::digest(&bytes).to_vec() } else { bytes.into_owned() })
}

/// The bytes of a tensor with values in the fields of their types.
fn typed(tensor: &TensorProto) -> Option<Vec<u8>> {
    fn little<T: Copy, const N: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        numbers.iter().flat_map(|&number| bytes(number)).collect()
    }
    use DataType::*;
    Some(match elem(tensor.data_type()) {
        Float => little(&tensor.float_data, f32::to_le_bytes),
        Double => little(&tensor.double_data, f64::to_le_bytes),
        Int64 => little(&tensor.int64_data, i64::to_le_bytes),
        Uint64 => little(&tensor.uint64_data, u64::to_le_bytes),
        Int32 => little(&tensor.int32_data, i32::to_le_bytes),
        Uint32 => little(&tensor.uint64_data, |number| (number as u32).to_le_bytes()),
        Int16 | Uint16 | Float16 | Bfloat16 => {
            little(&tensor.int32_data, |number| (number as u16).to_le_bytes())
        }
        Int8 | Uint8 | Bool => little(&tensor.int32_data, |number| [number as u8]),
        _ => return None,
    })
}
