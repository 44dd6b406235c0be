//! NASNet-A: Zoph, Vasudevan, Shlens and Le, "Learning Transferable Architectures for Scalable Image
//! Recognition" (CVPR 2018), figure 4; written N @ P for N normal cells between reductions and P filters
//! before the classifier.
//!
//! | variant | | parameters | multiply-adds | image |
//! | --- | --- | --- | --- | --- |
//! | large | 6 @ 4032 | 88,753,150 | 23.8 G | 331 |
//! | mobile | 4 @ 1056 | 5,289,978 | 564 M | 224 |
//!
//! Sources: tables 2 and 3 of the paper for multiply-adds and rounded parameters; the exact parameters,
//! without the running statistics, are those of the released checkpoints, as in timm's `nasnetalarge` and
//! the model tests of `osmr/imgclsmob`.

use crate::blocks::image::classify;
use crate::{Conv, Definition, Size, Sizes, Tape, Tensor, Window, WorkloadError};

pub(crate) struct NasNet {
    image: u64,
    /// Normal cells between reductions.
    cells: u64,
    /// Filters before the classifier.
    filters: u64,
    /// Filters of the first convolution.
    stem: u64,
    /// Whether the cell after a reduction takes its second input from before the reduction.
    skip_reduction: bool,
}

pub(crate) static FAMILY: Definition<NasNet> = Definition {
    name: "nasnet-a",
    summary: "convolutional networks of cells from architecture search, for images",
    sizes: &[Size::Batch, Size::Image, Size::Hidden, Size::Layers],
    variants: &[
        ("large", NasNet { image: 331, cells: 6, filters: 4032, stem: 96, skip_reduction: true }),
        ("mobile", NasNet { image: 224, cells: 4, filters: 1056, stem: 32, skip_reduction: false }),
    ],
    record,
};

/// Ratio of the filters before the classifier to those of the first stage: the last cells concatenate six
/// tensors of four times the width.
const FILTERS: u64 = 24;

fn record(tape: &mut Tape, nasnet: &NasNet, sizes: &Sizes) -> Result<(), WorkloadError> {
    let image = sizes.or(Size::Image, nasnet.image, 32)?;
    // The width is halved twice in the stem, and once more for the two paths of a factorised reduction.
    let width = sizes.multiple(Size::Hidden, nasnet.filters, 8 * FILTERS / 2)? / FILTERS;
    let cells = sizes.layers(nasnet.cells)?;
    let x = tape.input("image", [sizes.batch(32)?, 3, image, image]);
    let x = tape.scope("stem.conv", |tape| {
        let x = tape.conv("conv", x, Conv::new(nasnet.stem, Window::square(3).stride(2)));
        tape.batch_norm("norm", x)
    });
    let mut state = CellOutputs { now: x, before: None };
    state = reduction(tape, "stem.0", state, width / 4);
    state = reduction(tape, "stem.1", state, width / 2);
    for stage in 0..3 {
        let width = width << stage;
        if stage > 0 {
            let reduced = reduction(tape, &format!("reduction.{stage}"), state, width);
            let before = if nasnet.skip_reduction { state.before } else { reduced.before };
            state = CellOutputs { now: reduced.now, before };
        }
        for cell in 0..cells {
            state = normal(tape, &format!("stage{stage}.{cell}"), state, width);
        }
    }
    tape.scope("head", |tape| {
        let x = tape.relu("relu", state.now);
        classify(tape, x);
    });
    Ok(())
}

/// The outputs of the last two cells.
#[derive(Clone, Copy)]
struct CellOutputs {
    now: Tensor,
    before: Option<Tensor>,
}

/// ReLU, pointwise convolution, normalisation.
fn squeeze(tape: &mut Tape, name: &str, x: Tensor, width: u64) -> Tensor {
    tape.scope(name, |tape| {
        let x = tape.relu("relu", x);
        let x = tape.conv("conv", x, Conv::new(width, Window::square(1)));
        tape.batch_norm("norm", x)
    })
}

