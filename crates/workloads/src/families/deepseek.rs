//! DeepSeek-V3: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 4.2, without multi-token prediction. And
//! DeepSeek-V2-Lite: DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model"
//! (2024), appendix B.
//!
//! Queries, keys and values are projected up from normed latents (multi-head latent attention). Part of each query and
//! key is rotary; all heads share the rotary part of the key. V2-Lite projects its queries directly. Feed-forward
//! blocks are gated; after the first layers they are mixtures of routed experts beside shared experts, which take
//! every token and run as one block.
//!
//! | variant | parameters |
//! | --- | --- |
//! | v3 | 671,026,404,352 |
//! | v2-lite | 15,706,484,224 |
//!
//! Routed experts come in groups of eight, 32 groups in V3 and 8 in V2-Lite: kernels for mixtures run the products of
//! several experts at once (grouped products), and 256 experts one by one would be 230,000 operators in training. A
//! group has one tensor of tokens and one product for each of gate, up and down, with the weights of all its experts.
//! Each group gets an equal share of the tokens, with eight (V2-Lite: six) experts per token.
//!
//! Other widths scale the number of heads in proportion and keep the latent ranks. The bias that balances the load of
//! the experts of V3 has no gradient and is left out, like running statistics; with it the checkpoint has
//! 671,026,419,200 parameters. Sources: the released checkpoints and their configurations.

use crate::blocks::transformer::{expert_feed_forward, gated_feed_forward};
use crate::{Activation, Definition, Loss, Size, Sizes, Tape, Tensor, WorkloadError};

pub(crate) struct Deepseek {
    layers: u64,
    /// The first layers, whose feed-forward blocks are not mixtures.
    dense: u64,
    hidden: u64,
    heads: u64,
    /// Width of the latent of queries; `None` if they are projected directly.
    query_rank: Option<u64>,
    /// Inner width of the feed-forward block of a dense layer.
    inner: u64,
    experts: Experts,
    vocabulary: u64,
}

/// A mixture of experts.
struct Experts {
    /// Routed experts.
    count: u64,
    /// Routed experts per token.
    active: u64,
    /// Experts that take every token.
    shared: u64,
    /// Inner width of an expert.
    inner: u64,
    /// Whether the router weighs each expert independently, by a sigmoid, instead of by a softmax over all experts.
    sigmoid: bool,
}

pub(crate) static FAMILY: Definition<Deepseek> = Definition {
    name: "deepseek",
    summary: "transformer decoders with latent attention and many small experts, sizes of DeepSeek-V3 and V2-Lite",
    sizes: &[Size::Batch, Size::Sequence, Size::Hidden, Size::Layers, Size::Vocabulary],
    variants: &[
        (
            "v3",
            Deepseek {
                layers: 61,
                dense: 3,
                hidden: 7168,
                heads: 128,
                query_rank: Some(1536),
                inner: 18_432,
                experts: Experts { count: 256, active: 8, shared: 1, inner: 2048, sigmoid: true },
                vocabulary: 129_280,
            },
        ),
        (
            "v2-lite",
            Deepseek {
                layers: 27,
                dense: 1,
                hidden: 2048,
                heads: 16,
                query_rank: None,
                inner: 10_944,
                experts: Experts { count: 64, active: 6, shared: 2, inner: 1408, sigmoid: false },
                vocabulary: 102_400,
            },
        ),
    ],
    record,
};

/// Experts of a group.
const GROUP: u64 = 8;
/// Tokens of a sample in pretraining.
const CONTEXT: u64 = 4096;
/// Width of the latent of keys and values.
const RANK: u64 = 512;
/// Width of the part of a query or key without positions.
const PLAIN: u64 = 128;
/// Width of the rotary part of a query or key.
const ROTARY: u64 = 64;
/// Width of a value.
const VALUE: u64 = 128;

