//! Seconds of mixers of tokens: attention over caches, and states.

use stagewright_core::document::Precision;
use stagewright_structure::{Indexer, Mixer};

use super::{Step, Worker};
use crate::model::LayerKind;

/// FLOP of a chunked scan of a prompt for each that the recurrence needs, and the units that it leaves idle: an estimate.
const SCAN: f64 = 4.0;

/// Minimum bytes of a cached number that count as read. Kernels convert numbers of 8 bits, and published measurements with them fit
/// the share of the bandwidth that measured kernels reach on 16 bits, number by number.
const READ_BYTES: f64 = 2.0;

/// Work of a mixer on a device.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// Bytes that a sequence's step reads and writes of its cache or state, with at least [`READ_BYTES`] a cached number.
    bytes: f64,
    /// FLOP of a token of a sequence in its step.
    decode: f64,
    /// FLOP of a token of a prompt.
    prompt: f64,
    /// FLOP of scores of a selector for a token of a prompt, in 8 bits.
    scores: f64,
}

impl Worker<'_> {
    /// Seconds of the mixer of a layer: caches are read once for every sequence, or multiplied with if that takes longer;
    /// prompts add their products.
    pub(super) fn mixer_seconds(&self, kind: &LayerKind, step: &Step) -> f64 {
        let work = self.mixer_work(&kind.mixer, step);
        let read = work.bytes / (self.device.bandwidth * self.engine.cache_bandwidth);
        let decode = step.sequences * read.max(step.queries * work.decode / self.attention_rate());
        let scores = work.scores / (self.device.peak(Precision::Fp8) * self.engine.attention);
        decode + step.prompt * (work.prompt / self.attention_rate() + scores)
    }

    fn mixer_work(&self, mixer: &Mixer, step: &Step) -> Work {
        let tensor = self.parallel.tensor as f64;
        let number = self.cache.bytes_per_number().max(READ_BYTES);
        match mixer {
            Mixer::Attention(attention) => {
                let heads = attention.heads as f64 / tensor;
                let keys = attention.kv_heads as f64;
                let own = keys / keys.min(tensor).max(1.0);
                let width = attention.key as f64 + attention.value as f64;
                let window = attention.window.map_or(f64::INFINITY, |window| window as f64);
                let index = Index::new(attention.indexer.as_ref());
                let seen = |tokens: f64| index.selected(tokens.min(window));
                Work {
                    bytes: number * (seen(step.context) * own * width + index.read(step.context)),
                    decode: 2.0 * seen(step.context) * heads * width,
                    prompt: 2.0 * seen(step.seen) * heads * width,
                    scores: index.flop(step.seen),
                }
            }
            Mixer::Latent(latent) => {
                let heads = latent.heads as f64 / tensor;
                let [rank, rotary] = [latent.rank as f64, latent.rotary as f64];
                let index = Index::new(latent.indexer.as_ref());
                // Selected tokens differ by query, so that latents cannot be expanded once for a prompt.
                let expanded = latent.plain as f64 + rotary + latent.value as f64;
                let absorbed = 2.0 * rank + rotary;
                let width = if latent.indexer.is_some() { absorbed } else { expanded };
                Work {
                    bytes: number
                        * (index.selected(step.context) * (rank + rotary) + index.read(step.context)),
                    decode: 2.0 * index.selected(step.context) * heads * absorbed,
                    prompt: 2.0 * index.selected(step.seen) * heads * width,
                    scores: index.flop(step.seen),
                }
            }
            Mixer::Compressed(compressed) => {
                let heads = compressed.heads as f64 / tensor;
                let width = compressed.width as f64;
                let index = Index::new(compressed.indexer.as_ref());
                let entries =
                    |tokens: f64| if compressed.ratio > 0 { tokens / compressed.ratio as f64 } else { 0.0 };
                let seen =
                    |tokens: f64| tokens.min(compressed.window as f64) + index.selected(entries(tokens));
                Work {
                    bytes: number * (seen(step.context) * width + index.read(entries(step.context))),
                    decode: 4.0 * seen(step.context) * heads * width,
                    prompt: 4.0 * seen(step.seen) * heads * width,
                    scores: index.flop(entries(step.seen)),
                }
            }
            Mixer::Linear(linear) => {
                let state = linear.value_heads as f64 * linear.key as f64 * linear.value as f64 / tensor;
                recurrence(state, 4.0, 7.0)
            }
            Mixer::StateSpace(space) => {
                let state = space.heads as f64 * space.width as f64 * space.state as f64 / tensor;
                recurrence(state, space.state_bytes as f64, 5.0)
            }
            Mixer::Convolution(_) | Mixer::None => Work::default(),
        }
    }
}

/// Work on a state: read and written in every step, with some FLOP for each number.
fn recurrence(numbers: f64, number_bytes: f64, flop: f64) -> Work {
    Work {
        bytes: 2.0 * numbers * number_bytes,
        decode: flop * numbers,
        prompt: SCAN * flop * numbers,
        scores: 0.0,
    }
}

/// Selector of tokens of sparse attention, whole on every device.
#[derive(Debug, Clone, Copy)]
struct Index {
    heads: f64,
    width: f64,
    limit: f64,
}

impl Index {
    fn new(indexer: Option<&Indexer>) -> Index {
        let Some(indexer) = indexer else { return Index { heads: 0.0, width: 0.0, limit: f64::INFINITY } };
        let own = if indexer.shared { 0.0 } else { 1.0 };
        let (heads, width) = (indexer.heads as f64 * own, indexer.width as f64 * own);
        Index { heads, width, limit: indexer.selected as f64 }
    }

    /// Tokens that are seen, of those before one.
    fn selected(self, tokens: f64) -> f64 {
        tokens.min(self.limit)
    }

    /// Numbers of keys that are read to select.
    fn read(self, tokens: f64) -> f64 {
        tokens * self.width
    }

    /// FLOP of the scores of a token.
    fn flop(self, tokens: f64) -> f64 {
        2.0 * tokens * self.heads * self.width
    }
}
