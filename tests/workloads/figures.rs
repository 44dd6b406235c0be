//! Parameters and FLOP compared with published figures, or with a closed form if nothing is published.
//!
//! Figures are for one sample in inference; the files of the families cite the sources. Published FLOP are
//! multiply-adds (each of which is two FLOP here) and count only products, without norms and activations.

use stagewright::workloads::{FAMILIES, Optimizer, Options, Size, Sizes};
use stagewright_core::document::{GraphDocument, Pass};

use super::{PRODUCTS, WEIGHTED, close, flop, generate, multiply_adds, of_pass, one, parameter_bytes};

fn parameters(graph: &GraphDocument) -> f64 {
    parameter_bytes(graph) / 4.0
}

/// Variants whose parameters are published to the last digit.
const PARAMETERS: &[(&str, &str, u64)] = &[
    ("resnet", "50", 25_557_032),
    ("resnet", "101", 44_549_160),
    ("resnet", "152", 60_192_808),
    ("inception-v3", "plain", 23_834_568),
    ("vgg", "11", 132_863_336),
    ("vgg", "13", 133_047_848),
    ("vgg", "16", 138_357_544),
    ("vgg", "19", 143_667_240),
    ("nasnet-a", "large", 88_753_150),
    ("nasnet-a", "mobile", 5_289_978),
    ("vit", "b16", 86_567_656),
    ("vit", "b32", 88_224_232),
    ("vit", "l16", 304_326_632),
    ("vit", "l32", 306_535_400),
    ("vit", "h14", 632_045_800),
    ("unet", "stable-diffusion-1", 859_520_964),
    ("bert", "base", 109_482_240),
    ("bert", "large", 335_141_888),
    ("bert", "large-pretraining", 336_226_108),
    ("gpt", "2-small", 124_439_808),
    ("gpt", "2-medium", 354_823_168),
    ("gpt", "2-large", 774_030_080),
    ("gpt", "2-xl", 1_557_611_200),
    ("llama", "2-7b", 6_738_415_616),
    ("llama", "2-13b", 13_015_864_320),
    ("llama", "2-70b", 68_976_648_192),
    ("llama", "3-8b", 8_030_261_248),
    ("llama", "3-70b", 70_553_706_496),
    ("llama", "3-405b", 405_853_388_800),
    ("mixtral", "8x7b", 46_702_792_704),
    ("mixtral", "8x22b", 140_620_634_112),
    // Excludes the bias that balances the load of the experts, which has 58 × 256 numbers.
    ("deepseek", "v3", 671_026_404_352),
    ("deepseek", "v2-lite", 15_706_484_224),
];

/// Parameters published as rounded numbers, each with half a unit of the last digit.
const ROUNDED_PARAMETERS: &[(&str, &str, f64, f64)] = &[
    ("amoebanet-d", "18-208", 81.5e6, 0.05e6),
    ("amoebanet-d", "18-416", 319.0e6, 0.05e6),
    ("amoebanet-d", "18-544", 542.7e6, 0.05e6),
    ("amoebanet-d", "36-544", 1.06e9, 0.005e9),
    ("amoebanet-d", "72-512", 1.84e9, 0.005e9),
    ("gpt", "3-1.3b", 1320e6, 5e6),
    ("gpt", "3-2.7b", 2650e6, 5e6),
    ("gpt", "3-6.7b", 6660e6, 5e6),
    ("gpt", "3-13b", 12_850e6, 5e6),
    ("gpt", "3-175b", 174_600e6, 50e6),
    ("transformer-xl", "12", 41e6, 0.5e6),
    ("transformer-xl", "24", 277e6, 0.5e6),
];

