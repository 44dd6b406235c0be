//! The tape: a forward pass written down operator by operator.
//!
//! A family describes its model by calling operator constructors (`operators`) on tensors. Each call records what
//! the operator costs, what it makes, and how its gradients come about. A gradient rule has two parts. *Pieces* are
//! operators of the backward pass; each reads the gradients of all outputs and perhaps saved inputs, outputs or
//! weights, and yields gradients of inputs or parameters. Inputs that are *passed through* get the gradient of the
//! output as it is and need no operator (both sides of a sum, say). The products of a bilinear operator are separate
//! pieces, since schedules such as zero-bubble run the gradient of weights apart from that of inputs.
//!
//! Conventions for costs:
//!
//! - a multiply-add is two FLOP; the bias of a product counts nothing, since it starts the accumulator;
//! - bytes moved are what is read and written once: inputs, weights, outputs;
//! - views (a reshape, the split of heads) are free and no operators; dropout is left out.

use std::fmt::Display;

use super::error::WorkloadError;

/// The most operators of a graph.
pub(crate) const MOST_OPERATORS: usize = 5_000_000;

/// The most dimensions of a tensor.
const RANK: usize = 5;

/// Dimensions of a tensor, images as `[batch, channels, height, width]`, sequences as `[batch, steps, width]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    dims: [u64; RANK],
    rank: usize,
}

impl<const N: usize> From<[u64; N]> for Shape {
    fn from(given: [u64; N]) -> Shape {
        const { assert!(N >= 1 && N <= RANK) };
        let mut dims = [1; RANK];
        dims[..N].copy_from_slice(&given);
        Shape { dims, rank: N }
    }
}

impl Shape {
    /// Number of elements.
    pub(crate) fn elements(&self) -> f64 {
        self.dims[..self.rank].iter().map(|&dim| dim as f64).product()
    }

    /// The dimension at a place.
    pub(crate) fn dim(&self, at: usize) -> u64 {
        self.dims[at]
    }

    /// The last dimension.
    pub(crate) fn last(&self) -> u64 {
        self.dims[self.rank - 1]
    }

    /// The same shape with another last dimension.
    pub(crate) fn with_last(self, last: u64) -> Shape {
        self.with(self.rank - 1, last)
    }

    /// The same shape with another dimension at a place.
    pub(crate) fn with(mut self, at: usize, dim: u64) -> Shape {
        self.dims[at] = dim;
        self
    }
}

/// What an operator made, seen with a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) value: u32,
    pub(crate) shape: Shape,
}

impl Tensor {
    /// The same data in another shape, for nothing.
    pub(crate) fn view(self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        debug_assert_eq!(shape.elements(), self.shape.elements());
        Tensor { shape, ..self }
    }

    /// The dimension at a place.
    pub(crate) fn dim(&self, at: usize) -> u64 {
        self.shape.dim(at)
    }

    /// The last dimension.
    pub(crate) fn last(&self) -> u64 {
        self.shape.last()
    }

    /// Number of elements.
    pub(crate) fn elements(&self) -> f64 {
        self.shape.elements()
    }
}

/// An operator with parameters, for those that share them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Owner(pub(super) u32);

/// Data between operators.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value {
    pub(crate) producer: u32,
    pub(crate) bytes: f64,
    /// Whether parameters had a part in it.
    pub(crate) differentiable: bool,
}

/// What a piece reads besides the gradients of the outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Read {
    /// An input.
    Input(usize),
    /// The first output.
    Output,
    /// What the forward operator saved for it alone.
    Saved,
    /// Its parameters.
    Weights,
}

/// An operator of the backward pass.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// Ending of its name and kind.
    pub(crate) suffix: &'static str,
    pub(crate) flop: f64,
    pub(crate) reads: Vec<Read>,
    /// Inputs whose gradients it yields.
    pub(crate) inputs: Vec<usize>,
    /// Elements of the gradient of the parameters, where it yields that.
    pub(crate) parameters: Option<f64>,
    pub(crate) workspace: f64,
}

