//! Inception-v3: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (CVPR 2016),
//! table 1.
//!
//! | variant | parameters | multiply-adds, one image of 299 × 299 |
//! | --- | --- | --- |
//! | auxiliary | 27,161,264 | 5.71 G, as run for inference |
//! | plain | 23,834,568 | 5.71 G |
//!
//! `auxiliary` has the second classifier of training; inference does not run it, and its graph leaves it
//! out. Source: torchvision, `Inception_V3_Weights`,
//! <https://pytorch.org/vision/stable/models/generated/torchvision.models.inception_v3.html>; without the
//! auxiliary classifier, timm's `inception_v3` (23.83 M),
//! <https://huggingface.co/timm/inception_v3.tv_in1k>.

use crate::blocks::image::{classify, conv_norm_relu};
use crate::{Conv, Definition, Size, Sizes, Tape, Tensor, Window, WorkloadError};

pub(crate) struct Inception {
    auxiliary: bool,
}

pub(crate) static FAMILY: Definition<Inception> = Definition {
    name: "inception-v3",
    summary: "convolutional networks of branching modules for images",
    sizes: &[Size::Batch, Size::Image],
    variants: &[("plain", Inception { auxiliary: false }), ("auxiliary", Inception { auxiliary: true })],
    record,
};

/// The window of a convolution that preserves the size of its input.
const fn keep(rows: u64, columns: u64) -> Window {
    Window::new(rows, columns).same()
}

const ONE: Window = keep(1, 1);
const THREE: Window = keep(3, 3);
const REDUCE: Window = Window::square(3).stride(2);

fn record(tape: &mut Tape, inception: &Inception, sizes: &Sizes) -> Result<(), WorkloadError> {
    let image = sizes.or(Size::Image, 299, 75)?;
    let batch = sizes.batch(32)?;
    let x = tape.input("image", [batch, 3, image, image]);
    let x = unit(tape, "stem.0", x, 32, REDUCE);
    let x = unit(tape, "stem.1", x, 32, Window::square(3));
    let x = unit(tape, "stem.2", x, 64, THREE);
    let x = tape.scope("stem.pool0", |tape| tape.max_pool("max", x, REDUCE));
    let x = unit(tape, "stem.3", x, 80, ONE);
    let x = unit(tape, "stem.4", x, 192, Window::square(3));
    let mut x = tape.scope("stem.pool1", |tape| tape.max_pool("max", x, REDUCE));
    for (name, pool) in [("5b", 32), ("5c", 64), ("5d", 64)] {
        x = module(tape, name, |tape| module_a(tape, x, pool));
    }
    x = module(tape, "6a", |tape| module_b(tape, x));
    for (name, inner) in [("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)] {
        x = module(tape, name, |tape| module_c(tape, x, inner));
    }
    if inception.auxiliary && tape.training {
        tape.scope("auxiliary", |tape| auxiliary(tape, x));
    }
    x = module(tape, "7a", |tape| module_d(tape, x));
    for name in ["7b", "7c"] {
        x = module(tape, name, |tape| module_e(tape, x));
    }
    tape.scope("head", |tape| classify(tape, x));
    Ok(())
}

/// Concatenated branches.
fn module(tape: &mut Tape, name: &str, branches: impl FnOnce(&mut Tape) -> Vec<Tensor>) -> Tensor {
    tape.scope(format!("mixed_{name}"), |tape| {
        let parts = branches(tape);
        tape.concat("concat", &parts, 1)
    })
}

fn unit(tape: &mut Tape, name: &str, x: Tensor, out: u64, window: Window) -> Tensor {
    conv_norm_relu(tape, name, x, Conv::new(out, window))
}

/// A sequence of units.
fn chain(tape: &mut Tape, name: &str, x: Tensor, units: &[(u64, Window)]) -> Tensor {
    units
        .iter()
        .enumerate()
        .fold(x, |x, (index, &(out, window))| unit(tape, &format!("{name}.{index}"), x, out, window))
}

/// Average pooling that preserves the size, then a unit.
fn pooled(tape: &mut Tape, x: Tensor, out: u64) -> Tensor {
    let y = tape.scope("pool.average", |tape| tape.average_pool("average", x, THREE));
    unit(tape, "pool.0", y, out, ONE)
}

/// Max pooling that halves the size.
fn reduced(tape: &mut Tape, x: Tensor) -> Tensor {
    tape.scope("pool", |tape| tape.max_pool("max", x, REDUCE))
}

fn module_a(tape: &mut Tape, x: Tensor, pool: u64) -> Vec<Tensor> {
    vec![
        chain(tape, "branch1x1", x, &[(64, ONE)]),
        chain(tape, "branch5x5", x, &[(48, ONE), (64, keep(5, 5))]),
        chain(tape, "branch3x3", x, &[(64, ONE), (96, THREE), (96, THREE)]),
        pooled(tape, x, pool),
    ]
}

fn module_b(tape: &mut Tape, x: Tensor) -> Vec<Tensor> {
    vec![
        chain(tape, "branch3x3", x, &[(384, REDUCE)]),
        chain(tape, "branch3x3_double", x, &[(64, ONE), (96, THREE), (96, REDUCE)]),
        reduced(tape, x),
    ]
}

fn module_c(tape: &mut Tape, x: Tensor, inner: u64) -> Vec<Tensor> {
    let (row, column) = (keep(1, 7), keep(7, 1));
    vec![
        chain(tape, "branch1x1", x, &[(192, ONE)]),
        chain(tape, "branch7x7", x, &[(inner, ONE), (inner, row), (192, column)]),
        chain(
            tape,
            "branch7x7_double",
            x,
            &[(inner, ONE), (inner, column), (inner, row), (inner, column), (192, row)],
        ),
        pooled(tape, x, 192),
    ]
}

fn module_d(tape: &mut Tape, x: Tensor) -> Vec<Tensor> {
    vec![
        chain(tape, "branch3x3", x, &[(192, ONE), (320, REDUCE)]),
        chain(tape, "branch7x7", x, &[(192, ONE), (192, keep(1, 7)), (192, keep(7, 1)), (192, REDUCE)]),
        reduced(tape, x),
    ]
}

fn module_e(tape: &mut Tape, x: Tensor) -> Vec<Tensor> {
    let mut parts = vec![chain(tape, "branch1x1", x, &[(320, ONE)])];
    let stems = [
        ("branch3x3", chain(tape, "branch3x3", x, &[(384, ONE)])),
        ("branch3x3_double", chain(tape, "branch3x3_double", x, &[(448, ONE), (384, THREE)])),
    ];
    for (name, stem) in stems {
        parts.push(unit(tape, &format!("{name}.row"), stem, 384, keep(1, 3)));
        parts.push(unit(tape, &format!("{name}.column"), stem, 384, keep(3, 1)));
    }
    parts.push(pooled(tape, x, 192));
    parts
}

fn auxiliary(tape: &mut Tape, x: Tensor) {
    let x = tape.scope("pool", |tape| tape.average_pool("average", x, Window::square(5).stride(3)));
    let x = unit(tape, "0", x, 128, ONE);
    let x = unit(tape, "1", x, 768, Window::square(5));
    tape.scope("head", |tape| classify(tape, x));
}
