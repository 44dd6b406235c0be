//! Operators of a layer with their weights as stored.
//!
//! An operator moves its inputs, its weights and its outputs once, and the part of a cache that it reads or writes. In
//! inference, weights have the bytes of their tensors; in training, the number format of the tape. Parts of the output of
//! a fused projection are views in inference; training copies them, since their gradients are computed apart.

use std::collections::BTreeMap;

use stagewright_structure::{Norm, Role, Structure};

use super::options::Step;
use super::weights::{Module, Weights};
use crate::operators::{bilinear, normalise};
use crate::record::Product;
use crate::{Activation, Piece, Read, Record, Shape, Stored, Tape, Tensor};

/// Draws the operators of a layer, or those outside the layers.
pub(super) struct Draw<'a> {
    pub(super) tape: &'a mut Tape,
    pub(super) step: &'a Step,
    pub(super) weights: Weights,
    /// Path of the layer, which is a scope of the tape; empty outside the layers.
    pub(super) path: String,
    /// Number of the layer.
    pub(super) index: usize,
    pub(super) norm: Norm,
    /// Width of the hidden state.
    pub(super) hidden: u64,
    /// Bytes of the state that a sequence keeps in the layer whatever its length.
    pub(super) state_bytes: f64,
    pub(super) passed: Passed,
    /// Residual streams of hyper-connections.
    pub(super) streams: u64,
}

/// What later layers read of earlier ones besides the hidden state.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Keys and values of the new tokens, by layer.
    pub(super) keys: BTreeMap<usize, [Option<Tensor>; 2]>,
    /// The latest selection of tokens.
    pub(super) selected: Option<Tensor>,
}

/// The part of a cache that an operator moves, in bytes of all sequences.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Cached {
    /// Bytes that it reads and writes.
    pub(super) moved: f64,
    /// Layer whose cache it is, and whether the cache holds the output of an encoder.
    pub(super) layer: Option<(usize, bool)>,
}

