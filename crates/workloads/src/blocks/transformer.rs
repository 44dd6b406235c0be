//! Attention and feed-forward blocks: Vaswani et al., "Attention Is All You Need" (2017), with the variations
//! of later models: grouped queries (Ainslie et al. 2023), rotary positions (Su et al. 2021), gates (Shazeer
//! 2020).

use crate::{Activation, Tape, Tensor};

/// Multi-head attention. All scores are counted, including those that a causal mask hides, as in published
/// figures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention {
    /// Query heads.
    pub(crate) heads: u64,
    /// Heads of keys and values; fewer than query heads for grouped queries.
    pub(crate) shared: u64,
    /// Width of a head.
    pub(crate) width: u64,
    /// Whether queries, keys and values have biases.
    pub(crate) bias: bool,
    /// Whether the output projection has a bias.
    pub(crate) output_bias: bool,
    /// Whether queries and keys get rotary position embeddings.
    pub(crate) rotary: bool,
    /// Whether a token attends only to itself and to those before it.
    pub(crate) causal: bool,
}

impl Attention {
    /// Attention of the original transformer: equally many key and query heads, biases everywhere.
    pub(crate) fn plain(heads: u64, width: u64) -> Attention {
        Attention { heads, shared: heads, width, bias: true, output_bias: true, rotary: false, causal: false }
    }

    /// Attention of `[batch, steps, …]` over a memory of `[batch, length, …]`, which may be `x` itself. The
    /// result has the width of `x`.
    pub(crate) fn record(&self, tape: &mut Tape, x: Tensor, memory: Tensor) -> Tensor {
        let (batch, steps, length) = (x.dim(0), x.dim(1), memory.dim(1));
        let project = |tape: &mut Tape, name: &str, from: Tensor, heads: u64| {
            let out = heads * self.width;
            if self.bias { tape.linear(name, from, out) } else { tape.project(name, from, out) }
        };
        let mut query = project(tape, "query", x, self.heads);
        let mut key = project(tape, "key", memory, self.shared);
        let value = project(tape, "value", memory, self.shared);
        if self.rotary {
            query = tape.rotate("query_rotary", query);
            key = tape.rotate("key_rotary", key);
        }
        let weights = tape.contract("scores", query, key, self.width, [batch, self.heads, steps, length]);
        let softmax = if self.causal { Tape::causal_softmax } else { Tape::softmax };
        let weights = softmax(tape, "softmax", weights);
        let mixed = [batch, steps, self.heads * self.width];
        let mixed = tape.contract("context", weights, value, length, mixed);
        let out = x.last();
        if self.output_bias { tape.linear("output", mixed, out) } else { tape.project("output", mixed, out) }
    }
}

/// Projects up to an inner width, applies an activation and projects down again; with biases.
pub(crate) fn feed_forward(tape: &mut Tape, x: Tensor, inner: u64, activation: Activation) -> Tensor {
    let y = tape.linear("up", x, inner);
    let y = tape.activate("activation", y, activation);
    tape.linear("down", y, x.last())
}

/// A layer of GPT-2 and ViT: attention with heads of width `head`, and a feed-forward block of four times the width,
/// each after a normalisation and added to its input.
pub(crate) fn layer(tape: &mut Tape, x: Tensor, head: u64, causal: bool) -> Tensor {
    let hidden = x.last();
    let x = tape.scope("attention", |tape| {
        let y = tape.layer_norm("norm", x);
        let y = Attention { causal, ..Attention::plain(hidden / head, head) }.record(tape, y, y);
        tape.add("add", y, x)
    });
    tape.scope("feed_forward", |tape| {
        let y = tape.layer_norm("norm", x);
        let y = feed_forward(tape, y, 4 * hidden, Activation::Gelu);
        tape.add("add", y, x)
    })
}

/// Projects up to an inner width, with a gate beside the up projection, and down again; without biases (SwiGLU).
pub(crate) fn gated_feed_forward(tape: &mut Tape, x: Tensor, inner: u64) -> Tensor {
    gated(tape, x, inner, Tape::project)
}

/// Projects `[rows, width]` of several experts up to an inner width, with a gate beside the up projection, and down
/// again, in grouped products without biases (SwiGLU).
pub(crate) fn expert_feed_forward(tape: &mut Tape, x: Tensor, inner: u64, experts: u64) -> Tensor {
    gated(tape, x, inner, |tape, name, x, out| tape.project_grouped(name, x, out, experts))
}

fn gated(
    tape: &mut Tape,
    x: Tensor,
    inner: u64,
    project: impl Fn(&mut Tape, &str, Tensor, u64) -> Tensor,
) -> Tensor {
    let gate = project(tape, "gate", x, inner);
    let gate = tape.activate("activation", gate, Activation::Silu);
    let up = project(tape, "up", x, inner);
    let y = tape.multiply("product", gate, up);
    project(tape, "down", y, x.last())
}
