//! WaveNet: van den Oord et al., "WaveNet: A Generative Model for Raw Audio" (2016), sections 2.1 to 2.4,
//! with stacks of nine layers as in device placement papers (Zhou et al., "GDP", 2019: 18 layers in 2
//! stacks, 36 in 4).
//!
//! The paper gives no channel counts. Those used here, 32 in the stacks, 512 in the skips and 256 levels,
//! are the defaults of the best-known implementation (`ibab/tensorflow-wavenet`), as is the filter of two
//! taps.
//!
//! | variant | parameters |
//! | --- | --- |
//! | 2 | 807,360 |
//! | 4 | 1,205,376 |
//!
//! Source: the closed form, with a channels in the stacks, s in the skips and q levels: 2qa + a for the
//! entry, 2 (2a² + a) + (as + s) per layer, a² + a for the residual of every layer but the last, s² + s + sq
//! + q for the exit.

use crate::{Activation, Conv, Definition, Loss, Size, Sizes, Tape, Tensor, Window, WorkloadError};

pub(crate) struct WaveNet {
    stacks: u64,
}

pub(crate) static FAMILY: Definition<WaveNet> = Definition {
    name: "wavenet",
    summary: "stacks of dilated convolutions for audio",
    sizes: &[Size::Batch, Size::Sequence, Size::Hidden, Size::Layers],
    variants: &[("2", WaveNet { stacks: 2 }), ("4", WaveNet { stacks: 4 })],
    record,
};

/// Layers per stack; the dilation doubles from one to the next.
const STACK: u64 = 9;
/// Taps of a filter.
const TAPS: u64 = 2;
/// Channels of the sum of all skips.
const SKIP: u64 = 512;
/// Quantisation levels of a sample.
const LEVELS: u64 = 256;

/// A causal filter along the samples, which form one row.
fn filter(out: u64, taps: u64, dilation: u64) -> Conv {
    Conv::new(out, Window::new(1, taps).same().dilation(dilation)).bias()
}

fn record(tape: &mut Tape, wavenet: &WaveNet, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, samples) = (sizes.batch(1)?, sizes.sequence(16_000)?);
    let channels = sizes.or(Size::Hidden, 32, 1)?;
    let x = tape.input("samples", [batch, LEVELS, 1, samples]);
    let mut x = tape.scope("entry", |tape| tape.conv("causal", x, filter(channels, TAPS, 1)));
    let mut skips: Option<Tensor> = None;
    let stacks = sizes.layers(wavenet.stacks)?;
    for stack in 0..stacks {
        for layer in 0..STACK {
            let last = stack + 1 == stacks && layer + 1 == STACK;
            (x, skips) = tape.scope(format!("stack.{stack}.{layer}"), |tape| {
                let (gated, skip) = gate(tape, x, channels, 1 << layer);
                let skips = skips.map_or(skip, |sum| tape.add("skips", sum, skip));
                // Nothing reads the residual of the last layer.
                let next = if last { x } else { onwards(tape, x, gated) };
                (next, Some(skips))
            });
        }
    }
    let x = skips.unwrap_or(x);
    tape.scope("exit", |tape| {
        let x = tape.relu("relu0", x);
        let x = tape.conv("conv0", x, filter(SKIP, 1, 1));
        let x = tape.relu("relu1", x);
        let x = tape.conv("conv1", x, filter(LEVELS, 1, 1));
        tape.loss("loss", x, Loss::CrossEntropy);
    });
    Ok(())
}

/// The gated activation tanh(W x) σ(V x) and its contribution to the skips.
fn gate(tape: &mut Tape, x: Tensor, channels: u64, dilation: u64) -> (Tensor, Tensor) {
    let signal = tape.conv("filter", x, filter(channels, TAPS, dilation));
    let signal = tape.activate("tanh", signal, Activation::Tanh);
    let gate = tape.conv("gate", x, filter(channels, TAPS, dilation));
    let gate = tape.activate("sigmoid", gate, Activation::Sigmoid);
    let gated = tape.multiply("product", signal, gate);
    let skip = tape.conv("skip", gated, filter(SKIP, 1, 1));
    (gated, skip)
}

fn onwards(tape: &mut Tape, x: Tensor, gated: Tensor) -> Tensor {
    let y = tape.conv("residual", gated, filter(x.dim(1), 1, 1));
    tape.add("add", y, x)
}
