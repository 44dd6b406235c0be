//! Description of an operator: its cost and its gradient rule.
//!
//! A gradient rule has two parts. *Pieces* are operators of the backward pass; each reads the gradients of
//! all outputs, and possibly saved inputs, outputs or weights, and yields gradients of inputs or parameters.
//! Inputs that are *passed through* receive the gradient of the output unchanged and need no operator (both
//! sides of a sum, for example). The two products of a bilinear operator are separate pieces, since schedules
//! such as zero-bubble run the gradient of the weights apart from that of the inputs.

use std::num::NonZeroU32;

use stagewright_core::document::{self, KernelDocument};
use stagewright_core::graph::OpId;

use super::tensor::Tensor;

/// An operator with parameters, referenced by operators that share them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Owner(pub(super) OpId);

/// A tensor that a piece reads besides the gradients of the outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Read {
    /// An input.
    Input(usize),
    /// The first output.
    Output,
    /// A tensor that the forward operator saved for the backward pass alone.
    Saved,
    /// The parameters.
    Weights,
}

/// `batch` matrix products, each of m × k by k × n.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Product {
    pub(crate) batch: f64,
    pub(crate) m: f64,
    pub(crate) n: f64,
    pub(crate) k: f64,
}

impl Product {
    /// The product as kernels of a graph document; empty without a product or if a dimension is 0.
    pub(crate) fn kernels(product: Option<Product>) -> Vec<KernelDocument> {
        let kernel = |Product { batch, m, n, k }| KernelDocument::Product { batch, m, n, k };
        product.filter(|it| it.batch.min(it.m).min(it.n).min(it.k) > 0.0).map(kernel).into_iter().collect()
    }
}

/// Bytes of weights as a file stores them, where that is not the number format of the tape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stored {
    /// Bytes that the operator's own parameters occupy.
    pub(crate) held: f64,
    /// Bytes that the operator reads, of its own or of shared parameters.
    pub(crate) read: f64,
}

/// An operator of the backward pass.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// Suffix of the operator's name and kind.
    pub(crate) suffix: &'static str,
    pub(crate) flop: f64,
    pub(crate) product: Option<Product>,
    pub(crate) reads: Vec<Read>,
    /// Inputs whose gradients the operator yields.
    pub(crate) inputs: Vec<usize>,
    /// Elements of the gradient of the parameters, if the operator yields one.
    pub(crate) parameters: Option<f64>,
    pub(crate) workspace: f64,
}

impl Piece {
    /// A piece that computes the gradients of the given inputs.
    pub(crate) fn of_inputs(suffix: &'static str, inputs: &[usize], flop: f64, reads: &[Read]) -> Piece {
        Piece {
            suffix,
            flop,
            product: None,
            reads: reads.to_vec(),
            inputs: inputs.to_vec(),
            parameters: None,
            workspace: 0.0,
        }
    }

    /// A piece that computes the gradient of the only input, or of the first input if no other has a gradient.
    pub(crate) fn whole(flop: f64, reads: &[Read]) -> Piece {
        Piece::of_inputs("grad", &[0], flop, reads)
    }

    /// A piece that computes the gradient of the parameters.
    pub(crate) fn of_weights(elements: f64, flop: f64, reads: &[Read]) -> Piece {
        Piece { parameters: Some(elements), ..Piece::of_inputs("grad_weight", &[], flop, reads) }
    }

    /// Makes the piece compute the gradient of the parameters as well.
    pub(crate) fn and_weights(mut self, elements: f64) -> Piece {
        self.parameters = Some(elements);
        self
    }

    /// Computes the gradient by a matrix product.
    pub(crate) fn product(mut self, product: Product) -> Piece {
        self.product = Some(product);
        self
    }

    pub(crate) fn workspace(mut self, bytes: f64) -> Piece {
        self.workspace = bytes;
        self
    }
}

/// Builder of an operator; see `Tape::record`.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) kind: &'static str,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) parameters: f64,
    pub(crate) shared: Option<(Owner, f64)>,
    pub(crate) flop: f64,
    pub(crate) product: Option<Product>,
    pub(crate) moved: Option<f64>,
    pub(crate) workspace: f64,
    pub(crate) saved: f64,
    pub(crate) pass_through: Vec<usize>,
    pub(crate) pieces: Vec<Piece>,
    /// Number of experts that a dispatch sends rows to, if an output serves several experts.
    pub(crate) experts: Option<NonZeroU32>,
    /// Whether a softmax hides the scores of later tokens.
    pub(crate) causal: bool,
    /// Parameters as stored; in the number format of the tape if `None`.
    pub(crate) stored: Option<Stored>,
    /// Precision of the computation; that of the tape if `None`.
    pub(crate) precision: Option<document::Precision>,
    /// Kernel that is no product.
    pub(crate) kernel: Option<KernelDocument>,
    /// Whether nothing is launched: the operator only holds parameters.
    pub(crate) is_idle: bool,
}

impl Record {
    /// Describes an operator that reads some inputs, initially without costs or gradients.
    pub(crate) fn new(kind: &'static str, inputs: impl Into<Vec<Tensor>>) -> Record {
        Record {
            kind,
            inputs: inputs.into(),
            parameters: 0.0,
            shared: None,
            flop: 0.0,
            product: None,
            moved: None,
            workspace: 0.0,
            saved: 0.0,
            pass_through: Vec::new(),
            pieces: Vec::new(),
            experts: None,
            causal: false,
            stored: None,
            precision: None,
            kernel: None,
            is_idle: false,
        }
    }

    pub(crate) fn flop(mut self, flop: f64) -> Self {
        self.flop = flop;
        self
    }

    /// Computes the operator by a matrix product.
    pub(crate) fn product(mut self, product: Product) -> Self {
        self.product = Some(product);
        self
    }

    /// Sets the number of elements of the operator's own parameters.
    pub(crate) fn parameters(mut self, elements: f64) -> Self {
        self.parameters = elements;
        self
    }

    /// Sets the number of elements of parameters that the operator shares with their owner.
    pub(crate) fn shares(mut self, owner: Owner, elements: f64) -> Self {
        self.shared = Some((owner, elements));
        self
    }

    /// Sets the bytes moved, if they are not all inputs, weights and outputs.
    pub(crate) fn moved(mut self, bytes: f64) -> Self {
        self.moved = Some(bytes);
        self
    }

    /// Sets the bytes of the parameters as a file stores them.
    pub(crate) fn stored(mut self, stored: Stored) -> Self {
        self.stored = Some(stored);
        self
    }

    pub(crate) fn workspace(mut self, bytes: f64) -> Self {
        self.workspace = bytes;
        self
    }

    /// Sets the bytes saved for the operator's own backward pass, which no other operator reads.
    pub(crate) fn saves(mut self, bytes: f64) -> Self {
        self.saved = bytes;
        self
    }

    /// Passes the gradient of the output through to an input.
    pub(crate) fn passes(mut self, input: usize) -> Self {
        self.pass_through.push(input);
        self
    }

    pub(crate) fn piece(mut self, piece: Piece) -> Self {
        self.pieces.push(piece);
        self
    }
}
