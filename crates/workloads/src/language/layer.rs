//! A layer: a mixer of tokens and a feed-forward block, each with a normalisation and a residual sum.

use stagewright_structure::cache::layer_cache;
use stagewright_structure::{Layer, Mixer, Role};

use super::draw::Draw;
use super::weights::Module;
use crate::Tensor;
use crate::tape::Cache;

/// Purposes whose module tells the path of a mixer, the first that is there.
const OF_MIXER: &[Role] = &[
    Role::Query,
    Role::QueryKeyValue,
    Role::QueryDown,
    Role::StateIn,
    Role::Convolution,
    Role::StateOut,
    Role::Output,
];

/// Purposes whose module tells the path of a feed-forward block.
const OF_BLOCK: &[Role] = &[Role::Down, Role::Up, Role::GateUp, Role::Router, Role::ExpertDown];

/// Normalisations of the hidden state by their place: before and after the mixer, before and after the feed-forward block.
type Norms = [Option<Module>; 4];

impl Draw<'_> {
    /// Path of the module around another one; a name below the layer where the layer itself is around it.
    pub(super) fn base(&self, module: &Module, otherwise: &str) -> String {
        let parent = module.parent();
        if parent.len() > self.path.len() { parent.to_owned() } else { format!("{}.{otherwise}", self.path) }
    }

    /// Draws a layer whose hidden state is `x`; `memory` is the output of an encoder, where the step computes it.
    pub(super) fn layer(&mut self, layer: &Layer, mut x: Tensor, memory: Option<Tensor>) -> Tensor {
        if layer.is_prediction {
            x = self.entry(x);
        }
        let [before, after, before_block, after_block] = self.norms(layer);
        let input = x;
        let normalised = self.normalised(before, x);
        let has_block = layer.dense.is_some() || layer.mixture.is_some();
        if layer.mixer != Mixer::None {
            let base = self.weights.first(OF_MIXER).map(|module| self.base(module, "attn"));
            let base = base.unwrap_or_else(|| format!("{}.attn", self.path));
            self.keep(layer, &base);
            let y = self.mixer(&base, &layer.mixer, normalised);
            let y = self.normalised(after, y);
            x = self.sum(&format!("{base}.add"), y, x);
        }
        if let Some(cross) = &layer.cross {
            let base = self.weights.first(OF_MIXER).map(|module| self.base(module, "cross_attn"));
            let base = base.unwrap_or_else(|| format!("{}.cross_attn", self.path));
            self.keep_memory(cross, &base);
            let y = self.cross(&base, cross, x, memory);
            x = self.sum(&format!("{base}.add"), y, x);
        }
        if has_block {
            let y = match (layer.parallel, before_block) {
                (true, None) => normalised,
                (true, norm) => self.normalised(norm, input),
                (false, norm) => self.normalised(norm, x),
            };
            let base = self.weights.first(OF_BLOCK).map(|module| self.base(module, "ffn"));
            let base = base.unwrap_or_else(|| format!("{}.ffn", self.path));
            let dense = layer.dense.as_ref().map(|_| self.dense(&base, y));
            let routed = layer.mixture.as_ref().map(|mixture| self.mixture(&base, mixture, y));
            let y = match (dense, routed) {
                (Some(dense), Some(routed)) => self.sum(&format!("{base}.both"), dense, routed),
                (dense, routed) => dense.or(routed).unwrap_or(y),
            };
            let y = self.normalised(after_block, y);
            x = self.sum(&format!("{base}.sum"), y, x);
        }
        self.rest(x)
    }

    fn mixer(&mut self, base: &str, mixer: &Mixer, x: Tensor) -> Tensor {
        let state = self.state_bytes;
        match mixer {
            Mixer::Attention(attention) => self.attention(base, attention, x),
            Mixer::Latent(latent) => self.latent(base, latent, x),
            Mixer::Compressed(compressed) => self.compressed(base, compressed, x),
            Mixer::Linear(linear) => self.linear_attention(base, linear, x, state),
            Mixer::StateSpace(space) => self.state_space(base, space, x, state),
            Mixer::Convolution(convolution) => self.convolution(base, convolution, x, state),
            Mixer::None => x,
        }
    }

    fn normalised(&mut self, module: Option<Module>, x: Tensor) -> Tensor {
        module.map_or(x, |module| self.normalise(&module, x, x.last()))
    }

    /// Registers what the layer keeps of its sequences after the step.
    fn keep(&mut self, layer: &Layer, base: &str) {
        let kept = layer_cache(layer, self.step.length(), self.step.cache);
        self.state_bytes = kept.state;
        self.register(false, format!("{base}.cache"), kept.bytes() * self.step.sequences as f64);
    }

    fn keep_memory(&mut self, cross: &stagewright_structure::Attention, base: &str) {
        let width = cross.kv_heads as f64 * (cross.key as f64 + cross.value as f64);
        let tokens = self.step.tower_tokens as f64 * self.step.sequences as f64;
        self.register(true, format!("{base}.cache"), tokens * width * self.step.cache.bytes_per_number());
    }

    fn register(&mut self, is_memory: bool, name: String, bytes: f64) {
        if bytes > 0.0 && !self.step.is_training {
            self.tape.caches.insert((self.index, is_memory), Cache { name, bytes, readers: Vec::new() });
        }
    }

    /// Draws what projects the hidden state into a prediction layer, before the layer.
    fn entry(&mut self, mut x: Tensor) -> Tensor {
        let is_entry =
            |module: &Module| module.role == Role::Other && module.matrices > 0.0 && !module.is_table;
        while let Some(module) = self.weights.take_if(is_entry) {
            x = self.product(&module, x, self.step.rows());
        }
        x
    }

    /// Takes the normalisations of the hidden state. They have its width, and are directly below the layer or among blocks.
    fn norms(&mut self, layer: &Layer) -> Norms {
        let width = self.norm.weights(self.hidden) as f64;
        let is_outer = |module: &Module| {
            module.role == Role::Norm && module.elements == width && place_of(&module.name).is_some()
        };
        let mut found: Vec<Module> = Vec::new();
        while found.len() < usize::try_from(layer.norms).unwrap_or(4).min(4) {
            let Some(module) = self.weights.take_if(is_outer) else { break };
            found.push(module);
        }
        found.sort_by_key(|module| place_of(&module.name));
        let mut norms = found.into_iter();
        let has_block = layer.dense.is_some() || layer.mixture.is_some();
        match (norms.len(), layer.mixer == Mixer::None && has_block) {
            (0 | 1, false) => [norms.next(), None, None, None],
            (0 | 1, true) => [None, None, norms.next(), None],
            (2, _) => [norms.next(), None, norms.next(), None],
            (3, _) => [norms.next(), None, norms.next(), norms.next()],
            _ => [norms.next(), norms.next(), norms.next(), norms.next()],
        }
    }
}

/// Place of a normalisation of the hidden state among those of its layer, by its name; `None` if it is one of queries, keys,
/// latents, selectors or prediction layers.
fn place_of(name: &str) -> Option<u8> {
    const INNER: [&str; 13] = [
        "q_norm",
        "k_norm",
        "kv_norm",
        "q_a_",
        "kv_a_",
        "query_",
        "key_",
        "index",
        "compressor",
        "enorm",
        "hnorm",
        "ssm_norm",
        "o_norm",
    ];
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&INNER) {
        None
    } else if has(&["post_ffw", "post_feedforward", "post_mlp", "post_ffn"]) {
        Some(3)
    } else if has(&["ffn", "ffw", "feedforward", "pre_mlp", "ln_2", "final_layer_norm"]) {
        Some(2)
    } else if has(&["post_att", "post_self"]) {
        Some(1)
    } else {
        Some(0)
    }
}
