//! Products of tokens with weights, and how they are divided among devices.

use stagewright_core::document::Precision;
use stagewright_structure::{Layer, Mixer, Role, Tensor};

use super::precision;

/// How a tensor is divided among the devices of a tensor-parallel group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Whole on every device.
    Whole,
    /// Evenly among all devices.
    Divided,
    /// Evenly among at most this number of devices, and copied beyond: heads of keys and values.
    Heads(u64),
}

impl Share {
    /// Devices among which the tensor is divided, of a group of a size.
    pub fn degree(self, devices: u64) -> f64 {
        match self {
            Share::Whole => 1.0,
            Share::Divided => devices as f64,
            Share::Heads(heads) => devices.min(heads.max(1)) as f64,
        }
    }
}

/// A product of tokens with a matrix of weights, or with several that are read alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    /// Number of weights; a token needs two FLOP for each.
    pub weights: f64,
    /// Bytes of the weights with their scales.
    pub bytes: f64,
    /// Precision of the operands.
    pub precision: Precision,
    /// How the weights are divided.
    pub share: Share,
}

impl Product {
    pub(super) fn new(tensor: &Tensor, share: Share) -> Product {
        let (weights, bytes) = (tensor.elements() as f64, tensor.bytes as f64);
        Product { weights, bytes, precision: precision(tensor), share }
    }
}

/// How engines divide the weights of a role.
pub(super) fn share(layer: &Layer, role: Role) -> Share {
    match role {
        Role::QueryDown | Role::KeyValueDown | Role::Router | Role::Indexer | Role::SharedRouter => {
            Share::Whole
        }
        Role::Key | Role::Value => match &layer.mixer {
            Mixer::Attention(attention) => Share::Heads(attention.kv_heads),
            _ => Share::Divided,
        },
        _ => Share::Divided,
    }
}