impl Piece {
    /// The gradient of some inputs.
    pub(crate) fn of_inputs(suffix: &'static str, inputs: &[usize], flop: f64, reads: &[Read]) -> Piece {
        Piece {
            suffix,
            flop,
            reads: reads.to_vec(),
            inputs: inputs.to_vec(),
            parameters: None,
            workspace: 0.0,
        }
    }

    /// The gradient of the only input.
    pub(crate) fn whole(flop: f64, reads: &[Read]) -> Piece {
        Piece::of_inputs("grad", &[0], flop, reads)
    }

    /// The gradient of parameters.
    pub(crate) fn of_weights(elements: f64, flop: f64, reads: &[Read]) -> Piece {
        Piece { parameters: Some(elements), ..Piece::of_inputs("grad_weight", &[], flop, reads) }
    }

    /// Also the gradient of parameters.
    pub(crate) fn and_weights(mut self, elements: f64) -> Piece {
        self.parameters = Some(elements);
        self
    }

    pub(crate) fn workspace(mut self, bytes: f64) -> Piece {
        self.workspace = bytes;
        self
    }
}

/// A recorded operator.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// Length of the part of the name that is the layer path.
    pub(crate) layer: usize,
    pub(crate) inputs: Vec<u32>,
    pub(crate) outputs: Vec<u32>,
    /// Elements of the parameters.
    pub(crate) parameters: f64,
    /// The operator that owns the parameters it reads.
    pub(crate) owner: u32,
    pub(crate) flop: f64,
    pub(crate) moved: f64,
    pub(crate) workspace: f64,
    /// What is kept for the backward pass besides inputs and outputs.
    pub(crate) saved: Option<u32>,
    pub(crate) pass_through: Vec<usize>,
    pub(crate) pieces: Vec<Piece>,
    /// Bytes that reading the parameters moves.
    pub(crate) weight_bytes: f64,
}

/// An operator being described; see [`Tape::record`].
#[derive(Debug, Clone)]
pub(crate) struct Record<'a> {
    kind: &'static str,
    inputs: &'a [Tensor],
    parameters: f64,
    shared: Option<(Owner, f64)>,
    flop: f64,
    moved: Option<f64>,
    workspace: f64,
    saved: f64,
    pass_through: Vec<usize>,
    pieces: Vec<Piece>,
}

impl<'a> Record<'a> {
    /// An operator of a kind on some inputs that costs nothing yet and passes no gradient.
    pub(crate) fn new(kind: &'static str, inputs: &'a [Tensor]) -> Record<'a> {
        Record {
            kind,
            inputs,
            parameters: 0.0,
            shared: None,
            flop: 0.0,
            moved: None,
            workspace: 0.0,
            saved: 0.0,
            pass_through: Vec::new(),
            pieces: Vec::new(),
        }
    }

    pub(crate) fn flop(mut self, flop: f64) -> Self {
        self.flop = flop;
        self
    }

    /// Elements of its own parameters.
    pub(crate) fn parameters(mut self, elements: f64) -> Self {
        self.parameters = elements;
        self
    }

    /// Elements of parameters that it shares with the operator that owns them. It holds a copy, as the stages of a
    /// pipeline do.
    pub(crate) fn shares(mut self, owner: Owner, elements: f64) -> Self {
        self.shared = Some((owner, elements));
        self
    }

    /// Bytes moved, where it is not all inputs, weights and outputs.
    pub(crate) fn moved(mut self, bytes: f64) -> Self {
        self.moved = Some(bytes);
        self
    }

    pub(crate) fn workspace(mut self, bytes: f64) -> Self {
        self.workspace = bytes;
        self
    }

    /// Bytes kept for the backward pass that no other operator reads.
    pub(crate) fn saves(mut self, bytes: f64) -> Self {
        self.saved = bytes;
        self
    }

    /// The gradient of an input is that of the output.
    pub(crate) fn passes(mut self, input: usize) -> Self {
        self.pass_through.push(input);
        self
    }

    pub(crate) fn piece(mut self, piece: Piece) -> Self {
        self.pieces.push(piece);
        self
    }
}

