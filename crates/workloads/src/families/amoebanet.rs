//! AmoebaNet-D: Real, Aggarwal, Huang and Le, "Regularized Evolution for Image Classifier Architecture
//! Search" (AAAI 2019), in the sizes of Huang et al., "GPipe" (NeurIPS 2019), table 1, written (L, D) for L
//! normal cells and D filters.
//!
//! | variant | parameters |
//! | --- | --- |
//! | 18-208 | 81.5 M |
//! | 18-416 | 319.0 M |
//! | 18-544 | 542.7 M |
//! | 36-544 | 1.06 G |
//! | 72-512 | 1.84 G |
//!
//! Source: the memory benchmark of torchgpipe (Kim et al. 2020), which reproduces that table. The normal cell
//! concatenates its states 0, 3, 4 and 6, as the implementation behind the published parameters does.

use crate::blocks::image::classify;
use crate::{Conv, Definition, Size, Sizes, Tape, Tensor, Window, WorkloadError};

pub(crate) struct AmoebaNet {
    /// Normal cells, a third of them between reductions.
    layers: u64,
    filters: u64,
}

pub(crate) static FAMILY: Definition<AmoebaNet> = Definition {
    name: "amoebanet-d",
    summary: "convolutional networks of evolved cells for images",
    sizes: &[Size::Batch, Size::Image, Size::Hidden, Size::Layers],
    variants: &[
        ("18-208", AmoebaNet { layers: 18, filters: 208 }),
        ("18-416", AmoebaNet { layers: 18, filters: 416 }),
        ("18-544", AmoebaNet { layers: 18, filters: 544 }),
        ("36-544", AmoebaNet { layers: 36, filters: 544 }),
        ("72-512", AmoebaNet { layers: 72, filters: 512 }),
    ],
    record,
};

/// The operation on an edge of a cell.
#[derive(Clone, Copy)]
enum Edge {
    Identity,
    AveragePool,
    /// Max pooling over a square window of this side.
    MaxPool(u64),
    /// A 3 × 3 convolution, bottlenecked to a quarter of the channels.
    Square,
    /// A 1 × 7 and a 7 × 1 convolution, bottlenecked to a quarter of the channels.
    Seven,
    Pointwise,
}

/// A cell: two incoming edges per new state, and the states that are concatenated.
struct Cell {
    pairs: [[(usize, Edge); 2]; 5],
    joined: &'static [usize],
    stride: u64,
}

const NORMAL: Cell = Cell {
    pairs: [
        [(1, Edge::Pointwise), (1, Edge::MaxPool(3))],
        [(1, Edge::Identity), (0, Edge::Seven)],
        [(0, Edge::Pointwise), (0, Edge::Seven)],
        [(2, Edge::MaxPool(3)), (2, Edge::Identity)],
        [(1, Edge::AveragePool), (5, Edge::Pointwise)],
    ],
    joined: &[0, 3, 4, 6],
    stride: 1,
};

const REDUCTION: Cell = Cell {
    pairs: [
        [(0, Edge::MaxPool(2)), (0, Edge::MaxPool(3))],
        [(2, Edge::Identity), (1, Edge::Square)],
        [(2, Edge::Seven), (2, Edge::MaxPool(3))],
        [(3, Edge::Identity), (1, Edge::MaxPool(2))],
        [(2, Edge::AveragePool), (3, Edge::Pointwise)],
    ],
    joined: &[4, 5, 6],
    stride: 2,
};

fn record(tape: &mut Tape, amoebanet: &AmoebaNet, sizes: &Sizes) -> Result<(), WorkloadError> {
    let image = sizes.or(Size::Image, 224, 32)?;
    let cells = sizes.multiple(Size::Layers, amoebanet.layers, 3)? / 3;
    // The stem has a quarter of the filters, and bottlenecks have a quarter of that.
    let mut width = sizes.multiple(Size::Hidden, amoebanet.filters, 8)? / 4;
    let x = tape.input("image", [sizes.batch(32)?, 3, image, image]);
    let x = tape
        .scope("stem.conv", |tape| unit(tape, "", x, Conv::new(width, Window::square(3).stride(2).pad(1))));
    let mut state = CellOutputs { now: x, before: x };
    for name in ["stem.0", "stem.1"] {
        width *= 2;
        state = tape.scope(name, |tape| REDUCTION.record(tape, state, width));
    }
    for stage in 0..3 {
        if stage > 0 {
            width *= 2;
            let name = format!("reduction.{stage}");
            state = tape.scope(name, |tape| REDUCTION.record(tape, state, width));
        }
        for cell in 0..cells {
            state = tape.scope(format!("stage{stage}.{cell}"), |tape| NORMAL.record(tape, state, width));
        }
    }
    tape.scope("head", |tape| classify(tape, state.now));
    Ok(())
}

