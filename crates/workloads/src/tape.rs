//! The tape: records a forward pass operator by operator.
//!
//! A family describes its model by calling operator constructors (`operators`) on tensors. Each call records
//! the cost, the outputs and the gradient rule of an operator (`record`).
//!
//! Conventions for costs:
//!
//! - a multiply-add is two FLOP; the bias of a product is free, since it initialises the accumulator;
//! - bytes moved count every input, weight and output once;
//! - views (reshapes, splits into heads) are free and not operators; dropout is left out.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::{NonZeroU32, NonZeroU64};

use stagewright_core::document::{self, BatchDocument, KernelDocument};
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::ids::Keyed;

use super::Precision;
use super::error::WorkloadError;
use super::record::{Owner, Piece, Product, Record};
use super::tensor::{Shape, Tensor};

/// Maximum number of operators of a graph; each takes about a kilobyte during generation.
pub(crate) const MAX_OPERATORS: usize = 1_000_000;

/// Data between operators.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value {
    pub(crate) producer: OpId,
    pub(crate) bytes: f64,
    /// Whether the value depends on parameters.
    pub(crate) differentiable: bool,
}

/// A recorded operator.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// Length of the prefix of the name that is the layer path.
    pub(crate) layer: usize,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
    /// Number of elements of the operator's parameters.
    pub(crate) parameters: f64,
    /// The operator that owns the parameters that this one reads.
    pub(crate) owner: OpId,
    pub(crate) flop: f64,
    pub(crate) product: Option<Product>,
    pub(crate) moved: f64,
    pub(crate) workspace: f64,
    /// Value saved for the backward pass besides inputs and outputs.
    pub(crate) saved: Option<TensorId>,
    pub(crate) pass_through: Vec<usize>,
    pub(crate) pieces: Vec<Piece>,
    /// Bytes moved by reading the parameters.
    pub(crate) weight_bytes: f64,
    /// Number of experts that a dispatch sends rows to, if an output serves several experts.
    pub(crate) experts: Option<NonZeroU32>,
    /// Whether a softmax hides the scores of later tokens.
    pub(crate) causal: bool,
    /// Bytes that the operator's parameters occupy.
    pub(crate) held: f64,
    /// Precision of the computation.
    pub(crate) precision: document::Precision,
    /// Kernel that is no product.
    pub(crate) kernel: Option<KernelDocument>,
    /// Whether nothing is launched.
    pub(crate) is_idle: bool,
}

/// Cache of a layer between steps: keys and values, latents, or states of its sequences.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    pub(crate) name: String,
    pub(crate) bytes: f64,
    /// Operators that read or write it in place.
    pub(crate) readers: Vec<OpId>,
}

/// A forward pass.
#[derive(Debug)]
pub(crate) struct Tape {
    /// Bytes per element.
    pub(crate) width: f64,
    /// Number format of elements.
    pub(crate) precision: document::Precision,
    /// Whether losses are recorded.
    pub(crate) training: bool,
    pub(crate) operators: Keyed<OpId, Operator>,
    pub(crate) values: Keyed<TensorId, Value>,
    /// Contents of a batch. In a model with an encoder and a decoder, the tokens are the encoder's.
    pub(crate) batch: Option<BatchDocument>,
    /// Caches by layer, those of attention over an encoder beside those over earlier tokens.
    pub(crate) caches: BTreeMap<(usize, bool), Cache>,
    path: String,
    /// Length of the prefix of the path that is the layer path.
    layer: usize,
    failure: Option<WorkloadError>,
}

impl Tape {
    /// An empty tape for elements of a precision.
    pub(crate) fn new(precision: Precision, training: bool) -> Tape {
        Tape {
            width: f64::from(precision.bytes()),
            precision: match precision {
                Precision::Fp32 => document::Precision::Fp32,
                Precision::Fp16 => document::Precision::Fp16,
                Precision::Bf16 => document::Precision::Bf16,
                Precision::Fp8 => document::Precision::Fp8,
            },
            training,
            operators: Keyed::default(),
            values: Keyed::default(),
            batch: None,
            caches: BTreeMap::new(),
            path: String::new(),
            layer: 0,
            failure: None,
        }
    }

    /// Records within a layer path one level deeper.
    pub(crate) fn scope<R>(&mut self, name: impl Display, body: impl FnOnce(&mut Tape) -> R) -> R {
        self.under(name, |tape| {
            let outer = std::mem::replace(&mut tape.layer, tape.path.len());
            let result = body(tape);
            tape.layer = outer;
            result
        })
    }

    /// Records under a longer name in the same layer, such as a step of an unrolled layer.
    pub(crate) fn under<R>(&mut self, name: impl Display, body: impl FnOnce(&mut Tape) -> R) -> R {
        let outer = self.path.len();
        if outer > 0 {
            self.path.push('.');
        }
        self.path.push_str(&name.to_string());
        let result = body(self);
        self.path.truncate(outer);
        result
    }

    /// Sets the contents of a batch, unless they are known. Inputs set them: the first dimension counts the samples,
    /// and the second dimension of indices counts the tokens.
    pub(crate) fn holds(&mut self, samples: u64, tokens: Option<u64>) {
        let batch = NonZeroU64::new(samples)
            .map(|samples| BatchDocument { samples, tokens: tokens.and_then(NonZeroU64::new) });
        self.batch = self.batch.or(batch);
    }