/// Parameters derived from the definition, for variants without a published number of sufficient precision.
fn closed_forms() -> Vec<(&'static str, &'static str, f64)> {
    let lstm = |input: f64, hidden: f64, biases: f64| 4.0 * hidden * (input + hidden + biases);
    let rnnlm = |layers: f64| {
        let (words, h) = (10_000.0, 1500.0);
        words * h + layers * lstm(h, h, 1.0) + h * words + words
    };
    let gnmt = |layers: f64| {
        let (words, h) = (32_320.0, 1024.0);
        let encoder = 2.0 * lstm(h, h, 2.0) + lstm(2.0 * h, h, 2.0) + (layers - 2.0) * lstm(h, h, 2.0);
        let attention = 2.0 * h * h + h + 1.0 + h;
        let decoder = lstm(h, h, 2.0) + attention + (layers - 1.0) * lstm(2.0 * h, h, 2.0);
        words * h + encoder + decoder + h * words + words
    };
    let transformer_xl = |layers: f64| {
        let (h, inner, words) = (512.0, 2048.0, 204.0);
        let layer = 5.0 * h * h + 2.0 * h * inner + inner + h + 4.0 * h;
        layers * layer + words * h + words + 2.0 * h
    };
    let wavenet = |layers: f64| {
        let (a, s, q) = (32.0, 512.0, 256.0);
        let layer = 2.0 * (2.0 * a * a + a) + a * s + s;
        2.0 * q * a + a + layers * layer + (layers - 1.0) * (a * a + a) + s * s + s + s * q + q
    };
    let perceptron = |widths: &[f64]| widths.windows(2).map(|pair| (pair[0] + 1.0) * pair[1]).sum::<f64>();
    let pretraining = 109_482_240.0 + 768.0 * 769.0 + 2.0 * 768.0 + 30_522.0 + 2.0 * 769.0;
    let kaggle = perceptron(&[13.0, 512.0, 256.0, 64.0, 16.0]) + perceptron(&[367.0, 512.0, 256.0, 1.0]);
    let terabyte =
        perceptron(&[13.0, 512.0, 256.0, 128.0]) + perceptron(&[479.0, 1024.0, 1024.0, 512.0, 256.0, 1.0]);
    vec![
        ("bert", "base-pretraining", pretraining),
        ("rnnlm", "2", rnnlm(2.0)),
        ("rnnlm", "4", rnnlm(4.0)),
        ("rnnlm", "8", rnnlm(8.0)),
        ("gnmt", "2", gnmt(2.0)),
        ("gnmt", "4", gnmt(4.0)),
        ("gnmt", "8", gnmt(8.0)),
        ("transformer-xl", "2", transformer_xl(2.0)),
        ("transformer-xl", "4", transformer_xl(4.0)),
        ("transformer-xl", "8", transformer_xl(8.0)),
        ("wavenet", "2", wavenet(18.0)),
        ("wavenet", "4", wavenet(36.0)),
        // The tables have 33,762,577 and 187,767,399 rows.
        ("dlrm", "kaggle", 33_762_577.0 * 16.0 + kaggle),
        ("dlrm", "terabyte", 187_767_399.0 * 128.0 + terabyte),
    ]
}

#[test]
fn parameters_are_as_published() {
    for &(family, variant, expected) in PARAMETERS {
        assert_eq!(
            parameters(&one(family, variant, Sizes::default())),
            expected as f64,
            "{family} {variant}"
        );
    }
    for &(family, variant, expected, half_digit) in ROUNDED_PARAMETERS {
        let found = parameters(&one(family, variant, Sizes::default()));
        assert!((found - expected).abs() <= half_digit, "{family} {variant}: {found}, published {expected}");
    }
    for (family, variant, expected) in closed_forms() {
        assert_eq!(parameters(&one(family, variant, Sizes::default())), expected, "{family} {variant}");
    }
}

#[test]
fn the_auxiliary_classifier_is_trained_alone() {
    let training = Options { training: Some(Optimizer::Momentum), ..Options::default() };
    assert_eq!(parameters(&generate("inception-v3", "auxiliary", &training)), 27_161_264.0);
    assert_eq!(parameters(&one("inception-v3", "auxiliary", Sizes::default())), 23_834_568.0);
}

