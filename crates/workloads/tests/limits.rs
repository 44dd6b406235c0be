//! Absurd sizes are refused, and overflow nothing.

use std::num::NonZeroU64;

use stagewright_structure::{
    Attention, Compressed, Indexer, Latent, Layer, Linear, Mixer, Mixture, Rule, StateSpace,
};
use stagewright_workloads::Optimizer;
use stagewright_workloads::language::{LanguageOptions, Phase, graph};

use crate::models::{self, structure};

fn code(config: &str, options: &LanguageOptions) -> String {
    graph(&structure(config), options)
        .map_or_else(|error| error.code().name.to_owned(), |_| "none".to_owned())
}

#[test]
fn sizes_have_ranges() {
    let options = LanguageOptions::default();
    for (expected, options) in [
        ("none", options.clone()),
        ("W004", LanguageOptions { batch: 0, ..options.clone() }),
        ("W004", LanguageOptions { batch: u64::MAX, ..options.clone() }),
        ("W004", LanguageOptions { sequences: Some(1), batch: 2, ..options.clone() }),
        ("W004", LanguageOptions { sequences: Some(u64::MAX), ..options.clone() }),
        ("W004", LanguageOptions { sequence: 0, ..options.clone() }),
        ("W004", LanguageOptions { sequence: u64::MAX, ..options.clone() }),
        ("W004", LanguageOptions { context: u64::MAX, ..options.clone() }),
        ("W004", LanguageOptions { tower_tokens: u64::MAX, ..options.clone() }),
        // A step of decode has one token, whatever the option says.
        ("none", LanguageOptions { sequence: 0, phase: Phase::Decode, ..options }),
    ] {
        assert_eq!(code(models::GPT2, &options), expected, "{options:?}");
    }
    let options = LanguageOptions { tower_tokens: u64::MAX, ..LanguageOptions::default() };
    assert_eq!(graph(&structure(models::GPT2), &options).unwrap_err().place(), "--tower-tokens");
}

#[test]
fn too_many_experts_to_themselves_are_refused() {
    let many = models::MIXTRAL.replace("\"num_local_experts\": 8", "\"num_local_experts\": 100000");
    let alone = LanguageOptions { expert_group: NonZeroU64::MIN, ..LanguageOptions::default() };
    assert_eq!(code(&many, &alone), "W007");
    let phase = Phase::Training(Optimizer::Adam);
    assert_eq!(code(&many, &LanguageOptions { phase, ..LanguageOptions::default() }), "W007");
    let together = NonZeroU64::new(u64::MAX).unwrap();
    assert_eq!(
        code(&many, &LanguageOptions { expert_group: together, ..LanguageOptions::default() }),
        "none"
    );
}

/// A structure written by hand may have any numbers, or none of its tensors.
#[test]
fn no_number_of_a_structure_overflows() {
    const MOST: u64 = u64::MAX;
    let indexer = Some(Indexer { heads: MOST, width: MOST, selected: MOST, shared: false });
    let (heads, kv_heads, key, value) = (MOST, MOST, MOST, MOST);
    let attention = Attention { heads, kv_heads, key, value, rotary: MOST, indexer, ..Attention::default() };
    let mixers = |size: u64, indexer: Option<Indexer>| {
        let latent = Latent {
            heads: size,
            query_rank: Some(size),
            rank: size,
            plain: size,
            rotary: size,
            value: size,
            bias: false,
            gate: true,
            indexer: indexer.clone(),
        };
        let compressed = Compressed {
            heads: size,
            width: size,
            rotary: size,
            query_rank: size,
            output_groups: size,
            output_rank: size,
            window: size,
            ratio: size,
            indexer,
        };
        let (key_heads, value_heads, kernel) = (size, size, size);
        let linear =
            Linear { key_heads, value_heads, key: size, value: size, kernel, rule: Rule::GatedDelta };
        let space = StateSpace {
            heads: size,
            width: size,
            state: size,
            groups: size,
            kernel: size,
            kernel_bias: false,
            bias: false,
            state_bytes: size,
        };
        [
            Mixer::Latent(latent),
            Mixer::Compressed(compressed),
            Mixer::Linear(linear),
            Mixer::StateSpace(space),
        ]
    };
    let mut all = vec![Mixer::Attention(attention.clone()), Mixer::Attention(Attention::default())];
    all.extend(mixers(MOST, attention.indexer.clone()));
    all.extend(mixers(0, Some(Indexer { heads: 0, width: 0, selected: 0, shared: false })));
    let mut base = structure(models::MIXTRAL);
    for mixer in all {
        for experts in [0, 3, MOST] {
            let mixture = Mixture {
                experts,
                active: MOST,
                inner: MOST,
                gated: true,
                ..base.layers[0].mixture.clone().unwrap()
            };
            let layer =
                Layer { mixer: mixer.clone(), norms: MOST, mixture: Some(mixture), ..base.layers[0].clone() };
            base.layers = vec![layer.clone(), layer];
            for phase in [Phase::Prefill, Phase::Decode, Phase::Training(Optimizer::Adam)] {
                let options = LanguageOptions { phase, context: 1000, ..LanguageOptions::default() };
                let drawn = graph(&base, &options);
                assert!(drawn.is_ok() || experts == MOST, "{mixer:?}");
                let mut bare = base.clone();
                bare.tensors.clear();
                assert!(graph(&bare, &options).is_ok() || experts == MOST);
            }
        }
    }
}
