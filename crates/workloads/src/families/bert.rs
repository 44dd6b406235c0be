//! BERT: Devlin, Chang, Lee and Toutanova, "BERT: Pre-training of Deep Bidirectional Transformers for
//! Language Understanding" (NAACL 2019), section 3; vocabulary of the uncased models.
//!
//! `base` and `large` end in the pooled first token, the `…-pretraining` variants in the two heads of the
//! pre-training task.
//!
//! | variant | parameters |
//! | --- | --- |
//! | base | 109,482,240 |
//! | large | 335,141,888 |
//! | base-pretraining | 110,106,428 |
//! | large-pretraining | 336,226,108 |
//!
//! Sources: the released checkpoints; for `base-pretraining` the closed form of the two heads.

use crate::blocks::transformer::{Attention, feed_forward};
use crate::{Activation, Definition, Loss, Owner, Size, Sizes, Tape, Tensor, WorkloadError};

pub(crate) struct Bert {
    layers: u64,
    hidden: u64,
    pretraining: bool,
}

const fn base(pretraining: bool) -> Bert {
    Bert { layers: 12, hidden: 768, pretraining }
}

const fn large(pretraining: bool) -> Bert {
    Bert { layers: 24, hidden: 1024, pretraining }
}

pub(crate) static FAMILY: Definition<Bert> = Definition {
    name: "bert",
    summary: "bidirectional transformer encoders for text",
    sizes: &[Size::Batch, Size::Sequence, Size::Hidden, Size::Layers, Size::Vocabulary],
    variants: &[
        ("base", base(false)),
        ("large", large(false)),
        ("base-pretraining", base(true)),
        ("large-pretraining", large(true)),
    ],
    record,
};

/// Width of a head in every variant.
const HEAD: u64 = 64;

/// Positions with an embedding.
const POSITIONS: u64 = 512;

fn record(tape: &mut Tape, bert: &Bert, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, steps) = (sizes.batch(32)?, sizes.sequence(512)?);
    let hidden = sizes.multiple(Size::Hidden, bert.hidden, HEAD)?;
    let vocabulary = sizes.vocabulary(30_522)?;
    let shape = [batch, steps, hidden];
    let tokens = tape.indices("tokens", [batch, steps]);
    let segments = tape.indices("segments", [batch, steps]);
    let (mut x, words) = tape.scope("embeddings", |tape| {
        let (x, words) = tape.embedding("words", tokens, vocabulary, shape);
        let x = tape.add_table("positions", x, POSITIONS.max(steps));
        let (segments, _) = tape.embedding("segments", segments, 2, shape);
        let x = tape.add("add", x, segments);
        (tape.layer_norm("norm", x), words)
    });
    for layer in 0..sizes.layers(bert.layers)? {
        x = tape.scope(format!("encoder.layer.{layer}"), |tape| encoder(tape, x));
    }
    let pooled = tape.scope("pooler", |tape| {
        let first = tape.slice("first", x, [batch, hidden]);
        let pooled = tape.linear("dense", first, hidden);
        tape.activate("tanh", pooled, Activation::Tanh)
    });
    if bert.pretraining {
        tape.scope("masked_tokens", |tape| masked_tokens(tape, x, words, vocabulary));
        tape.scope("next_sentence", |tape| {
            let x = tape.linear("dense", pooled, 2);
            tape.loss("loss", x, Loss::CrossEntropy);
        });
    } else {
        tape.scope("pooler", |tape| tape.loss("loss", pooled, Loss::CrossEntropy));
    }
    Ok(())
}

fn encoder(tape: &mut Tape, x: Tensor) -> Tensor {
    let hidden = x.last();
    let x = tape.scope("attention", |tape| {
        let y = Attention::plain(hidden / HEAD, HEAD).record(tape, x, x);
        let y = tape.add("add", y, x);
        tape.layer_norm("norm", y)
    });
    tape.scope("feed_forward", |tape| {
        let y = feed_forward(tape, x, 4 * hidden, Activation::Gelu);
        let y = tape.add("add", y, x);
        tape.layer_norm("norm", y)
    })
}

fn masked_tokens(tape: &mut Tape, x: Tensor, words: Owner, vocabulary: u64) {
    let x = tape.linear("dense", x, x.last());
    let x = tape.activate("activation", x, Activation::Gelu);
    let x = tape.layer_norm("norm", x);
    let x = tape.tied("decoder", x, vocabulary, words);
    let x = tape.bias("bias", x);
    tape.loss("loss", x, Loss::CrossEntropy);
}
