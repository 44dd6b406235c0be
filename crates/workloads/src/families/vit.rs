//! ViT: Dosovitskiy et al., "An Image is Worth 16x16 Words" (ICLR 2021), table 1.
//!
//! | variant | parameters | multiply-adds, one image of 224 × 224 |
//! | --- | --- | --- |
//! | b16 | 86,567,656 | 17.56 G |
//! | b32 | 88,224,232 | 4.41 G |
//! | l16 | 304,326,632 | 61.55 G |
//! | l32 | 306,535,400 | 15.38 G |
//! | h14 | 632,045,800 | 167.29 G |
//!
//! Source: torchvision, `ViT_B_16_Weights` and its siblings,
//! <https://pytorch.org/vision/stable/models/vision_transformer.html>.

use crate::blocks::transformer::layer;
use crate::{Conv, Definition, Loss, Size, Sizes, Tape, Window, WorkloadError};

pub(crate) struct Vit {
    /// Side of a patch in pixels.
    patch: u64,
    layers: u64,
    hidden: u64,
    heads: u64,
}

const fn base(patch: u64) -> Vit {
    Vit { patch, layers: 12, hidden: 768, heads: 12 }
}

const fn large(patch: u64) -> Vit {
    Vit { patch, layers: 24, hidden: 1024, heads: 16 }
}

pub(crate) static FAMILY: Definition<Vit> = Definition {
    name: "vit",
    summary: "transformer encoders for images",
    sizes: &[Size::Batch, Size::Image, Size::Hidden, Size::Layers],
    variants: &[
        ("b16", base(16)),
        ("b32", base(32)),
        ("l16", large(16)),
        ("l32", large(32)),
        ("h14", Vit { patch: 14, layers: 32, hidden: 1280, heads: 16 }),
    ],
    record,
};

fn record(tape: &mut Tape, vit: &Vit, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, image) = (sizes.batch(32)?, sizes.multiple(Size::Image, 224, vit.patch)?);
    let head = vit.hidden / vit.heads;
    let hidden = sizes.multiple(Size::Hidden, vit.hidden, head)?;
    let patches = (image / vit.patch) * (image / vit.patch);
    let x = tape.input("image", [batch, 3, image, image]);
    let mut x = tape.scope("embeddings", |tape| {
        let window = Window::square(vit.patch).stride(vit.patch);
        let x = tape.conv("patches", x, Conv::new(hidden, window).bias()).view([batch, patches, hidden]);
        let class = tape.variable("class", [1, 1, hidden]);
        let x = tape.concat("concat", &[x, class], 1);
        tape.add_table("positions", x, patches + 1)
    });
    for number in 0..sizes.layers(vit.layers)? {
        x = tape.scope(format!("encoder.layer.{number}"), |tape| layer(tape, x, head, false));
    }
    tape.scope("head", |tape| {
        let x = tape.layer_norm("norm", x);
        let x = tape.slice("class", x, [batch, hidden]);
        let x = tape.linear("fc", x, 1000);
        tape.loss("loss", x, Loss::CrossEntropy);
    });
    Ok(())
}
