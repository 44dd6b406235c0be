//! Convolutions with their normalisation and activation.

use crate::{Conv, Loss, Tape, Tensor};

/// Convolution and batch normalisation as one layer.
pub(crate) fn conv_norm(tape: &mut Tape, name: &str, x: Tensor, conv: Conv) -> Tensor {
    tape.scope(name, |tape| {
        let x = tape.conv("conv", x, conv);
        tape.batch_norm("norm", x)
    })
}

/// Convolution, batch normalisation and rectifier as one layer.
pub(crate) fn conv_norm_relu(tape: &mut Tape, name: &str, x: Tensor, conv: Conv) -> Tensor {
    tape.scope(name, |tape| {
        let x = tape.conv("conv", x, conv);
        let x = tape.batch_norm("norm", x);
        tape.relu("relu", x)
    })
}

/// Pooling over the whole image, the scores of 1000 classes, and the loss.
pub(crate) fn classify(tape: &mut Tape, x: Tensor) {
    let x = tape.global_pool("pool", x);
    let x = tape.linear("fc", x, 1000);
    tape.loss("loss", x, Loss::CrossEntropy);
}