#[test]
fn every_variant_has_a_figure() {
    let closed = closed_forms();
    let mut known: Vec<(&str, &str)> = vec![("inception-v3", "auxiliary")];
    known.extend(PARAMETERS.iter().map(|row| (row.0, row.1)));
    known.extend(ROUNDED_PARAMETERS.iter().map(|row| (row.0, row.1)));
    known.extend(closed.iter().map(|row| (row.0, row.1)));
    for family in FAMILIES {
        for variant in family.variants() {
            assert!(known.contains(&(family.name(), variant)), "{} {variant}", family.name());
        }
    }
}

/// Published multiply-adds with the relative precision of their last digit: torchvision for all but NASNet,
/// whose figures are in its paper.
const MULTIPLY_ADDS: &[(&str, &str, f64, f64)] = &[
    ("resnet", "50", 4.09e9, 1e-3),
    ("resnet", "101", 7.80e9, 1e-3),
    ("resnet", "152", 11.51e9, 1e-3),
    ("inception-v3", "plain", 5.71e9, 1e-3),
    ("vgg", "11", 7.61e9, 1e-3),
    ("vgg", "13", 11.31e9, 1e-3),
    ("vgg", "16", 15.47e9, 1e-3),
    ("vgg", "19", 19.63e9, 1e-3),
    ("nasnet-a", "large", 23.8e9, 3e-3),
    ("nasnet-a", "mobile", 564e6, 1e-3),
    ("vit", "b16", 17.56e9, 1e-3),
    ("vit", "b32", 4.41e9, 1e-3),
    ("vit", "l16", 61.55e9, 1e-3),
    ("vit", "l32", 15.38e9, 1e-3),
    ("vit", "h14", 167.29e9, 1e-3),
];

#[test]
fn multiply_adds_of_images_are_as_published() {
    for &(family, variant, expected, tolerance) in MULTIPLY_ADDS {
        let found = multiply_adds(&one(family, variant, Sizes::default()), &PRODUCTS);
        assert!(close(found, expected, tolerance), "{family} {variant}: {found}, published {expected}");
    }
}

/// The authors of BK-SDM state 338,749,194,240 (`Nota-NetsPresso/BK-SDM`, issue 53). Their counter includes layers with
/// weights, and four operations per element of a layer norm; the products of attention would add 63 G.
#[test]
fn multiply_adds_of_the_denoiser_are_as_published() {
    let graph = one("unet", "stable-diffusion-1", Sizes::default());
    // Here, a norm takes eight FLOP per element.
    let normed = multiply_adds(&graph, &["layer_norm"]) * 2.0 / 8.0;
    assert_eq!(multiply_adds(&graph, &WEIGHTED) + 4.0 * normed, 338_749_194_240.0);
}

/// The table of `MrYxJ/calculate-flops.pytorch` states, for 128 tokens, 11.17 G for an encoder of the size of BERT
/// base, and 850 G for Llama 2 7B.
#[test]
fn multiply_adds_of_short_texts_are_as_published() {
    let short = Sizes::default().with(Size::Sequence, 128);
    let bert = multiply_adds(&one("bert", "base", short.clone()), &PRODUCTS);
    assert!(close(bert, 11.17e9, 1e-3), "{bert}");
    let llama = multiply_adds(&one("llama", "2-7b", short), &PRODUCTS);
    assert!(close(llama, 850e9, 1e-3), "{llama}");
}

/// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (SC 2021), appendix: a
/// step without recomputation takes 72 B s l h² (1 + s / 6h + V / 12lh) FLOP, a third of it forward.
#[test]
fn flop_of_gpt_follow_the_published_formula() {
    let sizes = [
        ("2-small", 12.0, 768.0, 1024.0),
        ("2-medium", 24.0, 1024.0, 1024.0),
        ("2-large", 36.0, 1280.0, 1024.0),
        ("2-xl", 48.0, 1600.0, 1024.0),
        ("3-1.3b", 24.0, 2048.0, 2048.0),
        ("3-2.7b", 32.0, 2560.0, 2048.0),
        ("3-6.7b", 32.0, 4096.0, 2048.0),
        ("3-13b", 40.0, 5120.0, 2048.0),
        ("3-175b", 96.0, 12_288.0, 2048.0),
    ];
    for (variant, l, h, s) in sizes {
        let v = 50_257.0;
        let step = 72.0 * s * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * l * h));
        let options = Options {
            sizes: Sizes::default().with(Size::Batch, 1),
            training: Some(Optimizer::Adam),
            ..Options::default()
        };
        let graph = generate("gpt", variant, &options);
        let forward = 2.0 * multiply_adds(&graph, &PRODUCTS);
        assert!(close(forward, step / 3.0, 1e-9), "{variant}: {forward}");
        let product = |kind: &str| kind.starts_with("linear_") || kind.starts_with("matmul_");
        let backward: f64 = of_pass(&graph, Pass::Backward)
            .filter(|operator| operator.kind.as_deref().is_some_and(product))
            .map(flop)
            .sum();
        assert!(close(backward, 2.0 * step / 3.0, 1e-9), "{variant}: {backward}");
    }
}

/// Products with weights take one multiply-add per token and active parameter, except for the token table. Llama 3
/// 405B: 3.8 × 10²⁵ FLOP for 15.6 T tokens (Grattafiori et al. 2024, section 1). Mixtral: 12.9 G and 39 G active
/// parameters (Mistral AI, release notes of 8x7B and 8x22B). DeepSeek-V3: 36.6 G without the token table
/// (`README_WEIGHTS.md` of its release).
#[test]
fn multiply_adds_of_a_token_match_the_active_parameters() {
    let per_token = |family, variant| {
        let graph = one(family, variant, Sizes::default().with(Size::Sequence, 1024));
        multiply_adds(&graph, &["linear"]) / 1024.0
    };
    let llama = 6.0 * per_token("llama", "3-405b") * 15.6e12;
    assert!(close(llama, 3.8e25, 1e-2), "{llama}");
    let small = per_token("mixtral", "8x7b") + 32_000.0 * 4096.0;
    assert!(close(small, 12.9e9, 4e-3), "{small}");
    let large = per_token("mixtral", "8x22b") + 32_000.0 * 6144.0;
    assert!(close(large, 39e9, 1e-2), "{large}");
    let latent = per_token("deepseek", "v3");
    assert!(close(latent, 36.6e9, 2e-3), "{latent}");
    for (variant, parameters, table) in [
        ("2-13b", 13_015_864_320.0, 32_000.0 * 5120.0),
        ("2-70b", 68_976_648_192.0, 32_000.0 * 8192.0),
        ("3-8b", 8_030_261_248.0, 128_256.0 * 4096.0),
        ("3-70b", 70_553_706_496.0, 128_256.0 * 8192.0),
    ] {
        let found = per_token("llama", variant);
        assert!(close(found, parameters - table, 1e-3), "{variant}: {found}");
    }
}

