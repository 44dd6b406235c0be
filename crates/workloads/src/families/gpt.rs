//! GPT-2: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), table 2, as released.
//! GPT-3: Brown et al., "Language Models are Few-Shot Learners" (2020), table 2.1, with dense attention
//! throughout.
//!
//! The output projection shares the table of the token embedding.
//!
//! | variant | parameters |
//! | --- | --- |
//! | 2-small | 124,439,808 |
//! | 2-medium | 354,823,168 |
//! | 2-large | 774,030,080 |
//! | 2-xl | 1,557,611,200 |
//! | 3-1.3b | 1,320 M |
//! | 3-2.7b | 2,650 M |
//! | 3-6.7b | 6,660 M |
//! | 3-13b | 12,850 M |
//! | 3-175b | 174,600 M |
//!
//! Sources: the released checkpoints for GPT-2; Brown et al., table D.1, for GPT-3. Table 2.1 gives the 13B
//! model a width of 5140 and the 1.3B model 24 heads of 128. Neither fits the other columns; only 5120 and 16
//! heads give the parameters of table D.1.

use crate::blocks::transformer::layer;
use crate::{Definition, Loss, Size, Sizes, Tape, WorkloadError};

pub(crate) struct Gpt {
    layers: u64,
    hidden: u64,
    /// Width of a head.
    head: u64,
    /// Positions with an embedding.
    context: u64,
}

const fn gpt2(layers: u64, hidden: u64) -> Gpt {
    Gpt { layers, hidden, head: 64, context: 1024 }
}

const fn gpt3(layers: u64, hidden: u64, head: u64) -> Gpt {
    Gpt { layers, hidden, head, context: 2048 }
}

pub(crate) static FAMILY: Definition<Gpt> = Definition {
    name: "gpt",
    summary: "transformer decoders for text, sizes of GPT-2 and GPT-3",
    sizes: &[Size::Batch, Size::Sequence, Size::Hidden, Size::Layers, Size::Vocabulary],
    variants: &[
        ("2-small", gpt2(12, 768)),
        ("2-medium", gpt2(24, 1024)),
        ("2-large", gpt2(36, 1280)),
        ("2-xl", gpt2(48, 1600)),
        ("3-1.3b", gpt3(24, 2048, 128)),
        ("3-2.7b", gpt3(32, 2560, 80)),
        ("3-6.7b", gpt3(32, 4096, 128)),
        ("3-13b", gpt3(40, 5120, 128)),
        ("3-175b", gpt3(96, 12_288, 128)),
    ],
    record,
};

fn record(tape: &mut Tape, gpt: &Gpt, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, steps) = (sizes.batch(8)?, sizes.sequence(gpt.context)?);
    let hidden = sizes.multiple(Size::Hidden, gpt.hidden, gpt.head)?;
    let vocabulary = sizes.vocabulary(50_257)?;
    let tokens = tape.indices("tokens", [batch, steps]);
    let (mut x, words) = tape.scope("embeddings", |tape| {
        let (x, words) = tape.embedding("tokens", tokens, vocabulary, [batch, steps, hidden]);
        (tape.add_table("positions", x, gpt.context.max(steps)), words)
    });
    for number in 0..sizes.layers(gpt.layers)? {
        x = tape.scope(format!("decoder.layer.{number}"), |tape| layer(tape, x, gpt.head, true));
    }
    tape.scope("head", |tape| {
        let x = tape.layer_norm("norm", x);
        let x = tape.tied("output", x, vocabulary, words);
        tape.loss("loss", x, Loss::CrossEntropy);
    });
    Ok(())
}
