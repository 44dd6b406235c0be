//! RNNLM: the large regularised model of Zaremba, Sutskever and Vinyals, "Recurrent Neural Network
//! Regularization" (2014), section 4.1, unrolled; with four and eight layers as in device placement papers
//! (Zhou et al., "GDP", 2019).
//!
//! | variant | parameters |
//! | --- | --- |
//! | 2 | 66,022,000 |
//! | 4 | 102,034,000 |
//! | 8 | 174,058,000 |
//!
//! Source: the closed form, since no source gives more digits than 66 M: 10,000 words, width h = 1500, l
//! layers of 4h (2h + 1), a token table, and a projection with a bias.

use crate::blocks::recurrent::{Biases, Lstm, STEP_OPERATORS, sequence_of, steps_of, unroll};
use crate::{Definition, Loss, Size, Sizes, Tape, WorkloadError};

pub(crate) struct Rnnlm {
    layers: u64,
}

pub(crate) static FAMILY: Definition<Rnnlm> = Definition {
    name: "rnnlm",
    summary: "unrolled recurrent language models",
    sizes: &[Size::Batch, Size::Sequence, Size::Hidden, Size::Layers, Size::Vocabulary],
    variants: &[("2", Rnnlm { layers: 2 }), ("4", Rnnlm { layers: 4 }), ("8", Rnnlm { layers: 8 })],
    record,
};

fn record(tape: &mut Tape, rnnlm: &Rnnlm, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, length) = (sizes.batch(20)?, sizes.sequence(35)?);
    let hidden = sizes.or(Size::Hidden, 1500, 1)?;
    let vocabulary = sizes.vocabulary(10_000)?;
    let layers = sizes.layers(rnnlm.layers)?;
    tape.expect(layers * length * STEP_OPERATORS)?;
    let tokens = tape.indices("tokens", [batch, length]);
    let mut steps = tape.scope("embedding", |tape| {
        let (x, _) = tape.embedding("tokens", tokens, vocabulary, [batch, length, hidden]);
        steps_of(tape, "steps", x)
    });
    for layer in 0..layers {
        steps = tape.scope(format!("layer.{layer}"), |tape| {
            let lstm = Lstm::new(tape, batch, hidden, hidden, Biases::One);
            unroll(tape, lstm, &steps, false)
        });
    }
    tape.scope("softmax", |tape| {
        let x = sequence_of(tape, "sequence", &steps);
        let x = tape.linear("projection", x, vocabulary);
        tape.loss("loss", x, Loss::CrossEntropy);
    });
    Ok(())
}
