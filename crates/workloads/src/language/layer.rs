//! A layer: a mixer of tokens and a feed-forward block, each with a normalisation and a residual sum.

use stagewright_structure::cache::layer_cache;
use stagewright_structure::{Layer, Mixer, Role};

use super::draw::{Cached, Draw};
use super::weights::Module;
use crate::operators::bilinear;
use crate::record::Product;
use crate::tape::Cache;
use crate::{Record, Tensor};

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

/// Normalisations of the hidden state by their place: before and after the mixer, before attention over an encoder, before
/// and after the feed-forward block.
type Norms = [Option<Module>; 5];

/// Begins the names of the weights of hyper-connections (Zhu et al. 2025).
const HYPER: &str = "hc_";
/// Begins the names of the weights that merge the residual streams.
pub(super) const HYPER_HEAD: &str = "hc_head";

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
        let [before, after, before_cross, before_block, after_block] = self.norms(layer);
        let input = self.enter("hc_attn", x);
        let normalised = self.normalised(before, input);
        let has_block = layer.dense.is_some() || layer.mixture.is_some();
        if layer.mixer != Mixer::None {
            let base = self.weights.first(OF_MIXER).map(|module| self.base(module, "attn"));
            let base = base.unwrap_or_else(|| format!("{}.attn", self.path));
            self.keep(layer, &base);
            let y = self.mixer(&base, &layer.mixer, normalised);
            let y = self.normalised(after, y);
            x = self.residual(&format!("{base}.add"), y, x);
        }
        if let Some(cross) = &layer.cross {
            let base = self.weights.first(OF_MIXER).map(|module| self.base(module, "cross_attn"));
            let base = base.unwrap_or_else(|| format!("{}.cross_attn", self.path));
            self.keep_memory(cross, &base);
            let y = self.normalised(before_cross, x);
            let y = self.cross(&base, cross, y, memory);
            x = self.sum(&format!("{base}.add"), y, x);
        }
        if has_block {
            let y = match (layer.parallel, before_block) {
                (true, None) => normalised,
                (true, norm) => self.normalised(norm, input),
                (false, norm) => {
                    let x = self.enter("hc_ffn", x);
                    self.normalised(norm, x)
                }
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
            x = self.residual(&format!("{base}.sum"), y, x);
        }
        let x = self.enter(HYPER_HEAD, x);
        self.rest(x)
    }

    /// Mixes the residual streams of hyper-connections into the input of a block. Without such weights the hidden state is
    /// that input.
    pub(super) fn enter(&mut self, name: &str, x: Tensor) -> Tensor {
        let modules = self.weights.take_those(|module| module.name.contains(name));
        let Some(module) = Module::joining(modules) else { return x };
        self.streams = (module.inputs / self.hidden.max(1)).max(1);
        let (rows, width) = (self.step.rows(), module.inputs.max(1) as f64);
        let product = Product { batch: 1.0, m: rows, n: module.matrices / width, k: width };
        let record = self.weigh(Record::new("linear", [x]), &module, 1.0);
        let record = bilinear(record, module.elements, 2.0 * rows * (module.matrices + width), product);
        self.push(&module.name, record, x.shape.with_last(self.hidden), Cached::default())
    }

    /// Adds the output of a block to the hidden state: to each of its streams, which are mixed.
    fn residual(&mut self, name: &str, y: Tensor, x: Tensor) -> Tensor {
        if self.streams == 1 {
            return self.sum(name, y, x);
        }
        let shape = y.shape.with_last(self.hidden.saturating_mul(self.streams));
        let flop = 2.0 * shape.elements() * (self.streams as f64 + 1.0);
        let record = self.mixed("hyper_connection", &[y, x], flop);
        self.push(name, record, shape, Cached::default())
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

    /// Draws what projects the hidden state into a prediction layer, before the layer: with the table of tokens, if the layer
    /// has its own.
    fn entry(&mut self, mut x: Tensor) -> Tensor {
        x = self.tables(x);
        let is_entry = |module: &Module| {
            module.role == Role::Other && module.matrices > 0.0 && !module.name.contains(HYPER)
        };
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
        // Both follow their blocks, as in OLMo 2; in Llama the first of these names has the place before the block.
        let are_after = found.iter().filter_map(|module| place_of(&module.name)).eq([1, 3]);
        let mut norms = found.into_iter();
        let has_block = layer.dense.is_some() || layer.mixture.is_some();
        let places: &[usize] = match (norms.len(), layer.mixer == Mixer::None && has_block) {
            (0 | 1, false) => &[0],
            (0 | 1, true) => &[3],
            (2, _) if are_after => &[1, 4],
            (2, _) => &[0, 3],
            (3, _) if layer.cross.is_some() => &[0, 2, 3],
            (3, _) => &[0, 3, 4],
            _ => &[0, 1, 3, 4],
        };
        let mut placed = Norms::default();
        places.iter().for_each(|&place| placed[place] = norms.next());
        placed
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