/// The outputs of the last two cells.
#[derive(Clone, Copy)]
struct CellOutputs {
    now: Tensor,
    before: Tensor,
}

impl Cell {
    fn record(&self, tape: &mut Tape, state: CellOutputs, width: u64) -> CellOutputs {
        let first = tape.scope("input.0", |tape| unit(tape, "", state.now, pointwise(width)));
        let second = if state.before.dim(2) != state.now.dim(2) {
            tape.scope("input.1", |tape| factorised(tape, state.before, width))
        } else if state.before.dim(1) != width {
            tape.scope("input.1", |tape| unit(tape, "", state.before, pointwise(width)))
        } else {
            state.before
        };
        let mut states = vec![first, second];
        for (index, pair) in self.pairs.iter().enumerate() {
            let [left, right] = [0, 1].map(|side| {
                let (from, edge) = pair[side];
                // Only edges from an input have the stride of the cell.
                let stride = if from < 2 { self.stride } else { 1 };
                tape.scope(format!("{index}.{side}"), |tape| edge.record(tape, states[from], stride))
            });
            states.push(tape.scope(index, |tape| tape.add("add", left, right)));
        }
        let joined: Vec<Tensor> = self.joined.iter().map(|&state| states[state]).collect();
        CellOutputs { now: tape.concat("concat", &joined, 1), before: state.now }
    }
}

impl Edge {
    fn record(self, tape: &mut Tape, x: Tensor, stride: u64) -> Tensor {
        let channels = x.dim(1);
        let inner = channels / 4;
        match self {
            Edge::Identity if stride == 1 => x,
            Edge::Identity => factorised(tape, x, channels),
            Edge::AveragePool => tape.average_pool("average", x, Window::square(3).stride(stride).same()),
            Edge::MaxPool(side) => tape.max_pool("max", x, Window::square(side).stride(stride).same()),
            Edge::Pointwise => {
                unit(tape, "", x, Conv::new(channels, Window::square(1).stride(stride).same()))
            }
            Edge::Square => {
                let x = unit(tape, "0", x, pointwise(inner));
                let x = unit(tape, "1", x, Conv::new(inner, Window::square(3).stride(stride).same()));
                unit(tape, "2", x, pointwise(channels))
            }
            Edge::Seven => {
                let row = Window { stride: (1, stride), ..Window::new(1, 7).same() };
                let column = Window { stride: (stride, 1), ..Window::new(7, 1).same() };
                let x = unit(tape, "0", x, pointwise(inner));
                let x = unit(tape, "1", x, Conv::new(inner, row));
                let x = unit(tape, "2", x, Conv::new(inner, column));
                unit(tape, "3", x, pointwise(channels))
            }
        }
    }
}

fn pointwise(out: u64) -> Conv {
    Conv::new(out, Window::square(1))
}

/// ReLU, convolution, normalisation.
fn unit(tape: &mut Tape, suffix: &str, x: Tensor, conv: Conv) -> Tensor {
    let x = tape.relu(&format!("relu{suffix}"), x);
    let x = tape.conv(&format!("conv{suffix}"), x, conv);
    tape.batch_norm(&format!("norm{suffix}"), x)
}

/// Factorised reduction: halves the size by two strided pointwise convolutions, offset by one pixel.
fn factorised(tape: &mut Tape, x: Tensor, width: u64) -> Tensor {
    let half = Conv::new(width / 2, Window::square(1).stride(2).same());
    let x = tape.relu("relu", x);
    let paths = [0, 1].map(|path| tape.conv(&format!("conv{path}"), x, half));
    let x = tape.concat("concat", &paths, 1);
    tape.batch_norm("norm", x)
}
