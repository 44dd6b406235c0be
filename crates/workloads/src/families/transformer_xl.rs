//! Transformer-XL: Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context" (ACL
//! 2019), section 3, with the sizes of its enwik8 models; two, four and eight layers as in device placement
//! papers (Zhou et al., "GDP", 2019).
//!
//! | variant | parameters |
//! | --- | --- |
//! | 2, 4, 8 | the closed form of the 12-layer model |
//! | 12 | 41 M |
//! | 24 | 277 M |
//!
//! Source: Dai et al., table 2. Each segment attends to itself and to a memory of equal length, which has no
//! gradient.

use crate::blocks::transformer::feed_forward;
use crate::{Activation, Definition, Loss, Size, Sizes, Tape, Tensor, WorkloadError};

pub(crate) struct TransformerXl {
    layers: u64,
    hidden: u64,
    /// Inner width of the feed-forward block.
    inner: u64,
}

const fn small(layers: u64) -> TransformerXl {
    TransformerXl { layers, hidden: 512, inner: 2048 }
}

pub(crate) static FAMILY: Definition<TransformerXl> = Definition {
    name: "transformer-xl",
    summary: "transformer decoders with a memory of the previous segment",
    sizes: &[Size::Batch, Size::Sequence, Size::Hidden, Size::Layers, Size::Vocabulary],
    variants: &[
        ("12", small(12)),
        ("2", small(2)),
        ("4", small(4)),
        ("8", small(8)),
        ("24", TransformerXl { layers: 24, hidden: 1024, inner: 3072 }),
    ],
    record,
};

/// Heads in every variant.
const HEADS: u64 = 8;

/// Tensors shared by all layers.
#[derive(Clone, Copy)]
struct Shared {
    /// Sinusoidal embeddings of the relative positions.
    positions: Tensor,
    /// Biases added to queries, for content and for position.
    biases: [Tensor; 2],
    inner: u64,
}

fn record(tape: &mut Tape, model: &TransformerXl, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, steps) = (sizes.batch(22)?, sizes.sequence(512)?);
    let hidden = sizes.multiple(Size::Hidden, model.hidden, HEADS)?;
    let vocabulary = sizes.vocabulary(204)?;
    let tokens = tape.indices("tokens", [batch, steps]);
    let (mut x, table) =
        tape.scope("embedding", |tape| tape.embedding("tokens", tokens, vocabulary, [batch, steps, hidden]));
    let shared = tape.scope("positions", |tape| Shared {
        positions: tape.input("sinusoids", [2 * steps, hidden]),
        biases: [tape.variable("content_bias", [hidden]), tape.variable("position_bias", [hidden])],
        inner: (model.inner * hidden).div_ceil(model.hidden),
    });
    for layer in 0..sizes.layers(model.layers)? {
        x = tape.scope(format!("layer.{layer}"), |tape| decoder(tape, x, shared));
    }
    tape.scope("softmax", |tape| {
        let x = tape.tied("projection", x, vocabulary, table);
        let x = tape.bias("bias", x);
        tape.loss("loss", x, Loss::CrossEntropy);
    });
    Ok(())
}

fn decoder(tape: &mut Tape, x: Tensor, shared: Shared) -> Tensor {
    let x = tape.scope("attention", |tape| {
        let y = attention(tape, x, shared);
        let y = tape.add("add", y, x);
        tape.layer_norm("norm", y)
    });
    tape.scope("feed_forward", |tape| {
        let y = feed_forward(tape, x, shared.inner, Activation::Relu);
        let y = tape.add("add", y, x);
        tape.layer_norm("norm", y)
    })
}

/// Relative attention: content scores (q + u) k and position scores (q + v) r, the latter shifted into place.
fn attention(tape: &mut Tape, x: Tensor, shared: Shared) -> Tensor {
    let (batch, steps, hidden) = (x.dim(0), x.dim(1), x.last());
    let (length, head) = (2 * steps, hidden / HEADS);
    let memory = tape.input("memory", [batch, steps, hidden]);
    let context = tape.concat("context", &[memory, x], 1);
    let query = tape.project("query", x, hidden);
    let key = tape.project("key", context, hidden);
    let value = tape.project("value", context, hidden);
    let position = tape.project("position", shared.positions, hidden);
    let scores = [batch, HEADS, steps, length];
    let [content_bias, position_bias] = shared.biases;
    let about_content = tape.add("content_query", query, content_bias);
    let content = tape.contract("content_scores", about_content, key, head, scores);
    let about_position = tape.add("position_query", query, position_bias);
    let place = tape.contract("position_scores", about_position, position, head, scores);
    let place = tape.shift("shift", place);
    let sum = tape.add("scores", content, place);
    let weights = tape.softmax("softmax", sum);
    let mixed = tape.contract("mix", weights, value, length, [batch, steps, hidden]);
    tape.project("output", mixed, hidden)
}
