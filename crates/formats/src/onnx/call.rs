//! A node with its inputs, as shape inference and cost rules see it.

use super::proto::{AttributeProto, NodeProto};
use super::value::{LARGEST_DIM, Value};

/// Reason why the outputs of a node cannot be inferred.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// The shape depends on data that is not in the file, or the operator is unknown.
    Unknown(String),
    /// The node is invalid.
    Contradiction(String),
}

/// Result of inferring a node's outputs.
pub(super) type Inferred<T = Vec<Value>> = Result<T, Fault>;

/// Returns `Fault::Contradiction` with a reason.
pub(super) fn contradiction<T>(why: impl Into<String>) -> Inferred<T> {
    Err(Fault::Contradiction(why.into()))
}

/// Returns `Fault::Unknown` with a reason.
pub(super) fn unknown<T>(why: impl Into<String>) -> Inferred<T> {
    Err(Fault::Unknown(why.into()))
}

/// A node with the values of its inputs; `None` for omitted ones.
pub(super) struct Call<'a> {
    pub(super) node: &'a NodeProto,
    pub(super) inputs: Vec<Option<&'a Value>>,
    /// Version of the operator set of the node's domain.
    pub(super) opset: i64,
}

impl<'a> Call<'a> {
    pub(super) fn kind(&self) -> &'a str {
        self.node.op_type()
    }

    /// A required input.
    pub(super) fn input(&self, index: usize) -> Inferred<&'a Value> {
        match self.optional(index) {
            Some(value) => Ok(value),
            None => contradiction(format!("input {index} is missing")),
        }
    }

    pub(super) fn optional(&self, index: usize) -> Option<&'a Value> {
        self.inputs.get(index).copied().flatten()
    }

    /// Content of an input.
    pub(super) fn content(&self, index: usize) -> Inferred<&'a [f64]> {
        match self.input(index)?.content.as_deref() {
            Some(content) => Ok(content),
            None => {
                unknown(format!("it depends on the content of input {index}, which is not a small constant"))
            }
        }
    }

    /// Content of an input if given, otherwise the numbers of an attribute, if any.
    pub(super) fn list(&self, index: usize, attribute: &str) -> Inferred<Option<Vec<i64>>> {
        match self.optional(index) {
            Some(_) => Ok(Some(self.content(index)?.iter().map(|&number| number as i64).collect())),
            None => Ok(self.ints(attribute).map(<[i64]>::to_vec)),
        }
    }

    fn attribute(&self, name: &str) -> Option<&'a AttributeProto> {
        self.node.attribute.iter().find(|attribute| attribute.name() == name)
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name)?.i
    }

    /// A size from an attribute.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        u64::try_from(self.int(name)?).ok().filter(|&size| size <= LARGEST_DIM)
    }

    pub(super) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.attribute(name).map(|attribute| attribute.ints.as_slice())
    }

    pub(super) fn floats(&self, name: &str) -> Option<&'a [f32]> {
        self.attribute(name).map(|attribute| attribute.floats.as_slice())
    }

    pub(super) fn float(&self, name: &str) -> Option<f32> {
        self.attribute(name)?.f
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.attribute(name)?.s.as_deref()?).ok()
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&'a super::proto::TensorProto> {
        self.attribute(name)?.t.as_ref()
    }

    /// A flag, which the format stores as 0 or 1.
    pub(super) fn flag(&self, name: &str, default: bool) -> bool {
        self.int(name).map_or(default, |value| value != 0)
    }

    /// Axis counted from 0; the file may count from the end.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Inferred<usize> {
        let from_start = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
        match from_start.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank) {
            Some(axis) => Ok(axis),
            None => contradiction(format!("axis {axis} is out of range for rank {rank}")),
        }
    }

    /// Axes counted from 0.
    pub(super) fn axes(&self, axes: &[i64], rank: usize) -> Inferred<Vec<usize>> {
        axes.iter().map(|&axis| self.axis(axis, rank)).collect()
    }

    /// Checks a computed dimension.
    pub(super) fn dim(&self, dim: i128) -> Inferred<u64> {
        match u64::try_from(dim).ok().filter(|&dim| dim <= LARGEST_DIM) {
            Some(dim) => Ok(dim),
            None => contradiction(format!("an output dimension would be {dim}")),
        }
    }
}
