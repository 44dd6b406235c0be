//! Built-in models of small and varied sizes.
//!
//! The number of operators of a model is determined by its variant, its granularity and at most one size: its layers
//! or, if it is unrolled, its steps. It is linear in that size, so two graphs determine it for all sizes. All other
//! sizes affect only costs and are drawn.

use std::sync::OnceLock;

use rand_chacha::ChaCha8Rng;
use stagewright_core::document::GraphDocument;

use super::super::draw::one_of;
use stagewright_workloads::{Granularity, Optimizer, Options, Precision, Size, Sizes, family};

/// Batch sizes of all models.
const BATCHES: &[u64] = &[1, 2, 4, 8, 16, 32, 64];
/// Ratio up to which a number of operators counts as close to the target as the nearest one.
const AS_GOOD: f64 = 1.15;

/// The size in which the number of operators is linear: minimum value, step and greatest value.
#[derive(Debug, Clone, Copy)]
struct Scale {
    size: Size,
    least: u64,
    step: u64,
    most: u64,
}

/// A variant of a model.
#[derive(Debug, Clone, Copy)]
struct Rung {
    variant: &'static str,
    scale: Option<Scale>,
    /// Fixed sizes.
    given: &'static [(Size, u64)],
}

/// A model: its variants, and the sizes that are drawn.
#[derive(Debug)]
pub(super) struct Ladder {
    model: &'static str,
    rungs: &'static [Rung],
    drawn: &'static [(Size, &'static [u64])],
    /// Numbers of operators, for inference and for training; computed on first use.
    lines: [OnceLock<Vec<Line>>; 2],
}

/// Numbers of operators of a rung: the smallest, the increment per step, and the number of steps.
#[derive(Debug, Clone, Copy)]
struct Line {
    rung: Rung,
    granularity: Granularity,
    first: usize,
    per_step: usize,
    steps: usize,
}

impl Line {
    /// The number of steps whose number of operators is nearest to `operators`.
    fn steps_for(&self, operators: usize) -> usize {
        if self.per_step == 0 {
            return 0;
        }
        let above = operators.saturating_sub(self.first);
        ((above + self.per_step / 2) / self.per_step).min(self.steps)
    }

    /// The number of operators after `steps` steps.
    fn operators(&self, steps: usize) -> usize {
        self.first + steps * self.per_step
    }

    /// The number of operators within a range that is nearest to `target`, if any.
    fn nearest(&self, target: usize, [least, largest]: [usize; 2]) -> Option<usize> {
        let nearest = self.steps_for(target.clamp(least, largest));
        let steps = [nearest.saturating_sub(1), nearest, (nearest + 1).min(self.steps)];
        let inside = steps
            .map(|steps| self.operators(steps))
            .into_iter()
            .filter(|size| (least..=largest).contains(size));
        inside.min_by(|&a, &b| apart(a, target).total_cmp(&apart(b, target)))
    }

    /// The sizes after `steps` steps.
    fn sizes(&self, steps: usize) -> Sizes {
        let sizes =
            self.rung.given.iter().fold(Sizes::default(), |sizes, &(size, value)| sizes.with(size, value));
        match self.rung.scale {
            Some(scale) => sizes.with(scale.size, scale.least + steps as u64 * scale.step),
            None => sizes,
        }
    }
}

/// Ratio of the larger of two numbers to the smaller.
fn apart(a: usize, b: usize) -> f64 {
    a.max(b) as f64 / a.min(b).max(1) as f64
}

impl Ladder {
    const fn new(
        model: &'static str,
        rungs: &'static [Rung],
        drawn: &'static [(Size, &'static [u64])],
    ) -> Ladder {
        Ladder { model, rungs, drawn, lines: [OnceLock::new(), OnceLock::new()] }
    }

    /// The number of operators within a range that is nearest to `target`, if the model has one.
    pub(super) fn nearest(&self, is_training: bool, target: usize, range: [usize; 2]) -> Option<usize> {
        let found = self.lines(is_training).iter().filter_map(|line| line.nearest(target, range));
        found.min_by(|&a, &b| apart(a, target).total_cmp(&apart(b, target)))
    }

    /// The model with about `operators` operators.
    pub(super) fn graph(&self, rng: &mut ChaCha8Rng, is_training: bool, operators: usize) -> GraphDocument {
        let lines = self.lines(is_training);
        let off = |line: &Line| apart(line.operators(line.steps_for(operators)), operators);
        let best = lines.iter().map(off).fold(f64::INFINITY, f64::min);
        let good: Vec<&Line> = lines.iter().filter(|line| off(line) <= best * AS_GOOD).collect();
        let line = one_of(rng, &good);
        let mut sizes = line.sizes(line.steps_for(operators));
        for &(size, values) in self.drawn {
            sizes = sizes.with(size, one_of(rng, values));
        }
        sizes = sizes.with(Size::Batch, one_of(rng, BATCHES));
        let precision = one_of(rng, &[Precision::Fp32, Precision::Fp16]);
        let optimizer = one_of(rng, &Optimizer::ALL);
        self.generate(line.rung.variant, line.granularity, sizes, precision, is_training.then_some(optimizer))
    }

    fn generate(
        &self,
        variant: &str,
        granularity: Granularity,
        sizes: Sizes,
        precision: Precision,
        training: Option<Optimizer>,
    ) -> GraphDocument {
        let options = Options { sizes, training, precision, granularity };
        family(self.model)
            .and_then(|family| family.generate(Some(variant), &options))
            .expect("the sizes of a ladder make a model")
    }

    /// Numbers of operators, computed once by generating the two smallest graphs of every rung.
    fn lines(&self, is_training: bool) -> &[Line] {
        self.lines[usize::from(is_training)].get_or_init(|| {
            let lines_of = |rung: &Rung| {
                [Granularity::Operator, Granularity::Layer].map(|granularity| {
                    let mut line = Line { rung: *rung, granularity, first: 0, per_step: 0, steps: 0 };
                    let count = |line: &Line, steps: usize| {
                        let optimizer = is_training.then_some(Optimizer::Sgd);
                        self.generate(
                            rung.variant,
                            granularity,
                            line.sizes(steps),
                            Precision::Fp32,
                            optimizer,
                        )
                        .operators
                        .len()
                    };
                    line.first = count(&line, 0);
                    if let Some(scale) = rung.scale {
                        line.steps = ((scale.most - scale.least) / scale.step) as usize;
                        line.per_step = count(&line, 1) - line.first;
                    }
                    line
                })
            };
            self.rungs.iter().flat_map(lines_of).collect()
        })
    }
}