    /// Maximum number of operators that may be recorded. The backward pass of a full tape adds at least as many
    /// operators.
    fn most(&self) -> usize {
        if self.training { MAX_OPERATORS / 2 } else { MAX_OPERATORS }
    }

    /// Checks an announced minimum number of further operators, so that an absurd model is refused before it
    /// is built.
    pub(crate) fn expect(&self, operators: u64) -> Result<(), WorkloadError> {
        if operators > self.most() as u64 {
            return Err(WorkloadError::TooManyOperators { most: MAX_OPERATORS });
        }
        Ok(())
    }

    /// Stores the first failure. A failed tape records nothing more, and [`Tape::finish`] returns the
    /// failure.
    pub(crate) fn fail(&mut self, error: WorkloadError) {
        self.failure.get_or_insert(error);
    }

    /// Whether recording failed; tensors recorded since do not exist.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Makes an operator a layer of its own: a module outside the layers of the model.
    pub(crate) fn make_layer(&mut self, owner: Owner) {
        if !self.has_failed() {
            let operator = &mut self.operators[owner.0];
            operator.layer = operator.name.len();
        }
    }

    /// Bytes of the whole value that a tensor views.
    pub(crate) fn bytes_of(&self, tensor: Tensor) -> f64 {
        if self.has_failed() { 0.0 } else { self.values[tensor.value].bytes }
    }

    /// The operator that produced a tensor, as the owner of its parameters.
    pub(crate) fn owner_of(&self, tensor: Tensor) -> Owner {
        Owner(if self.has_failed() { OpId(0) } else { self.values[tensor.value].producer })
    }

    /// Full name of an operator recorded at the current path.
    pub(crate) fn full_name(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// If recording failed; returns the first failure.
    pub(crate) fn finish(self) -> Result<Tape, WorkloadError> {
        match self.failure {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Records an operator with one output.
    pub(crate) fn record(&mut self, name: &str, record: Record, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        self.record_all(name, record, &[shape]).0[0]
    }

    /// Records an operator with one output whose parameters others share.
    pub(crate) fn record_owner(
        &mut self,
        name: &str,
        record: Record,
        shape: impl Into<Shape>,
    ) -> (Tensor, Owner) {
        let shape = shape.into();
        let (tensors, owner) = self.record_all(name, record, &[shape]);
        (tensors[0], owner)
    }

    /// Records an operator with one output per shape.
    pub(crate) fn record_all(
        &mut self,
        name: &str,
        record: Record,
        shapes: &[Shape],
    ) -> (Vec<Tensor>, Owner) {
        let sizes = shapes.iter().map(|shape| shape.elements() * self.width);
        let sizes: Vec<f64> = sizes.collect();
        self.record_bytes(name, record, shapes, &sizes)
    }

    /// Records an operator whose outputs have elements of other widths, such as indices.
    pub(crate) fn record_bytes(
        &mut self,
        name: &str,
        record: Record,
        shapes: &[Shape],
        sizes: &[f64],
    ) -> (Vec<Tensor>, Owner) {
        let own = self.operators.next_id();
        if self.operators.len() >= self.most() {
            self.fail(WorkloadError::TooManyOperators { most: MAX_OPERATORS });
        }
        if self.failure.is_some() {
            // Operators built on these tensors record nothing either.
            return (
                shapes.iter().map(|&shape| Tensor { value: TensorId(0), shape }).collect(),
                Owner(OpId(0)),
            );
        }
        let differentiable = record.parameters > 0.0
            || record.shared.is_some()
            || record.inputs.iter().any(|input| self.values[input.value].differentiable);
        let mut value = |bytes| self.values.push(Value { producer: own, bytes, differentiable });
        let outputs: Vec<TensorId> = sizes.iter().map(|&bytes| value(bytes)).collect();
        let saved = (record.saved > 0.0).then(|| value(record.saved));
        let shared = record.shared.map_or(0.0, |(_, elements)| elements);
        let own_bytes = record.parameters * self.width;
        let (held, weight_bytes) = match record.stored {
            Some(stored) => (stored.held, stored.read),
            None => (own_bytes, own_bytes + shared * self.width),
        };
        let read: f64 = record.inputs.iter().map(|input| self.values[input.value].bytes).sum();
        let written: f64 = sizes.iter().sum();
        let full = self.full_name(name);
        self.operators.push(Operator {
            layer: self.layer,
            name: full,
            kind: record.kind,
            inputs: record.inputs.iter().map(|input| input.value).collect(),
            parameters: record.parameters,
            owner: record.shared.map_or(own, |(owner, _)| owner.0),
            flop: record.flop,
            product: record.product,
            moved: record.moved.unwrap_or(read + weight_bytes + written),
            workspace: record.workspace,
            saved,
            pass_through: record.pass_through,
            pieces: record.pieces,
            weight_bytes,
            experts: record.experts,
            causal: record.causal,
            held,
            precision: record.precision.unwrap_or(self.precision),
            kernel: record.kernel,
            is_idle: record.is_idle,
            outputs: outputs.clone(),
        });
        let tensors = outputs.into_iter().zip(shapes).map(|(value, &shape)| Tensor { value, shape });
        (tensors.collect(), Owner(own))
    }
}
