//! VGG: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (ICLR
//! 2015), table 1, configurations A, B, D and E.
//!
//! | variant | parameters | multiply-adds, one image of 224 × 224 |
//! | --- | --- | --- |
//! | 11 | 132,863,336 | 7.61 G |
//! | 13 | 133,047,848 | 11.31 G |
//! | 16 | 138,357,544 | 15.47 G |
//! | 19 | 143,667,240 | 19.63 G |
//!
//! Source: torchvision, `VGG11_Weights` and its siblings,
//! <https://pytorch.org/vision/stable/models/vgg.html>.

use crate::{Conv, Definition, Loss, Size, Sizes, Tape, Tensor, Window, WorkloadError};

/// Convolutions of each stage.
type Stages = [u64; 5];

pub(crate) static FAMILY: Definition<Stages> = Definition {
    name: "vgg",
    summary: "plain convolutional networks for images",
    sizes: &[Size::Batch, Size::Image],
    variants: &[
        ("16", [2, 2, 3, 3, 3]),
        ("11", [1, 1, 2, 2, 2]),
        ("13", [2, 2, 2, 2, 2]),
        ("19", [2, 2, 4, 4, 4]),
    ],
    record,
};

/// Channels of each stage.
const CHANNELS: [u64; 5] = [64, 128, 256, 512, 512];

fn record(tape: &mut Tape, stages: &Stages, sizes: &Sizes) -> Result<(), WorkloadError> {
    // Five halvings must leave the 7 × 7 pixels that the classifier expects.
    let image = sizes.multiple(Size::Image, 224, 224)?;
    let batch = sizes.batch(32)?;
    let mut x = tape.input("image", [batch, 3, image, image]);
    for (stage, (&count, channels)) in stages.iter().zip(CHANNELS).enumerate() {
        for index in 0..count {
            x = tape.scope(format!("features.{stage}.{index}"), |tape| {
                let x = tape.conv("conv", x, Conv::new(channels, Window::square(3).pad(1)).bias());
                tape.relu("relu", x)
            });
        }
        x = tape.scope(format!("features.{stage}.pool"), |tape| {
            tape.max_pool("max", x, Window::square(2).stride(2))
        });
    }
    if image > 224 {
        let side = image / 224;
        x = tape.scope("features.average", |tape| {
            tape.average_pool("average", x, Window::square(side).stride(side))
        });
    }
    let x = x.view([batch, 512 * 7 * 7]);
    let x = hidden(tape, "classifier.0", x);
    let x = hidden(tape, "classifier.1", x);
    tape.scope("classifier.2", |tape| {
        let x = tape.linear("fc", x, 1000);
        tape.loss("loss", x, Loss::CrossEntropy);
    });
    Ok(())
}

fn hidden(tape: &mut Tape, name: &str, x: Tensor) -> Tensor {
    tape.scope(name, |tape| {
        let x = tape.linear("fc", x, 4096);
        tape.relu("relu", x)
    })
}