const fn fixed(variant: &'static str) -> Rung {
    Rung { variant, scale: None, given: &[] }
}

const fn layers(variant: &'static str, least: u64, step: u64, largest: u64) -> Rung {
    Rung { variant, scale: Some(Scale { size: Size::Layers, least, step, most: largest }), given: &[] }
}

/// A model with `given` sizes, unrolled over up to `largest` steps.
const fn unrolled(variant: &'static str, given: &'static [(Size, u64)], largest: u64) -> Rung {
    Rung { variant, scale: Some(Scale { size: Size::Sequence, least: 2, step: 1, most: largest }), given }
}

const TEXTS: (Size, &[u64]) = (Size::Sequence, &[64, 128, 256, 512, 1024]);
const IMAGES: (Size, &[u64]) = (Size::Image, &[96, 128, 224, 299]);

pub(super) static RESNET: Ladder =
    Ladder::new("resnet", &[fixed("50"), fixed("101"), fixed("152")], &[IMAGES]);
pub(super) static INCEPTION: Ladder = Ladder::new("inception-v3", &[fixed("plain")], &[IMAGES]);
pub(super) static VGG: Ladder =
    Ladder::new("vgg", &[fixed("11"), fixed("13"), fixed("16"), fixed("19")], &[]);
pub(super) static NASNET: Ladder = Ladder::new(
    "nasnet-a",
    &[layers("mobile", 1, 1, 8), layers("large", 1, 1, 8)],
    &[IMAGES, (Size::Hidden, &[480, 1056, 2112])],
);
pub(super) static AMOEBANET: Ladder = Ladder::new(
    "amoebanet-d",
    &[layers("18-208", 3, 3, 36)],
    &[IMAGES, (Size::Hidden, &[64, 128, 208, 416])],
);
pub(super) static VIT: Ladder = Ladder::new(
    "vit",
    &[layers("b16", 1, 1, 48), layers("b32", 1, 1, 48)],
    &[(Size::Hidden, &[192, 384, 768, 1024])],
);
pub(super) static UNET: Ladder = Ladder::new(
    "unet",
    &[fixed("stable-diffusion-1")],
    &[(Size::Hidden, &[128, 192, 320]), (Size::Image, &[32, 64])],
);
pub(super) static BERT: Ladder = Ladder::new(
    "bert",
    &[layers("base", 1, 1, 48), layers("base-pretraining", 1, 1, 48)],
    &[TEXTS, (Size::Hidden, &[256, 512, 768, 1024])],
);
pub(super) static GPT: Ladder = Ladder::new(
    "gpt",
    &[layers("2-small", 1, 1, 64)],
    &[TEXTS, (Size::Hidden, &[256, 512, 768, 1280, 1600])],
);
pub(super) static LLAMA: Ladder =
    Ladder::new("llama", &[layers("2-7b", 1, 1, 48)], &[TEXTS, (Size::Hidden, &[512, 1024, 2048, 4096])]);
pub(super) static MIXTRAL: Ladder =
    Ladder::new("mixtral", &[layers("8x7b", 1, 1, 24)], &[TEXTS, (Size::Hidden, &[1024, 2048, 4096])]);
pub(super) static TRANSFORMER_XL: Ladder =
    Ladder::new("transformer-xl", &[layers("2", 1, 1, 48)], &[TEXTS, (Size::Hidden, &[128, 256, 512, 1024])]);
pub(super) static RNNLM: Ladder = Ladder::new(
    "rnnlm",
    &[
        unrolled("2", &[(Size::Layers, 1)], 60),
        unrolled("2", &[(Size::Layers, 2)], 60),
        unrolled("2", &[(Size::Layers, 4)], 60),
    ],
    &[(Size::Hidden, &[200, 650, 1024, 1500]), (Size::Vocabulary, &[1_000, 10_000, 50_000])],
);
pub(super) static GNMT: Ladder = Ladder::new(
    "gnmt",
    &[
        unrolled("2", &[(Size::Layers, 2)], 50),
        unrolled("2", &[(Size::Layers, 3)], 50),
        unrolled("2", &[(Size::Layers, 4)], 50),
    ],
    &[(Size::Hidden, &[128, 256, 512, 1024]), (Size::Vocabulary, &[4_000, 32_000])],
);
pub(super) static WAVENET: Ladder = Ladder::new(
    "wavenet",
    &[layers("2", 1, 1, 12)],
    &[(Size::Sequence, &[1_000, 4_000, 16_000]), (Size::Hidden, &[32, 64, 128])],
);
pub(super) static DLRM: Ladder = Ladder::new("dlrm", &[fixed("kaggle"), fixed("terabyte")], &[]);
