//! The U-Net of latent diffusion: Rombach, Blattmann, Lorenz, Esser and Ommer, "High-Resolution Image
//! Synthesis with Latent Diffusion Models" (CVPR 2022), in the version of Stable Diffusion 1; after
//! Ronneberger, Fischer and Brox, "U-Net" (2015).
//!
//! | variant | parameters | multiply-adds, one latent of 64 × 64 |
//! | --- | --- | --- |
//! | stable-diffusion-1 | 859,520,964 | 338.7 G, layers with weights alone |
//!
//! Sources: the documentation of diffusers for the parameters (`ModelMixin.num_parameters`); the authors of
//! Kim et al., "BK-SDM" (2023), for the multiply-adds, <https://github.com/Nota-NetsPresso/BK-SDM/issues/53>.
//! The image size is in latent pixels, each of which covers 8 × 8 pixels of the picture; the sequence is the
//! text.

use crate::blocks::transformer::Attention;
use crate::{Activation, Conv, Definition, Loss, Size, Sizes, Tape, Tensor, Window, WorkloadError};

pub(crate) struct UNet {
    /// Channels of the first level; the other levels have multiples.
    channels: u64,
    multiples: [u64; 4],
    heads: u64,
    /// Width of the text embeddings.
    text: u64,
}

pub(crate) static FAMILY: Definition<UNet> = Definition {
    name: "unet",
    summary: "convolutional diffusion denoisers with cross-attention to text",
    sizes: &[Size::Batch, Size::Image, Size::Sequence, Size::Hidden],
    variants: &[("stable-diffusion-1", UNet { channels: 320, multiples: [1, 2, 4, 4], heads: 8, text: 768 })],
    record,
};

/// Groups of a group normalisation.
const GROUPS: u64 = 32;
/// Residual blocks per level of the encoder; the decoder has one more.
const BLOCKS: usize = 2;
/// Channels of a latent.
const LATENT: u64 = 4;

const THREE: Window = Window::square(3).pad(1);

/// Inputs of every block.
#[derive(Clone, Copy)]
struct Condition {
    time: Tensor,
    text: Tensor,
    heads: u64,
}

fn record(tape: &mut Tape, unet: &UNet, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, image) = (sizes.batch(4)?, sizes.multiple(Size::Image, 64, 8)?);
    let tokens = sizes.sequence(77)?;
    // Groups and heads must divide the channels of every level.
    let channels = sizes.multiple(Size::Hidden, unet.channels, GROUPS)?;
    let latent = tape.input("latent", [batch, LATENT, image, image]);
    let text = tape.input("text", [batch, tokens, unet.text]);
    let sinusoids = tape.input("time", [batch, channels]);
    let time = tape.scope("time_embedding", |tape| {
        let x = tape.linear("0", sinusoids, 4 * channels);
        let x = tape.activate("activation", x, Activation::Silu);
        tape.linear("1", x, 4 * channels)
    });
    let condition = Condition { time, text, heads: unet.heads };
    let widths = unet.multiples.map(|multiple| multiple * channels);
    let deepest = widths.len() - 1;

    let mut x = tape.scope("entry", |tape| tape.conv("conv", latent, Conv::new(channels, THREE).bias()));
    let mut skips = vec![x];
    for (level, &width) in widths.iter().enumerate() {
        for block in 0..BLOCKS {
            x = stage(tape, &format!("down.{level}.{block}"), x, width, level < deepest, condition);
            skips.push(x);
        }
        if level < deepest {
            let half = Conv::new(width, THREE.stride(2)).bias();
            x = tape.scope(format!("down.{level}.half"), |tape| tape.conv("conv", x, half));
            skips.push(x);
        }
    }
    x = stage(tape, "middle.0", x, widths[deepest], true, condition);
    x = stage(tape, "middle.1", x, widths[deepest], false, condition);
    for (level, &width) in widths.iter().enumerate().rev() {
        for block in 0..=BLOCKS {
            let skip = skips.pop().unwrap_or(x);
            let joined =
                tape.scope(format!("up.{level}.{block}.join"), |tape| tape.concat("concat", &[x, skip], 1));
            x = stage(tape, &format!("up.{level}.{block}"), joined, width, level < deepest, condition);
        }
        if level > 0 {
            x = tape.scope(format!("up.{level}.double"), |tape| {
                let x = tape.upsample("nearest", x, 2);
                tape.conv("conv", x, Conv::new(width, THREE).bias())
            });
        }
    }
    tape.scope("exit", |tape| {
        let x = tape.group_norm("norm", x, GROUPS);
        let x = tape.activate("activation", x, Activation::Silu);
        let x = tape.conv("conv", x, Conv::new(LATENT, THREE).bias());
        tape.loss("loss", x, Loss::Square);
    });
    Ok(())
}

/// A residual block, followed at most levels by a transformer.
fn stage(tape: &mut Tape, name: &str, x: Tensor, width: u64, attends: bool, condition: Condition) -> Tensor {
    tape.scope(name, |tape| {
        let x = tape.scope("residual", |tape| residual(tape, x, width, condition.time));
        if attends { transformer(tape, x, condition) } else { x }
    })
}

fn residual(tape: &mut Tape, x: Tensor, width: u64, time: Tensor) -> Tensor {
    let y = tape.group_norm("norm0", x, GROUPS);
    let y = tape.activate("activation0", y, Activation::Silu);
    let y = tape.conv("conv0", y, Conv::new(width, THREE).bias());
    let shift = tape.activate("time_activation", time, Activation::Silu);
    let shift = tape.linear("time", shift, width);
    let y = tape.add("shift", y, shift);
    let y = tape.group_norm("norm1", y, GROUPS);
    let y = tape.activate("activation1", y, Activation::Silu);
    let y = tape.conv("conv1", y, Conv::new(width, THREE).bias());
    let shortcut = if x.dim(1) == width {
        x
    } else {
        tape.conv("shortcut", x, Conv::new(width, Window::square(1)).bias())
    };
    tape.add("add", y, shortcut)
}

/// A transformer in which pixels attend to each other and to the text.
fn transformer(tape: &mut Tape, x: Tensor, condition: Condition) -> Tensor {
    let (batch, width, height, across) = (x.dim(0), x.dim(1), x.dim(2), x.dim(3));
    let project = Conv::new(width, Window::square(1)).bias();
    let attention = Attention {
        bias: false,
        output_bias: true,
        ..Attention::plain(condition.heads, width / condition.heads)
    };
    let y = tape.scope("entry", |tape| {
        let y = tape.group_norm("norm", x, GROUPS);
        tape.conv("project", y, project).view([batch, height * across, width])
    });
    let y = tape.scope("self_attention", |tape| {
        let z = tape.layer_norm("norm", y);
        let z = attention.record(tape, z, z);
        tape.add("add", z, y)
    });
    let y = tape.scope("text_attention", |tape| {
        let z = tape.layer_norm("norm", y);
        let z = attention.record(tape, z, condition.text);
        tape.add("add", z, y)
    });
    let y = tape.scope("feed_forward", |tape| {
        let z = tape.layer_norm("norm", y);
        // One product for the value and its gate, split afterwards.
        let both = tape.linear("up", z, 8 * width);
        let halves = tape.split("split", both, 2, &[4 * width; 2]);
        let gate = tape.activate("activation", halves[1], Activation::Gelu);
        let z = tape.multiply("product", halves[0], gate);
        let z = tape.linear("down", z, width);
        tape.add("add", z, y)
    });
    tape.scope("exit", |tape| {
        let y = tape.conv("project", y.view([batch, width, height, across]), project);
        tape.add("add", y, x)
    })
}
