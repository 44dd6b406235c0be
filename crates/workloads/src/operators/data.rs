//! Inputs, parameters with several readers, lookups, and operators that only move data.

use std::num::NonZeroU32;

use crate::step::{INPUT, LOSS, VARIABLE};
use crate::{Owner, Piece, Read, Record, Shape, Tape, Tensor};

/// Bytes of an index, such as a token or a category.
const INDEX_WIDTH: f64 = 4.0;

/// The objective that training minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Softmax cross-entropy.
    CrossEntropy,
    /// Mean squared error.
    Square,
}

impl Loss {
    /// FLOP per element.
    fn flop(self) -> f64 {
        match self {
            Loss::CrossEntropy => 5.0,
            Loss::Square => 3.0,
        }
    }
}

impl Tape {
    /// A numeric input.
    pub(crate) fn input(&mut self, name: &str, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        self.holds(shape.dim(0), None);
        self.record(name, Record::new(INPUT, []).moved(0.0), shape)
    }

    /// An input of indices.
    pub(crate) fn indices(&mut self, name: &str, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        self.holds(shape.dim(0), Some(shape.dim(1)));
        let bytes = [shape.elements() * INDEX_WIDTH];
        self.record_bytes(name, Record::new(INPUT, []).moved(0.0), &[shape], &bytes).0[0]
    }

    /// Parameters with several readers, such as the weights of an unrolled layer. Each reader counts the bytes that it
    /// reads.
    pub(crate) fn variable(&mut self, name: &str, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        self.record(name, Record::new(VARIABLE, []).parameters(shape.elements()).moved(0.0), shape)
    }

    /// Looks up rows of a table of `[rows, width]` by index; the output has the given shape. The gradient covers only
    /// the rows that were looked up, which are sorted by index before they are summed.
    pub(crate) fn embedding(
        &mut self,
        name: &str,
        indices: Tensor,
        rows: u64,
        shape: impl Into<Shape>,
    ) -> (Tensor, Owner) {
        let shape = shape.into();
        let table = rows as f64 * shape.last() as f64;
        let index_bytes = indices.elements() * INDEX_WIDTH;
        let touched = shape.elements().min(table);
        let record = Record::new("embedding", [indices])
            .parameters(table)
            .moved(index_bytes + 2.0 * shape.elements() * self.width)
            .piece(
                Piece::of_weights(touched, shape.elements(), &[Read::Input(0)]).workspace(2.0 * index_bytes),
            );
        self.record_owner(name, record, shape)
    }

    /// Adds a learned table of `[rows, width]` to each sample of `[batch, rows, width]`.
    pub(crate) fn add_table(&mut self, name: &str, x: Tensor, rows: u64) -> Tensor {
        let table = x.elements() / x.dim(0) as f64;
        let record = Record::new("add_embedding", [x])
            .parameters(rows as f64 * x.last() as f64)
            .flop(x.elements())
            .moved(2.0 * x.elements() * self.width + table * self.width)
            .passes(0)
            .piece(Piece::of_weights(table, x.elements(), &[]));
        self.record(name, record, x.shape)
    }

    /// Concatenates tensors along a dimension; those without a batch are broadcast to the batch of the first, and
    /// their gradients are summed over it.
    pub(crate) fn concat(&mut self, name: &str, parts: &[Tensor], along: usize) -> Tensor {
        let total = parts.iter().map(|part| part.dim(along)).sum();
        let shape = parts[0].shape.with(along, total);
        let repeated = shape.elements() - parts.iter().map(Tensor::elements).sum::<f64>();
        let all: Vec<usize> = (0..parts.len()).collect();
        let record = Record::new("concat", parts).piece(Piece::of_inputs("grad", &all, repeated, &[]));
        self.record(name, record, shape)
    }

    /// Splits a tensor into parts of the given sizes along a dimension.
    pub(crate) fn split(&mut self, name: &str, x: Tensor, along: usize, sizes: &[u64]) -> Vec<Tensor> {
        let shapes: Vec<Shape> = sizes.iter().map(|&size| x.shape.with(along, size)).collect();
        let record = Record::new("split", [x]).piece(Piece::whole(0.0, &[]));
        self.record_all(name, record, &shapes).0
    }

    /// A slice of a tensor; the rest of its gradient is zero.
    pub(crate) fn slice(&mut self, name: &str, x: Tensor, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let bytes = 2.0 * shape.elements() * self.width;
        self.record(name, Record::new("slice", [x]).moved(bytes).piece(Piece::whole(0.0, &[])), shape)
    }

    /// Routes rows to experts by weight. Each of the `groups` outputs leads to a group of `of_group` experts, and a row
    /// may be sent to several groups. The choice of experts has no gradient.
    pub(crate) fn dispatch(
        &mut self,
        name: &str,
        weights: Tensor,
        x: Tensor,
        (groups, of_group): (u64, u64),
        shape: impl Into<Shape>,
    ) -> Vec<Tensor> {
        let shapes = vec![shape.into(); groups as usize];
        let copies: f64 = shapes.iter().map(Shape::elements).sum();
        let mut record =
            Record::new("dispatch", [x, weights]).piece(Piece::whole(copies - x.elements(), &[]));
        record.experts =
            u32::try_from(groups * of_group).ok().and_then(NonZeroU32::new).filter(|_| of_group > 1);
        self.record_all(name, record, &shapes).0
    }

    /// Returns rows routed by [`Tape::dispatch`], each as the weighted sum of its copies.
    pub(crate) fn combine(
        &mut self,
        name: &str,
        weights: Tensor,
        parts: &[Tensor],
        shape: impl Into<Shape>,
    ) -> Tensor {
        let inputs: Vec<Tensor> = std::iter::once(weights).chain(parts.iter().copied()).collect();
        let flop = 2.0 * parts.iter().map(Tensor::elements).sum::<f64>();
        let places: Vec<usize> = (0..inputs.len()).collect();
        let reads: Vec<Read> = places.iter().map(|&place| Read::Input(place)).collect();
        let record = Record::new("combine", inputs).flop(flop).piece(Piece::of_inputs(
            "grad",
            &places,
            2.0 * flop,
            &reads,
        ));
        self.record(name, record, shape)
    }

    /// Shifts every row by its index, which aligns the scores of relative positions.
    pub(crate) fn shift(&mut self, name: &str, x: Tensor) -> Tensor {
        self.record(name, Record::new("shift", [x]).piece(Piece::whole(0.0, &[])), x.shape)
    }

    /// The loss, where the backward pass starts; records nothing for inference.
    pub(crate) fn loss(&mut self, name: &str, x: Tensor, loss: Loss) {
        if !self.training {
            return;
        }
        let record = Record::new(LOSS, [x])
            .flop(loss.flop() * x.elements())
            .piece(Piece::whole(2.0 * x.elements(), &[Read::Input(0)]));
        self.record(name, record, [1]);
    }
}
