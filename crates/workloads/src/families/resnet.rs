//! ResNet: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition" (CVPR 2016), table 1.
//!
//! The bottleneck has its stride in the 3 × 3 convolution, as in the implementations behind the published
//! weights.
//!
//! | variant | parameters | multiply-adds, one image of 224 × 224 |
//! | --- | --- | --- |
//! | 50 | 25,557,032 | 4.09 G |
//! | 101 | 44,549,160 | 7.80 G |
//! | 152 | 60,192,808 | 11.51 G |
//!
//! Source: torchvision, `ResNet50_Weights`, `ResNet101_Weights`, `ResNet152_Weights`,
//! <https://pytorch.org/vision/stable/models/resnet.html>.

use crate::blocks::image::{classify, conv_norm, conv_norm_relu};
use crate::{Conv, Definition, Size, Sizes, Tape, Tensor, Window, WorkloadError};

/// Blocks of each stage.
type Blocks = [u64; 4];

pub(crate) static FAMILY: Definition<Blocks> = Definition {
    name: "resnet",
    summary: "residual networks of bottlenecks for images",
    sizes: &[Size::Batch, Size::Image],
    variants: &[("50", [3, 4, 6, 3]), ("101", [3, 4, 23, 3]), ("152", [3, 8, 36, 3])],
    record,
};

/// Ratio of a bottleneck's output channels to its inner channels.
const EXPANSION: u64 = 4;

fn record(tape: &mut Tape, blocks: &Blocks, sizes: &Sizes) -> Result<(), WorkloadError> {
    let image = sizes.or(Size::Image, 224, 32)?;
    let x = tape.input("image", [sizes.batch(32)?, 3, image, image]);
    let x = conv_norm_relu(tape, "stem", x, Conv::new(64, Window::square(7).stride(2).pad(3)));
    let mut x = tape.scope("pool", |tape| tape.max_pool("max", x, Window::square(3).stride(2).pad(1)));
    for (stage, &count) in blocks.iter().enumerate() {
        let width = 64 << stage;
        for block in 0..count {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            x = tape.scope(format!("layer{}.{block}", stage + 1), |tape| bottleneck(tape, x, width, stride));
        }
    }
    tape.scope("head", |tape| classify(tape, x));
    Ok(())
}

fn bottleneck(tape: &mut Tape, x: Tensor, width: u64, stride: u64) -> Tensor {
    let out = width * EXPANSION;
    let y = conv_norm_relu(tape, "conv1", x, Conv::new(width, Window::square(1)));
    let y = conv_norm_relu(tape, "conv2", y, Conv::new(width, Window::square(3).stride(stride).pad(1)));
    let y = conv_norm(tape, "conv3", y, Conv::new(out, Window::square(1)));
    let shortcut = if x.dim(1) == out {
        x
    } else {
        conv_norm(tape, "downsample", x, Conv::new(out, Window::square(1).stride(stride)))
    };
    let sum = tape.add("add", y, shortcut);
    tape.relu("relu", sum)
}