fn record(tape: &mut Tape, deepseek: &Deepseek, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, steps) = (sizes.batch(1)?, sizes.sequence(CONTEXT)?);
    let hidden = sizes.multiple(Size::Hidden, deepseek.hidden, deepseek.hidden / deepseek.heads)?;
    let vocabulary = sizes.vocabulary(deepseek.vocabulary)?;
    // With an overridden width, the blocks keep their proportions.
    let scaled = |inner: u64| (inner * hidden).div_ceil(deepseek.hidden);
    let heads = scaled(deepseek.heads);
    let tokens = tape.indices("tokens", [batch, steps]);
    let mut x = tape
        .scope("embeddings", |tape| tape.embedding("tokens", tokens, vocabulary, [batch, steps, hidden]).0);
    for layer in 0..sizes.layers(deepseek.layers)? {
        x = tape.scope(format!("decoder.layer.{layer}"), |tape| {
            let x = tape.scope("attention", |tape| {
                let y = tape.rms_norm("norm", x);
                let y = attention(tape, y, heads, deepseek.query_rank);
                tape.add("add", y, x)
            });
            if layer < deepseek.dense {
                tape.scope("feed_forward", |tape| {
                    let y = tape.rms_norm("norm", x);
                    let y = gated_feed_forward(tape, y, scaled(deepseek.inner));
                    tape.add("add", y, x)
                })
            } else {
                mixture(tape, x, scaled(deepseek.experts.inner), &deepseek.experts)
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

/// Multi-head latent attention of `[batch, steps, …]` over itself (DeepSeek-AI 2024, section 2.1.1).
fn attention(tape: &mut Tape, x: Tensor, heads: u64, query_rank: Option<u64>) -> Tensor {
    let (batch, steps) = (x.dim(0), x.dim(1));
    let width = PLAIN + ROTARY;
    let query = match query_rank {
        None => tape.project("query", x, heads * width),
        Some(rank) => {
            let latent = tape.project("query_down", x, rank);
            let latent = tape.rms_norm("query_norm", latent);
            tape.project("query_up", latent, heads * width)
        }
    };
    let parts = tape.split("query_split", query.view([batch, steps, heads, width]), 3, &[PLAIN, ROTARY]);
    let rotary = tape.rotate("query_rotary", parts[1]);
    let query = tape.concat("query_join", &[parts[0], rotary], 3);

    let latent = tape.project("key_value_down", x, RANK + ROTARY);
    let latent = tape.split("latent_split", latent, 2, &[RANK, ROTARY]);
    let rotary = tape.rotate("key_rotary", latent[1]).view([batch, steps, 1, ROTARY]);
    let latent = tape.rms_norm("key_value_norm", latent[0]);
    let both = tape.project("key_value_up", latent, heads * (PLAIN + VALUE));
    let parts =
        tape.split("key_value_split", both.view([batch, steps, heads, PLAIN + VALUE]), 3, &[PLAIN, VALUE]);
    let key = tape.concat("key_join", &[parts[0], rotary], 3);

    let weights = tape.contract("scores", query, key, width, [batch, heads, steps, steps]);
    let weights = tape.causal_softmax("softmax", weights);
    let mixed = tape.contract("context", weights, parts[1], steps, [batch, steps, heads * VALUE]);
    tape.project("output", mixed, x.last())
}

/// Sends every token to the groups of its experts and back, weighted by the router, and to the shared experts.
fn mixture(tape: &mut Tape, x: Tensor, inner: u64, experts: &Experts) -> Tensor {
    let hidden = x.last();
    let tokens = x.dim(0) * x.dim(1);
    let groups = experts.count / GROUP;
    let share = (tokens * experts.active).div_ceil(groups);
    let (norm, weights, parts) = tape.scope("router", |tape| {
        let norm = tape.rms_norm("norm", x);
        let weights = tape.project("gate", norm, experts.count);
        let weights = if experts.sigmoid {
            tape.activate("sigmoid", weights, Activation::Sigmoid)
        } else {
            tape.softmax("softmax", weights)
        };
        (norm, weights, tape.dispatch("dispatch", weights, norm, (groups, GROUP), [share, hidden]))
    });
    let outputs: Vec<Tensor> = parts
        .into_iter()
        .enumerate()
        .map(|(group, part)| {
            tape.scope(format!("expert.{group}"), |tape| expert_feed_forward(tape, part, inner, GROUP))
        })
        .collect();
    let shared = tape.scope("shared", |tape| gated_feed_forward(tape, norm, experts.shared * inner));
    tape.scope("combine", |tape| {
        let y = tape.combine("combine", weights, &outputs, x.shape);
        let y = tape.add("shared", y, shared);
        tape.add("add", y, x)
    })
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::{GraphDocument, OperatorDocument, Pass};
    use stagewright_core::graph::Graph;

    use super::*;
    use crate::{Family, Granularity, Optimizer, Options};

    fn generate(variant: &str, options: &Options) -> GraphDocument {
        FAMILY.generate(Some(variant), options).unwrap()
    }

    fn sum(graph: &GraphDocument, figure: impl Fn(&OperatorDocument) -> f64) -> f64 {
        graph.operators.iter().map(figure).sum()
    }

    fn operator<'a>(graph: &'a GraphDocument, name: &str) -> &'a OperatorDocument {
        graph.operators.iter().find(|operator| operator.name == name).unwrap()
    }

    /// Every option that changes the form of a graph.
    fn forms(sizes: &Sizes) -> Vec<Options> {
        let mut forms = Vec::new();
        for training in [None, Some(Optimizer::Adam)] {
            for granularity in [Granularity::Operator, Granularity::Layer] {
                let sizes = sizes.clone();
                forms.push(Options { sizes, training, granularity, ..Options::default() });
            }
        }
        forms
    }

    /// The checkpoint of V3 has 671,026,419,200 parameters, of which 58 × 256 are the balancing bias; that of V2-Lite
    /// has 15,706,484,224.
    #[test]
    fn parameters_are_those_of_the_checkpoints_in_every_form() {
        for (variant, expected) in [("v3", 671_026_419_200.0 - 58.0 * 256.0), ("v2-lite", 15_706_484_224.0)] {
            for options in forms(&Sizes::default()) {
                let graph = generate(variant, &options);
                assert!(graph.parameters.is_empty(), "nothing is tied");
                assert_eq!(sum(&graph, |operator| operator.parameter_bytes) / 4.0, expected, "{variant}");
                Graph::from_document(graph).unwrap_or_else(|error| panic!("{variant}: {error}"));
            }
        }
    }

    /// A token takes a multiply-add per active parameter: 36.6 G in V3 with the head and without the token table
    /// (`README_WEIGHTS.md` of the release), 2.4 G in V2-Lite.
    #[test]
    fn products_match_the_active_parameters() {
        for (variant, expected, tolerance) in [("v3", 36.6e9, 2e-3), ("v2-lite", 2.4e9, 3e-2)] {
            let graph = generate(variant, &Options::default());
            let products = |operator: &OperatorDocument| {
                let is_one = operator.kind.as_deref() == Some("linear");
                operator.flop.filter(|_| is_one).unwrap_or_default() / 2.0 / 4096.0
            };
            let found = sum(&graph, products);
            assert!((found - expected).abs() <= tolerance * expected, "{variant}: {found}");
        }
    }

    #[test]
    fn a_step_computes_twice_as_much_backward() {
        for variant in ["v3", "v2-lite"] {
            let options = Options { training: Some(Optimizer::Adam), ..Options::default() };
            let graph = generate(variant, &options);
            let [forward, backward] = [Pass::Forward, Pass::Backward].map(|pass| {
                let of_pass = |operator: &&OperatorDocument| operator.pass == pass;
                graph.operators.iter().filter(of_pass).filter_map(|operator| operator.flop).sum::<f64>()
            });
            assert!((1.9..2.1).contains(&(backward / forward)), "{variant}: {}", backward / forward);
        }
    }

    #[test]
    fn a_group_holds_eight_experts_and_runs_as_one_product() {
        let graph = generate("v3", &Options::default());
        let gate = operator(&graph, "decoder.layer.3.expert.31.gate");
        assert_eq!(gate.kind.as_deref(), Some("linear"));
        assert_eq!(gate.parameter_bytes, 4.0 * 8.0 * 7168.0 * 2048.0);
        // Each of the 32 groups gets a quarter of the 4096 tokens, since a token goes to eight of the 256 experts.
        assert_eq!(gate.flop, Some(2.0 * 1024.0 * 7168.0 * 2048.0));
        let is_there = |name: &str| graph.operators.iter().any(|operator| operator.name == name);
        assert!(!is_there("decoder.layer.3.expert.32.gate"));
        assert!(is_there("decoder.layer.2.feed_forward.gate") && !is_there("decoder.layer.2.router.gate"));
        assert_eq!(operator(&graph, "decoder.layer.3.shared.gate").parameter_bytes, 4.0 * 7168.0 * 2048.0);
        let lite = generate("v2-lite", &Options::default());
        let shared = operator(&lite, "decoder.layer.1.shared.down");
        assert_eq!(shared.parameter_bytes, 4.0 * 2048.0 * 2.0 * 1408.0);
    }

    /// A single token of V2-Lite makes one row for each of the eight groups, which goes to one expert of the group.
    #[test]
    fn few_tokens_read_few_experts() {
        let options = Options { sizes: Sizes::default().with(Size::Sequence, 1), ..Options::default() };
        let graph = generate("v2-lite", &options);
        // The multiplication by the gate is fused into the same kernel, which reads the gate and writes the product.
        let up = operator(&graph, "decoder.layer.1.expert.0.up");
        assert_eq!(up.bytes_moved, Some(4.0 * (2048.0 + 2048.0 * 1408.0 + 1408.0 + 1408.0)));
    }

    /// The gradient of the rotary part of the key is summed over the heads.
    #[test]
    fn heads_share_the_rotary_key() {
        let options = Options { training: Some(Optimizer::Adam), ..Options::default() };
        let graph = generate("v2-lite", &options);
        let flop = |name: &str| operator(&graph, name).flop;
        assert_eq!(flop("decoder.layer.0.attention.key_join.grad"), Some(4096.0 * 15.0 * 64.0));
        assert_eq!(flop("decoder.layer.0.attention.query_join.grad"), Some(0.0));
    }

    #[test]
    fn other_sizes_make_graphs() {
        let sizes = Sizes::default().with(Size::Batch, 3).with(Size::Sequence, 5).with(Size::Layers, 4);
        for (variant, hidden) in [("v3", 56), ("v3", 1792), ("v2-lite", 128), ("v2-lite", 4096)] {
            for options in forms(&sizes.clone().with(Size::Hidden, hidden)) {
                Graph::from_document(generate(variant, &options))
                    .unwrap_or_else(|error| panic!("{variant} {hidden}: {error}"));
            }
        }
    }
}
