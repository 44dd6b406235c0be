//! Llama 2: Touvron et al., "Llama 2: Open Foundation and Fine-Tuned Chat Models" (2023). Llama 3:
//! Grattafiori et al., "The Llama 3 Herd of Models" (2024), table 3. And Mixtral, a mixture of experts in the
//! same frame: Jiang et al., "Mixtral of Experts" (2024), table 1.
//!
//! Root-mean-square norms, rotary positions and gated feed-forward blocks without biases; grouped queries
//! except in the smaller Llama 2 models.
//!
//! | variant | parameters |
//! | --- | --- |
//! | 2-7b | 6,738,415,616 |
//! | 2-13b | 13,015,864,320 |
//! | 2-70b | 68,976,648,192 |
//! | 3-8b | 8,030,261,248 |
//! | 3-70b | 70,553,706,496 |
//! | 3-405b | 405,853,388,800 |
//! | 8x7b | 46,702,792,704 |
//! | 8x22b | 140,620,634,112 |
//!
//! Each expert gets an equal share of the tokens, with two of eight experts per token. Sources: the released
//! checkpoints.

use crate::blocks::transformer::{Attention, gated_feed_forward};
use crate::{Definition, Loss, Size, Sizes, Tape, Tensor, WorkloadError};

pub(crate) struct Llama {
    layers: u64,
    hidden: u64,
    /// Heads of keys and values; `None` if every query head has its own.
    shared: Option<u64>,
    /// Inner width of the feed-forward block.
    inner: u64,
    vocabulary: u64,
    context: u64,
    experts: Option<Experts>,
}

/// A mixture of experts.
#[derive(Clone, Copy)]
struct Experts {
    count: u64,
    /// Experts per token.
    active: u64,
}

const fn llama2(layers: u64, hidden: u64, shared: Option<u64>, inner: u64) -> Llama {
    Llama { layers, hidden, shared, inner, vocabulary: 32_000, context: 4096, experts: None }
}

const fn llama3(layers: u64, hidden: u64, inner: u64) -> Llama {
    Llama { layers, hidden, shared: Some(8), inner, vocabulary: 128_256, context: 8192, experts: None }
}

const fn mixtral(layers: u64, hidden: u64, inner: u64) -> Llama {
    let experts = Some(Experts { count: 8, active: 2 });
    Llama { layers, hidden, shared: Some(8), inner, vocabulary: 32_000, context: 4096, experts }
}

const SIZES: &[Size] = &[Size::Batch, Size::Sequence, Size::Hidden, Size::Layers, Size::Vocabulary];

pub(crate) static FAMILY: Definition<Llama> = Definition {
    name: "llama",
    summary: "transformer decoders with grouped-query attention and gated MLPs, sizes of Llama 2 and 3",
    sizes: SIZES,
    variants: &[
        ("2-7b", llama2(32, 4096, None, 11_008)),
        ("2-13b", llama2(40, 5120, None, 13_824)),
        ("2-70b", llama2(80, 8192, Some(8), 28_672)),
        ("3-8b", llama3(32, 4096, 14_336)),
        ("3-70b", llama3(80, 8192, 28_672)),
        ("3-405b", llama3(126, 16_384, 53_248)),
    ],
    record,
};

pub(crate) static MIXTURE: Definition<Llama> = Definition {
    name: "mixtral",
    summary: "transformer decoders with mixtures of eight experts, sizes of Mixtral",
    sizes: SIZES,
    variants: &[("8x7b", mixtral(32, 4096, 14_336)), ("8x22b", mixtral(56, 6144, 16_384))],
    record,
};

/// Width of a head in every variant.
const HEAD: u64 = 128;

fn record(tape: &mut Tape, llama: &Llama, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, steps) = (sizes.batch(1)?, sizes.sequence(llama.context)?);
    // Query heads come in whole groups.
    let hidden = sizes.multiple(Size::Hidden, llama.hidden, HEAD * llama.shared.unwrap_or(1))?;
    let vocabulary = sizes.vocabulary(llama.vocabulary)?;
    // With an overridden width, the block keeps its proportions.
    let inner = (llama.inner * hidden).div_ceil(llama.hidden);
    let heads = hidden / HEAD;
    let shared = llama.shared.unwrap_or(heads);
    let attention =
        Attention { heads, shared, width: HEAD, bias: false, output_bias: false, rotary: true, causal: true };
    let tokens = tape.indices("tokens", [batch, steps]);
    let mut x = tape
        .scope("embeddings", |tape| tape.embedding("tokens", tokens, vocabulary, [batch, steps, hidden]).0);
    for layer in 0..sizes.layers(llama.layers)? {
        x = tape.scope(format!("decoder.layer.{layer}"), |tape| {
            let x = tape.scope("attention", |tape| {
                let y = tape.rms_norm("norm", x);
                let y = attention.record(tape, y, y);
                tape.add("add", y, x)
            });
            match llama.experts {
                None => tape.scope("feed_forward", |tape| {
                    let y = tape.rms_norm("norm", x);
                    let y = gated_feed_forward(tape, y, inner);
                    tape.add("add", y, x)
                }),
                Some(experts) => mixture(tape, x, inner, experts),
            }
        });
    }
    tape.scope("head", |tape| {
        let x = tape.rms_norm("norm", x);
        let x = tape.project("output", x, vocabulary);
        tape.loss("loss", x, Loss::CrossEntropy);
    });
    Ok(())
}

/// Sends every token to its experts and back, weighted by the router (Shazeer et al. 2017; Jiang et al.
/// 2024).
fn mixture(tape: &mut Tape, x: Tensor, inner: u64, experts: Experts) -> Tensor {
    let hidden = x.last();
    let tokens = x.dim(0) * x.dim(1);
    let share = (tokens * experts.active).div_ceil(experts.count);
    let (weights, parts) = tape.scope("router", |tape| {
        let norm = tape.rms_norm("norm", x);
        let weights = tape.project("gate", norm, experts.count);
        let weights = tape.softmax("softmax", weights);
        (weights, tape.dispatch("dispatch", weights, norm, (experts.count, 1), [share, hidden]))
    });
    let outputs: Vec<Tensor> = parts
        .into_iter()
        .enumerate()
        .map(|(expert, part)| {
            tape.scope(format!("expert.{expert}"), |tape| gated_feed_forward(tape, part, inner))
        })
        .collect();
    tape.scope("combine", |tape| {
        let y = tape.combine("combine", weights, &outputs, x.shape);
        tape.add("add", y, x)
    })
}