impl<'a> Draw<'a> {
    /// Draws outside the layers.
    pub(super) fn outside(
        tape: &'a mut Tape,
        step: &'a Step,
        weights: Weights,
        structure: &Structure,
    ) -> Draw<'a> {
        let (norm, hidden, passed) = (structure.norm, structure.hidden, Passed::default());
        let (path, index, state_bytes, streams) = (String::new(), 0, 0.0, 1);
        Draw { tape, step, weights, path, index, norm, hidden, state_bytes, passed, streams }
    }

    /// Name of a module or operator below the path of the layer.
    fn below(&self, name: &str) -> String {
        let below = name.strip_prefix(&self.path).and_then(|rest| rest.strip_prefix('.'));
        below.unwrap_or(name).to_owned()
    }

    /// Records an operator with its bytes, and adds it to the readers of a cache.
    pub(super) fn push(
        &mut self,
        name: &str,
        record: Record,
        shape: impl Into<Shape>,
        cached: Cached,
    ) -> Tensor {
        let shape = shape.into();
        self.push_all(name, record, &[shape], &[shape.elements()], cached)[0]
    }

    /// Records an operator with outputs of given numbers of elements, which need not be whole where they are expected
    /// numbers.
    pub(super) fn push_all(
        &mut self,
        name: &str,
        mut record: Record,
        shapes: &[Shape],
        elements: &[f64],
        cached: Cached,
    ) -> Vec<Tensor> {
        let width = self.tape.width;
        // An input may be a view of a larger output, or have fewer elements than its rounded shape.
        let read = |input: &Tensor| (input.elements() * width).min(self.tape.values[input.value].bytes);
        let weights = record.stored.map_or(record.parameters * width, |stored| stored.read);
        let sizes: Vec<f64> = elements.iter().map(|count| count * width).collect();
        if record.moved.is_none() && !self.tape.has_failed() {
            let inputs: f64 = record.inputs.iter().map(read).sum();
            record.moved = Some(inputs + weights + sizes.iter().sum::<f64>() + cached.moved);
        }
        let is_module = self.path.is_empty() && (record.parameters > 0.0 || record.shared.is_some());
        let (tensors, owner) = self.tape.record_bytes(&self.below(name), record, shapes, &sizes);
        if is_module {
            self.tape.make_layer(owner);
        }
        if let Some(cache) = cached.layer.and_then(|layer| self.tape.caches.get_mut(&layer)) {
            cache.readers.push(owner.0);
        }
        tensors
    }

    /// Gives an operator the weights of a module, of which it reads a share.
    pub(super) fn weigh(&self, mut record: Record, module: &Module, share: f64) -> Record {
        record = record.parameters(module.elements);
        if self.step.is_training {
            return record;
        }
        record.precision = module.precision;
        record.stored(Stored { held: module.bytes, read: module.bytes * share })
    }

    /// Multiplies rows by the matrices of a module.
    pub(super) fn linear(&mut self, module: &Module, x: Tensor) -> Tensor {
        let rows = x.elements() / x.last().max(1) as f64;
        let inputs = x.last().max(1);
        let outputs = (module.matrices / inputs as f64).round().max(1.0);
        let product = Product { batch: 1.0, m: rows, n: outputs, k: inputs as f64 };
        let record = self.weigh(Record::new("linear", [x]), module, 1.0);
        let record = bilinear(record, module.elements, 2.0 * rows * module.matrices, product);
        self.push(&module.name, record, x.shape.with_last(outputs as u64), Cached::default())
    }

    /// Normalises parts of `width` elements with the weights of a module.
    pub(super) fn normalise(&mut self, module: &Module, x: Tensor, width: u64) -> Tensor {
        let is_centred = matches!(self.norm, Norm::Layer | Norm::LayerWithoutBias);
        let rows = x.elements() / width.max(1) as f64;
        let record = normalise(x, rows, module.elements, is_centred);
        let record = self.weigh(record, module, 1.0);
        self.push(&module.name, record, x.shape, Cached::default())
    }

    /// Rotates `width` elements in each of the `heads` of every row.
    pub(super) fn rotate(&mut self, name: &str, x: Tensor, heads: u64, width: u64) -> Tensor {
        if width == 0 {
            return x;
        }
        let rows = x.elements() / x.last().max(1) as f64;
        let flop = 3.0 * rows * heads as f64 * width as f64;
        let record = Record::new("rotary", [x]).flop(flop).piece(Piece::whole(flop, &[]));
        self.push(name, record, x.shape, Cached::default())
    }

    /// Parts of the last dimension of a tensor.
    pub(super) fn parts(&mut self, name: &str, x: Tensor, widths: &[u64]) -> Vec<Tensor> {
        let shapes: Vec<Shape> = widths.iter().map(|&width| x.shape.with_last(width)).collect();
        if !self.step.is_training {
            return shapes.into_iter().map(|shape| Tensor { value: x.value, shape }).collect();
        }
        let elements: Vec<f64> = shapes.iter().map(Shape::elements).collect();
        let record = Record::new("split", [x]).piece(Piece::whole(0.0, &[]));
        self.push_all(name, record, &shapes, &elements, Cached::default())
    }

    /// Applies an activation function.
    pub(super) fn activate(&mut self, name: &str, x: Tensor, activation: Activation) -> Tensor {
        self.activate_part(name, x, x.elements(), activation)
    }

    /// Applies an activation function to `elements` elements.
    pub(super) fn activate_part(
        &mut self,
        name: &str,
        x: Tensor,
        elements: f64,
        activation: Activation,
    ) -> Tensor {
        let (kind, forward, backward, saved) = activation.costs();
        let record = Record::new(kind, [x])
            .flop(forward * elements)
            .piece(Piece::whole(backward * elements, &[saved]));
        self.push_all(name, record, &[x.shape], &[elements], Cached::default())[0]
    }

    /// The product of two tensors of `elements` elements.
    pub(super) fn multiply(&mut self, name: &str, [a, b]: [Tensor; 2], elements: f64) -> Tensor {
        let record = Record::new("multiply", [a, b])
            .flop(elements)
            .piece(Piece::of_inputs("grad_0", &[0], elements, &[Read::Input(1)]))
            .piece(Piece::of_inputs("grad_1", &[1], elements, &[Read::Input(0)]));
        self.push_all(name, record, &[a.shape], &[elements], Cached::default())[0]
    }

    /// Halves the last dimension: a gate with its activation, times the other half.
    pub(super) fn gate(&mut self, name: &str, x: Tensor, elements: f64) -> Tensor {
        let (_, forward, backward, _) = Activation::Silu.costs();
        let record = Record::new("swiglu", [x])
            .flop((forward + 1.0) * elements)
            .piece(Piece::whole((backward + 2.0) * elements, &[Read::Input(0)]));
        let shape = x.shape.with_last((x.last() / 2).max(1));
        self.push_all(name, record, &[shape], &[elements], Cached::default())[0]
    }

    /// An operator whose gradients take twice its FLOP, and read all its inputs.
    pub(super) fn mixed(&self, kind: &'static str, inputs: &[Tensor], flop: f64) -> Record {
        let mut once: Vec<Tensor> = Vec::new();
        for &input in inputs {
            // In training all inputs are distinct; in inference views of one output are one input, of all their elements.
            match once.iter_mut().find(|known| known.value == input.value) {
                Some(known) => known.shape = known.shape.with_last(known.last().saturating_add(input.last())),
                None => once.push(input),
            }
        }
        let places: Vec<usize> = (0..once.len()).collect();
        let reads: Vec<Read> = places.iter().map(|&place| Read::Input(place)).collect();
        Record::new(kind, once).flop(flop).piece(Piece::of_inputs("grad", &places, 2.0 * flop, &reads))
    }

    /// Holds the weights of a module without using them. The output has no bytes.
    pub(super) fn hold(&mut self, module: &Module) -> Tensor {
        let mut record = self.weigh(Record::new("idle", []), module, 0.0).moved(0.0);
        record.is_idle = true;
        self.push_all(&module.name, record, &[Shape::from([1])], &[0.0], Cached::default())[0]
    }

    /// Draws the modules that no block has taken, one after the other: products, tables and scales.
    pub(super) fn rest(&mut self, mut x: Tensor) -> Tensor {
        let rows = x.elements() / x.last().max(1) as f64;
        for module in self.weights.take_rest() {
            x = if module.is_table {
                self.look_up(&module, x, rows)
            } else if module.matrices > 0.0 && !matches!(module.role, Role::Norm | Role::State | Role::Sinks)
            {
                self.product(&module, x, rows)
            } else {
                self.scale(&module, x)
            };
        }
        x
    }

    /// A product beside the path of the hidden state, whose result has the shape of the hidden state.
    pub(super) fn product(&mut self, module: &Module, x: Tensor, rows: f64) -> Tensor {
        let inputs = module.inputs.max(1) as f64;
        let product = Product { batch: 1.0, m: rows, n: module.matrices / inputs, k: inputs };
        let record = self.weigh(Record::new("linear", [x]), module, 1.0);
        let record = bilinear(record, module.elements, 2.0 * rows * module.matrices, product);
        self.push(&module.name, record, x.shape, Cached::default())
    }

    fn scale(&mut self, module: &Module, x: Tensor) -> Tensor {
        let record = self.weigh(Record::new("scale", [x]).flop(x.elements()), module, 1.0);
        let whole = Piece::whole(2.0 * x.elements(), &[Read::Input(0), Read::Weights]);
        let record = record.piece(whole.and_weights(module.elements));
        self.push(&module.name, record, x.shape, Cached::default())
    }

    /// Looks up the tables of no particular block.
    pub(super) fn tables(&mut self, x: Tensor) -> Tensor {
        let tables = self.weights.take_tables(Role::Other);
        let rows = self.step.rows();
        tables.iter().fold(x, |x, table| self.look_up(table, x, rows))
    }

    /// Adds the rows of a table that the tokens select.
    fn look_up(&mut self, module: &Module, x: Tensor, rows: f64) -> Tensor {
        let share = (rows / module.rows.max(1) as f64).min(1.0);
        let record = self.weigh(Record::new("embedding", [x]), module, share).flop(x.elements());
        let touched = share * module.elements;
        let record = record.passes(0).piece(Piece::of_weights(touched, touched, &[]));
        self.push(&module.name, record, x.shape, Cached::default())
    }
}