/// The output of the cell before the last, adjusted to the size and width of the last.
fn adjust(tape: &mut Tape, state: CellOutputs, width: u64) -> Tensor {
    match state.before {
        None => state.now,
        Some(before) if before.dim(2) != state.now.dim(2) => tape.scope("adjust", |tape| {
            let x = tape.relu("relu", before);
            let half = Conv::new(width / 2, Window::square(1));
            let every_other = Window::square(1).stride(2).same();
            let paths = [0, 1].map(|path| {
                let x = tape.average_pool(&format!("shift{path}"), x, every_other);
                tape.conv(&format!("conv{path}"), x, half)
            });
            let x = tape.concat("concat", &paths, 1);
            tape.batch_norm("norm", x)
        }),
        Some(before) if before.dim(1) != width => squeeze(tape, "adjust", before, width),
        Some(before) => before,
    }
}

/// ReLU, separable convolution and normalisation, twice; the first has the stride.
fn separable(tape: &mut Tape, name: &str, x: Tensor, width: u64, side: u64, stride: u64) -> Tensor {
    tape.scope(name, |tape| {
        [stride, 1].into_iter().enumerate().fold(x, |x, (index, stride)| {
            let x = tape.relu(&format!("relu{index}"), x);
            let depthwise = Conv::new(x.dim(1), Window::square(side).stride(stride).same()).groups(x.dim(1));
            let x = tape.conv(&format!("depthwise{index}"), x, depthwise);
            let x = tape.conv(&format!("pointwise{index}"), x, Conv::new(width, Window::square(1)));
            tape.batch_norm(&format!("norm{index}"), x)
        })
    })
}

fn average(tape: &mut Tape, name: &str, x: Tensor, stride: u64) -> Tensor {
    tape.scope(name, |tape| tape.average_pool("average", x, Window::square(3).stride(stride).same()))
}

fn maximum(tape: &mut Tape, name: &str, x: Tensor) -> Tensor {
    tape.scope(name, |tape| tape.max_pool("max", x, Window::square(3).stride(2).same()))
}

fn sum(tape: &mut Tape, name: &str, left: Tensor, right: Tensor) -> Tensor {
    tape.scope(name, |tape| tape.add("add", left, right))
}

fn normal(tape: &mut Tape, name: &str, state: CellOutputs, width: u64) -> CellOutputs {
    tape.scope(name, |tape| {
        let p = adjust(tape, state, width);
        let h = squeeze(tape, "squeeze", state.now, width);
        let left = separable(tape, "0.left", h, width, 5, 1);
        let right = separable(tape, "0.right", p, width, 3, 1);
        let a = sum(tape, "0", left, right);
        let left = separable(tape, "1.left", p, width, 5, 1);
        let right = separable(tape, "1.right", p, width, 3, 1);
        let b = sum(tape, "1", left, right);
        let left = average(tape, "2.left", h, 1);
        let c = sum(tape, "2", left, p);
        let left = average(tape, "3.left", p, 1);
        let right = average(tape, "3.right", p, 1);
        let d = sum(tape, "3", left, right);
        let left = separable(tape, "4.left", h, width, 3, 1);
        let e = sum(tape, "4", left, h);
        let now = tape.concat("concat", &[p, a, b, c, d, e], 1);
        CellOutputs { now, before: Some(state.now) }
    })
}

fn reduction(tape: &mut Tape, name: &str, state: CellOutputs, width: u64) -> CellOutputs {
    tape.scope(name, |tape| {
        let p = adjust(tape, state, width);
        let h = squeeze(tape, "squeeze", state.now, width);
        let left = separable(tape, "0.left", h, width, 5, 2);
        let right = separable(tape, "0.right", p, width, 7, 2);
        let a = sum(tape, "0", left, right);
        let left = maximum(tape, "1.left", h);
        let right = separable(tape, "1.right", p, width, 7, 2);
        let b = sum(tape, "1", left, right);
        let left = average(tape, "2.left", h, 2);
        let right = separable(tape, "2.right", p, width, 5, 2);
        let c = sum(tape, "2", left, right);
        let left = average(tape, "3.left", a, 1);
        let d = sum(tape, "3", left, b);
        let left = separable(tape, "4.left", a, width, 3, 1);
        let right = maximum(tape, "4.right", h);
        let e = sum(tape, "4", left, right);
        let now = tape.concat("concat", &[b, c, d, e], 1);
        CellOutputs { now, before: Some(state.now) }
    })
}