/// No figures are published for one step of these models; the products follow from the definitions.
#[test]
fn multiply_adds_of_the_rest_follow_from_the_definition() {
    let expect = |family: &str, variant: &str, expected: f64| {
        let found = multiply_adds(&one(family, variant, Sizes::default()), &PRODUCTS);
        assert!(close(found, expected, 1e-9), "{family} {variant}: {found}, expected {expected}");
    };
    let lstm = |input: f64, hidden: f64| 4.0 * hidden * (input + hidden);
    for (variant, layers) in [("2", 2.0), ("4", 4.0), ("8", 8.0)] {
        expect("rnnlm", variant, 35.0 * (layers * lstm(1500.0, 1500.0) + 1500.0 * 10_000.0));
        let (t, h) = (50.0, 1024.0);
        let plain = layers * lstm(h, h) + lstm(h, h);
        let wide = layers * lstm(2.0 * h, h);
        // The keys are computed once; each query takes its projection, the scores and the mixture.
        let attention = t * h * h + t * (h * h + 2.0 * t * h);
        expect("gnmt", variant, t * (plain + wide + h * 32_320.0) + attention);
    }
    for (variant, layers, h, inner) in [
        ("2", 2.0, 512.0, 2048.0),
        ("4", 4.0, 512.0, 2048.0),
        ("8", 8.0, 512.0, 2048.0),
        ("12", 12.0, 512.0, 2048.0),
        ("24", 24.0, 1024.0, 3072.0),
    ] {
        let s = 512.0;
        // Query and output over the segment; keys, values and positions over twice its length; and three products of
        // shape s × 2s.
        let layer = 2.0 * s * h * h + 6.0 * s * h * h + 3.0 * 2.0 * s * s * h + 2.0 * s * h * inner;
        expect("transformer-xl", variant, layers * layer + s * h * 204.0);
    }
    for (variant, layers) in [("2", 18.0), ("4", 36.0)] {
        let (a, skip, levels) = (32.0, 512.0, 256.0);
        let layer = 4.0 * a * a + a * skip;
        let whole = 2.0 * levels * a + layers * layer + (layers - 1.0) * a * a + skip * skip + skip * levels;
        expect("wavenet", variant, 16_000.0 * whole);
    }
    let perceptron = |widths: &[f64]| widths.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
    let kaggle = perceptron(&[13.0, 512.0, 256.0, 64.0, 16.0]) + perceptron(&[367.0, 512.0, 256.0, 1.0]);
    expect("dlrm", "kaggle", kaggle + 27.0 * 27.0 * 16.0);
    let bottom = perceptron(&[13.0, 512.0, 256.0, 128.0]);
    let top = perceptron(&[479.0, 1024.0, 1024.0, 512.0, 256.0, 1.0]);
    expect("dlrm", "terabyte", bottom + top + 27.0 * 27.0 * 128.0);
}

/// A convolution takes one multiply-add per weight and output position, so the figures of AmoebaNet follow
/// from the weights of its cells, counted here independently of the graph, and the positions of its stages.
#[test]
fn multiply_adds_of_amoebanet_follow_from_its_cells() {
    for (variant, layers, filters) in [
        ("18-208", 18, 208.0),
        ("18-416", 18, 416.0),
        ("18-544", 18, 544.0),
        ("36-544", 36, 544.0),
        ("72-512", 72, 512.0),
    ] {
        let seven = |w: f64| 2.0 * w * (w / 4.0) + 14.0 * (w / 4.0) * (w / 4.0);
        let mut width = filters / 4.0;
        let (mut before, mut now, mut side) = (width, width, 112.0);
        let mut total = 27.0 * width * side * side;
        let mut after_reduction = false;
        let reductions = [0, 0, layers / 3, 0, layers / 3, 0, layers / 3];
        // Two reductions, then normal cells in thirds, with a reduction after each of the first two thirds.
        let plan = [true, true, false, true, false, true, false];
        for (&count, reduces) in reductions.iter().zip(plan) {
            for _ in 0..if reduces { 1 } else { count } {
                if reduces {
                    width *= 2.0;
                }
                let here: f64 = side * side;
                // Both inputs are projected to the cell's width, at the resolution of the later one.
                total += now * width * here;
                if after_reduction || before != width {
                    total += before * width * here;
                }
                if reduces {
                    side /= 2.0;
                    let half = side * side;
                    // A bottleneck to a quarter of the width: a projection at full resolution, a strided 3 × 3
                    // convolution, and a projection back; then two more operators.
                    let q = width / 4.0;
                    total += width * q * here + (9.0 * q * q + q * width) * half;
                    total += (seven(width) + width * width) * half;
                } else {
                    total += (3.0 * width * width + 2.0 * seven(width)) * here;
                }
                before = now;
                now = width * if reduces { 3.0 } else { 4.0 };
                after_reduction = reduces;
            }
        }
        total += now * 1000.0;
        let found = multiply_adds(&one("amoebanet-d", variant, Sizes::default()), &PRODUCTS);
        assert!(close(found, total, 1e-9), "{variant}: {found}, expected {total}");
    }
}