/// A forward pass.
#[derive(Debug)]
pub(crate) struct Tape {
    /// Bytes of an element.
    pub(crate) width: f64,
    /// Whether losses are recorded.
    pub(crate) training: bool,
    pub(crate) operators: Vec<Operator>,
    pub(crate) values: Vec<Value>,
    path: String,
    /// Length of the part of the path that is the layer path.
    layer: usize,
    failure: Option<WorkloadError>,
}

impl Tape {
    /// An empty tape for elements of some bytes.
    pub(crate) fn new(width: f64, training: bool) -> Tape {
        Tape {
            width,
            training,
            operators: Vec::new(),
            values: Vec::new(),
            path: String::new(),
            layer: 0,
            failure: None,
        }
    }

    /// Records under a layer path one step deeper.
    pub(crate) fn scope<R>(&mut self, name: impl Display, body: impl FnOnce(&mut Tape) -> R) -> R {
        self.under(name, |tape| {
            let outer = std::mem::replace(&mut tape.layer, tape.path.len());
            let result = body(tape);
            tape.layer = outer;
            result
        })
    }

    /// Records under longer names in the same layer: a step of an unrolled one.
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

    /// The most operators that may be recorded. In training each gets at least one more.
    fn most(&self) -> usize {
        if self.training { MOST_OPERATORS / 2 } else { MOST_OPERATORS }
    }

    /// Announces that at least so many operators follow, so that an absurd model is refused before it is built.
    pub(crate) fn expect(&self, operators: u64) -> Result<(), WorkloadError> {
        if operators > self.most() as u64 {
            return Err(WorkloadError::TooManyOperators { most: MOST_OPERATORS });
        }
        Ok(())
    }

    /// Notes the first failure. A tape that has failed records nothing more, and [`Tape::finish`] says why.
    pub(crate) fn fail(&mut self, error: WorkloadError) {
        self.failure.get_or_insert(error);
    }

    /// The full name of an operator recorded here.
    pub(crate) fn full_name(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// What failed first.
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

    /// Records an operator with one output that others share the parameters of.
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

    /// Records an operator with an output of each shape.
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

    /// Records an operator whose outputs have elements of other widths, indices for example.
    pub(crate) fn record_bytes(
        &mut self,
        name: &str,
        record: Record,
        shapes: &[Shape],
        sizes: &[f64],
    ) -> (Vec<Tensor>, Owner) {
        let own = self.operators.len() as u32;
        if self.operators.len() >= self.most() {
            self.fail(WorkloadError::TooManyOperators { most: MOST_OPERATORS });
        }
        if self.failure.is_some() {
            // Whatever is made of these records nothing either.
            return (shapes.iter().map(|&shape| Tensor { value: 0, shape }).collect(), Owner(0));
        }
        let differentiable = record.parameters > 0.0
            || record.shared.is_some()
            || record.inputs.iter().any(|input| self.values[input.value as usize].differentiable);
        let mut value = |bytes| {
            self.values.push(Value { producer: own, bytes, differentiable });
            self.values.len() as u32 - 1
        };
        let outputs: Vec<u32> = sizes.iter().map(|&bytes| value(bytes)).collect();
        let saved = (record.saved > 0.0).then(|| value(record.saved));
        let copy = record.shared.map_or(0.0, |(_, elements)| elements * self.width);
        let weight_bytes = record.parameters * self.width + copy;
        let read: f64 = record.inputs.iter().map(|input| self.values[input.value as usize].bytes).sum();
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
            moved: record.moved.unwrap_or(read + weight_bytes + written),
            workspace: record.workspace + copy,
            saved,
            pass_through: record.pass_through,
            pieces: record.pieces,
            weight_bytes,
            outputs: outputs.clone(),
        });
        let tensors = outputs.into_iter().zip(shapes).map(|(value, &shape)| Tensor { value, shape });
        (tensors.collect(), Owner(own))
    }
}
