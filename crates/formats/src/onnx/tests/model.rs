//! Builder of small models.

use prost::Message;

use super::super::proto::tensor_proto::DataType;
use super::super::proto::tensor_shape_proto::{Dimension, dimension};
use super::super::proto::type_proto::{self, Tensor};
use super::super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto,
};

/// A model under construction.
pub(super) struct Model {
    pub(super) proto: ModelProto,
}

/// A dimension of an input.
#[derive(Clone, Copy)]
pub(super) enum Dim {
    Of(i64),
    Named(&'static str),
}

impl Model {
    pub(super) fn new(opset: i64) -> Self {
        let proto = ModelProto {
            ir_version: Some(8),
            opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(opset) }],
            graph: Some(GraphProto { name: Some("test".into()), ..GraphProto::default() }),
            ..ModelProto::default()
        };
        Model { proto }
    }

    pub(super) fn graph(&mut self) -> &mut GraphProto {
        self.proto.graph.as_mut().expect("made with one")
    }

    pub(super) fn input(&mut self, name: &str, dims: &[Dim]) -> &mut Self {
        let info = value_info(name, dims);
        self.graph().input.push(info);
        self
    }

    /// A weight without values, as if stored in a file beside the model.
    pub(super) fn weight(&mut self, name: &str, dims: &[i64]) -> &mut Self {
        let tensor = TensorProto {
            name: Some(name.into()),
            dims: dims.to_vec(),
            data_type: Some(DataType::Float as i32),
            data_location: Some(1),
            ..TensorProto::default()
        };
        self.graph().initializer.push(tensor);
        self
    }

    /// An input of a type other than 32-bit floats.
    pub(super) fn typed_input(&mut self, name: &str, elem: DataType, dims: &[Dim]) -> &mut Self {
        let mut info = value_info(name, dims);
        if let Some(type_proto::Value::TensorType(tensor)) =
            info.r#type.as_mut().and_then(|kind| kind.value.as_mut())
        {
            tensor.elem_type = Some(elem as i32);
        }
        self.graph().input.push(info);
        self
    }

    /// A weight of a type other than 32-bit floats.
    pub(super) fn typed_weight(&mut self, name: &str, elem: DataType, dims: &[i64]) -> &mut Self {
        self.weight(name, dims);
        if let Some(tensor) = self.graph().initializer.last_mut() {
            tensor.data_type = Some(elem as i32);
        }
        self
    }

    /// An integer scalar.
    pub(super) fn scalar(&mut self, name: &str, value: i64) -> &mut Self {
        self.integers(name, &[value]);
        if let Some(tensor) = self.graph().initializer.last_mut() {
            tensor.dims.clear();
        }
        self
    }

    /// An output of the model.
    pub(super) fn output(&mut self, name: &str) -> &mut Self {
        let info = ValueInfoProto { name: Some(name.into()), ..ValueInfoProto::default() };
        self.graph().output.push(info);
        self
    }

    /// A node of ONNX Runtime's own operators.
    pub(super) fn contrib(
        &mut self,
        kind: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> &mut Self {
        self.node(kind, inputs, outputs, attributes);
        if let Some(node) = self.graph().node.last_mut() {
            node.domain = Some("com.microsoft".into());
        }
        self
    }

    /// The graph recorded so far, as the body of a node; its inputs are those of the body.
    pub(super) fn body(&mut self, name: &str) -> AttributeProto {
        AttributeProto {
            name: Some(name.into()),
            g: self.proto.graph.clone(),
            r#type: Some(attribute_proto::AttributeType::Graph as i32),
            ..AttributeProto::default()
        }
    }

    /// A list of integers, in raw bytes as exporters write them.
    pub(super) fn integers(&mut self, name: &str, values: &[i64]) -> &mut Self {
        let tensor = TensorProto {
            name: Some(name.into()),
            dims: vec![values.len() as i64],
            data_type: Some(DataType::Int64 as i32),
            raw_data: Some(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            ..TensorProto::default()
        };
        self.graph().initializer.push(tensor);
        self
    }

    pub(super) fn node(
        &mut self,
        kind: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> &mut Self {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        self.graph().node.push(NodeProto {
            op_type: Some(kind.into()),
            input: own(inputs),
            output: own(outputs),
            attribute: attributes,
            ..NodeProto::default()
        });
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.proto.encode_to_vec()
    }
}

pub(super) fn value_info(name: &str, dims: &[Dim]) -> ValueInfoProto {
    let dim = |dim: &Dim| Dimension {
        value: Some(match dim {
            Dim::Of(size) => dimension::Value::DimValue(*size),
            Dim::Named(name) => dimension::Value::DimParam((*name).into()),
        }),
        ..Dimension::default()
    };
    let shape = TensorShapeProto { dim: dims.iter().map(dim).collect() };
    let tensor = Tensor { elem_type: Some(DataType::Float as i32), shape: Some(shape) };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(tensor)),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    }
}

pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        i: Some(value),
        r#type: Some(attribute_proto::AttributeType::Int as i32),
        ..AttributeProto::default()
    }
}

pub(super) fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        ints: values.to_vec(),
        r#type: Some(attribute_proto::AttributeType::Ints as i32),
        ..AttributeProto::default()
    }
}
