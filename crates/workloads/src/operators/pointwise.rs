//! Operators on single elements or along the last dimension. An exponential, a root or a quotient
//! counts as one FLOP.

use crate::{Piece, Read, Record, Tape, Tensor};

/// An element-wise activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activation {
    /// max(x, 0).
    Relu,
    /// x · Φ(x), in the usual tanh approximation (Hendrycks and Gimpel 2016).
    Gelu,
    /// x · σ(x).
    Silu,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// (1 − e⁻²ˣ) / (1 + e⁻²ˣ).
    Tanh,
}

impl Activation {
    /// Kind, forward and backward FLOP per element, and the tensor that the gradient is computed
    /// from.
    pub(crate) fn costs(self) -> (&'static str, f64, f64, Read) {
        match self {
            Activation::Relu => ("relu", 1.0, 1.0, Read::Output),
            Activation::Gelu => ("gelu", 12.0, 20.0, Read::Input(0)),
            Activation::Silu => ("silu", 5.0, 9.0, Read::Input(0)),
            Activation::Sigmoid => ("sigmoid", 4.0, 3.0, Read::Output),
            Activation::Tanh => ("tanh", 5.0, 3.0, Read::Output),
        }
    }
}

impl Tape {
    /// Applies an activation function to each element.
    pub(crate) fn activate(&mut self, name: &str, x: Tensor, activation: Activation) -> Tensor {
        let (kind, forward, backward, saved) = activation.costs();
        let record = Record::new(kind, [x])
            .flop(forward * x.elements())
            .piece(Piece::whole(backward * x.elements(), &[saved]));
        self.record(name, record, x.shape)
    }

    /// `max(x, 0)`.
    pub(crate) fn relu(&mut self, name: &str, x: Tensor) -> Tensor {
        self.activate(name, x, Activation::Relu)
    }

    /// Softmax over the last dimension, scaling and masking included.
    pub(crate) fn softmax(&mut self, name: &str, x: Tensor) -> Tensor {
        self.record(name, softmax(x), x.shape)
    }

    /// Softmax of attention scores of which those of later tokens are hidden.
    pub(crate) fn causal_softmax(&mut self, name: &str, x: Tensor) -> Tensor {
        self.record(name, Record { causal: true, ..softmax(x) }, x.shape)
    }

    /// The sum of two tensors; the second may be broadcast to the shape of the first.
    pub(crate) fn add(&mut self, name: &str, a: Tensor, b: Tensor) -> Tensor {
        let record = Record::new("add", [a, b]).flop(a.elements()).passes(0);
        let record = if b.elements() < a.elements() {
            record.piece(Piece::of_inputs("grad_1", &[1], a.elements(), &[]))
        } else {
            record.passes(1)
        };
        self.record(name, record, a.shape)
    }

    /// The product of two tensors; the second may be broadcast to the shape of the first.
    pub(crate) fn multiply(&mut self, name: &str, a: Tensor, b: Tensor) -> Tensor {
        let sums = if b.elements() < a.elements() { 2.0 } else { 1.0 };
        let record = Record::new("multiply", [a, b])
            .flop(a.elements())
            .piece(Piece::of_inputs("grad_0", &[0], a.elements(), &[Read::Input(1)]))
            .piece(Piece::of_inputs("grad_1", &[1], sums * a.elements(), &[Read::Input(0)]));
        self.record(name, record, a.shape)
    }

    /// Rotary position embedding: rotates each pair of elements by an angle (Su et al. 2021).
    pub(crate) fn rotate(&mut self, name: &str, x: Tensor) -> Tensor {
        let flop = 3.0 * x.elements();
        let record = Record::new("rotary", [x]).flop(flop).piece(Piece::whole(flop, &[]));
        self.record(name, record, x.shape)
    }

    /// Adds a learned vector to the last dimension.
    pub(crate) fn bias(&mut self, name: &str, x: Tensor) -> Tensor {
        let width = x.last() as f64;
        let record = Record::new("add_bias", [x])
            .parameters(width)
            .flop(x.elements())
            .passes(0)
            .piece(Piece::of_weights(width, x.elements(), &[]));
        self.record(name, record, x.shape)
    }
}

fn softmax(x: Tensor) -> Record {
    Record::new("softmax", [x])
        .flop(6.0 * x.elements())
        .piece(Piece::whole(4.0 * x.elements(), &[Read::Output]))
}
