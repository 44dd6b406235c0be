//! Attention with keys and values of every head or group of heads, and its core for all kinds of attention.
//!
//! In inference the core is one fused kernel, which keeps scores on chip (Dao et al. 2022); in training its parts are drawn
//! as in the built-in families, and the scores are tensors. All scores between a new token and the tokens that its layer
//! sees are counted, including those that a causal mask hides; a window of w tokens or a selection bounds them. A score
//! costs 6 FLOP besides its two products.

use stagewright_core::document::KernelDocument;
use stagewright_structure::{Attention, Indexer, Role};

use super::draw::{Cached, Draw};
use super::weights::Module;
use crate::record::Product;
use crate::{Activation, Piece, Read, Record, Tensor};

/// Widths of the core of an attention, and the numbers of tokens that it sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Core {
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    /// Width of a head of queries and keys.
    pub(super) key: u64,
    /// Width of a head of values.
    pub(super) value: u64,
    /// Tokens or entries that a query sees.
    pub(super) seen: f64,
    pub(super) is_causal: bool,
}

/// Projected queries, keys and values. Layers that read the cache of another have its keys and values.
struct Projected {
    query: Tensor,
    keys: Option<Tensor>,
    values: Option<Tensor>,
    /// Gate of the output, before its activation.
    gate: Option<Tensor>,
}

/// Whether a name is that of a normalisation of queries.
pub(super) fn is_query_norm(module: &Module) -> bool {
    const WORDS: [&str; 5] = ["q_norm", "query_layernorm", "q_layernorm", "q_a_layernorm", "q_a_norm"];
    is_norm(module, &WORDS)
}

/// Whether a name is that of a normalisation of keys, or of the latent of keys and values.
pub(super) fn is_key_norm(module: &Module) -> bool {
    const WORDS: [&str; 6] =
        ["k_norm", "key_layernorm", "k_layernorm", "kv_a_layernorm", "kv_a_norm", "kv_norm"];
    is_norm(module, &WORDS)
}

/// Whether a name ends in one of some words, and is not that of a selector or compressor.
fn is_norm(module: &Module, words: &[&str]) -> bool {
    module.role == Role::Norm
        && words.iter().any(|word| module.name.ends_with(word))
        && !["index", "compressor"].iter().any(|part| module.name.contains(part))
}

impl Draw<'_> {
    /// Attention of new tokens over themselves and earlier tokens.
    pub(super) fn attention(&mut self, base: &str, attention: &Attention, x: Tensor) -> Tensor {
        let mut projected = self.projected(base, attention, x, x);
        self.turn(base, attention, &mut projected);
        let owner = attention.shares_cache_of.and_then(|layer| usize::try_from(layer).ok());
        match owner {
            Some(owner) => {
                let keys = self.passed.keys.get(&owner).copied();
                [projected.keys, projected.values] = keys.unwrap_or_default();
            }
            None => {
                self.passed.keys.insert(self.index, [projected.keys, projected.values]);
            }
        }
        let mut step = *self.step;
        if attention.bidirectional {
            // An encoder reads whole sequences, and keeps nothing of them.
            step.context = 0;
        }
        let length = step.length();
        let window = attention.window.unwrap_or(u64::MAX);
        let seen = length.min(window);
        let mut past = step.context.min(window.saturating_sub(1)) as f64;
        let number = step.cache.bytes_per_number() * step.batch as f64;
        let key = (owner.unwrap_or(self.index), false);
        let mut inputs = Vec::new();
        let mut core = Core::of(attention, seen as f64);
        if let Some(indexer) = &attention.indexer {
            inputs.extend(self.indexer(base, indexer, x, x, length as f64, past));
            core.seen = core.seen.min(indexer.selected as f64);
            past = past.min(indexer.selected as f64 * step.tokens as f64);
        }
        let entry = attention.kv_heads as f64 * (attention.key as f64 + attention.value as f64) * number;
        let written = if owner.is_some() { 0.0 } else { step.tokens.min(window) as f64 };
        let moved = if attention.bidirectional { 0.0 } else { (past + written) * entry };
        let cached = self.cached(moved, key);
        let mixed = self.core(base, &projected, &inputs, core, cached);
        self.output(base, projected.gate, mixed, x)
    }

    /// Attention of new tokens over the output of an encoder, which is `memory` where the step computes it.
    pub(super) fn cross(
        &mut self,
        base: &str,
        cross: &Attention,
        x: Tensor,
        memory: Option<Tensor>,
    ) -> Tensor {
        let tokens = self.step.tower_tokens as f64;
        let number = self.step.cache.bytes_per_number() * self.step.batch as f64;
        let entry = cross.kv_heads as f64 * (cross.key as f64 + cross.value as f64) * number;
        let projected = match memory {
            Some(memory) => self.projected(base, cross, x, memory),
            None => {
                let query = self.weights.take(Role::Query).map_or(x, |module| self.linear(&module, x));
                for role in [Role::Key, Role::Value] {
                    if let Some(module) = self.weights.take(role) {
                        self.hold(&module);
                    }
                }
                Projected { query, keys: None, values: None, gate: None }
            }
        };
        let key = (self.index, true);
        let cached = self.cached(tokens * entry, key);
        let core = Core { is_causal: false, ..Core::of(cross, tokens) };
        let mixed = self.core(base, &projected, &[], core, cached);
        self.output(base, projected.gate, mixed, x)
    }

    /// The part of a cache that an operator moves; none in training.
    pub(super) fn cached(&self, moved: f64, layer: (usize, bool)) -> Cached {
        if self.step.is_training { Cached::default() } else { Cached { moved, layer: Some(layer) } }
    }

    fn projected(&mut self, base: &str, attention: &Attention, x: Tensor, memory: Tensor) -> Projected {
        let width = |heads: u64, width: u64| heads.saturating_mul(width);
        let queries = width(attention.heads, attention.key);
        let keys = width(attention.kv_heads, attention.key);
        let values = width(attention.kv_heads, attention.value);
        if let Some(module) = self.weights.take(Role::QueryKeyValue) {
            let all = self.linear(&module, x);
            let gate = all.last().saturating_sub(queries.saturating_add(keys).saturating_add(values));
            let widths = [queries, keys, values, gate];
            let widths = &widths[..if gate > 0 && attention.gate { 4 } else { 3 }];
            let parts = self.parts(&format!("{base}.split"), all, widths);
            return Projected {
                query: parts[0],
                keys: Some(parts[1]),
                values: Some(parts[2]),
                gate: parts.get(3).copied(),
            };
        }
        let (mut query, mut gate) = (x, None);
        if let Some(module) = self.weights.take(Role::Query) {
            query = self.linear(&module, x);
            if attention.gate && query.last() == queries.saturating_mul(2) {
                let parts = self.parts(&format!("{base}.split"), query, &[queries, queries]);
                (query, gate) = (parts[0], Some(parts[1]));
            }
        }
        let project =
            |draw: &mut Self, role: Role| draw.weights.take(role).map(|module| draw.linear(&module, memory));
        let is_own = attention.shares_cache_of.is_none();
        let keys = if is_own { project(self, Role::Key) } else { None };
        let values = if is_own && !attention.values_are_keys { project(self, Role::Value) } else { keys };
        Projected { query, keys, values, gate }
    }

    /// Normalises and rotates queries and keys.
    fn turn(&mut self, base: &str, attention: &Attention, projected: &mut Projected) {
        let query = &mut projected.query;
        if let Some(module) = self.weights.take_if(is_query_norm) {
            *query = self.normalise(&module, *query, attention.key);
        }
        *query = self.rotate(&format!("{base}.query_rotary"), *query, attention.heads, attention.rotary);
        let Some(keys) = &mut projected.keys else { return };
        if let Some(module) = self.weights.take_if(is_key_norm) {
            *keys = self.normalise(&module, *keys, attention.key);
        }
        *keys = self.rotate(&format!("{base}.key_rotary"), *keys, attention.kv_heads, attention.rotary);
    }

    fn core(
        &mut self,
        base: &str,
        projected: &Projected,
        beside: &[Tensor],
        core: Core,
        cached: Cached,
    ) -> Tensor {
        let keys: Vec<Tensor> = projected.keys.iter().copied().collect();
        let values: Vec<Tensor> = projected.values.iter().copied().collect();
        self.attend(base, projected.query, [&keys, &values], beside, core, cached)
    }

    /// The core: scores, their weights, and the weighted sum of values. `beside` are selections.
    pub(super) fn attend(
        &mut self,
        base: &str,
        query: Tensor,
        [keys, values]: [&[Tensor]; 2],
        beside: &[Tensor],
        core: Core,
        cached: Cached,
    ) -> Tensor {
        let out = query.shape.with_last(core.heads.saturating_mul(core.value));
        let scores = self.step.rows() * core.heads as f64 * core.seen;
        if self.step.is_training {
            return self.attend_in_parts(base, query, [keys, values], beside, core);
        }
        let inputs: Vec<Tensor> = [query].iter().chain(keys).chain(values).chain(beside).copied().collect();
        let flop = scores * (2.0 * core.key as f64 + 2.0 * core.value as f64 + SOFTMAX);
        let mut record = self.mixed("attention", &inputs, flop);
        if let Some(module) = self.weights.take(Role::Sinks) {
            record = self.weigh(record, &module, 1.0);
            record.precision = None;
        }
        record.kernel = core.kernel(self.step.batch as f64, self.step.tokens as f64);
        self.push(&format!("{base}.attention"), record, out, cached)
    }

    /// The core of training, with the scores as a tensor.
    fn attend_in_parts(
        &mut self,
        base: &str,
        query: Tensor,
        [keys, values]: [&[Tensor]; 2],
        beside: &[Tensor],
        core: Core,
    ) -> Tensor {
        let (rows, heads) = (self.step.rows(), core.heads as f64);
        let scores = rows * heads * core.seen;
        let shape = query.shape.with_last(core.heads.saturating_mul(core.seen as u64));
        let (batch, m) = core.batch(self.step.batch as f64, self.step.tokens as f64);
        let product = Product { batch, m, n: core.seen, k: core.key as f64 };
        let all: Vec<Tensor> = [query].iter().chain(keys).chain(beside).copied().collect();
        let record = contract(&all, 2.0 * scores * core.key as f64, product);
        let weights = self.push(&format!("{base}.scores"), record, shape, Cached::default());
        let mut record = Record::new("softmax", [weights])
            .flop(SOFTMAX * scores)
            .piece(Piece::whole(4.0 * scores, &[Read::Output]));
        record.causal = core.is_causal;
        let weights = self.push(&format!("{base}.softmax"), record, shape, Cached::default());
        let out = query.shape.with_last(core.heads.saturating_mul(core.value));
        let product = Product { batch, m, n: core.value as f64, k: core.seen };
        let all: Vec<Tensor> = [weights].iter().chain(values).copied().collect();
        let record = contract(&all, 2.0 * scores * core.value as f64, product);
        self.push(&format!("{base}.context"), record, out, Cached::default())
    }

    /// Multiplies the output of the heads by a gate, if there is one, and projects it.
    /// `x` is what queries are projected from, and so is a gate with weights of its own.
    pub(super) fn output(&mut self, base: &str, gate: Option<Tensor>, mixed: Tensor, x: Tensor) -> Tensor {
        let mut mixed = mixed;
        let projected = self.weights.take(Role::AttentionGate).map(|module| self.linear(&module, x));
        if let Some(gate) = gate.or(projected) {
            let gate = self.activate(&format!("{base}.gate_act"), gate, Activation::Sigmoid);
            mixed = self.multiply(&format!("{base}.gated"), [mixed, gate], mixed.elements());
        }
        match self.weights.take(Role::Output) {
            Some(module) => self.linear(&module, mixed),
            None => mixed,
        }
    }

    /// The selector of sparse attention: scores of a few narrow heads over `keys` tokens or entries, of which `past` are
    /// in the cache. A shared selector is that of an earlier layer.
    pub(super) fn indexer(
        &mut self,
        base: &str,
        indexer: &Indexer,
        x: Tensor,
        latent: Tensor,
        keys: f64,
        past: f64,
    ) -> Option<Tensor> {
        if indexer.shared {
            return self.passed.selected;
        }
        let mut inputs = Vec::new();
        for module in self.weights.take_all(Role::Indexer) {
            let from = if module.inputs == latent.last() { latent } else { x };
            inputs.push(self.linear(&module, from));
        }
        let width = indexer.width;
        for input in &mut inputs {
            let of_head = |module: &Module| {
                module.role == Role::Norm && module.name.contains("index") && input.last() % width.max(1) == 0
            };
            if let Some(module) = self.weights.take_if(of_head) {
                *input = self.normalise(&module, *input, width);
            }
        }
        let step = *self.step;
        let flop = 2.0 * step.rows() * keys * indexer.heads as f64 * width as f64;
        let number = step.cache.bytes_per_number() * step.batch as f64;
        let written = keys - past;
        let cached = self.cached((past + written) * width as f64 * number, (self.index, false));
        let record =
            self.mixed("indexer", if inputs.is_empty() { std::slice::from_ref(&x) } else { &inputs }, flop);
        let selected = x.shape.with_last(indexer.selected.min(keys as u64).max(1));
        let elements = selected.elements() * INDEX_WIDTH / self.tape.width;
        let selections = self.push_all(&format!("{base}.select"), record, &[selected], &[elements], cached);
        self.passed.selected = Some(selections[0]);
        self.passed.selected
    }
}

/// Bytes of the number of a token.
pub(super) const INDEX_WIDTH: f64 = 4.0;

/// FLOP of a score besides its products: scaling, mask and softmax.
const SOFTMAX: f64 = 6.0;

/// A product of a tensor and others, with a gradient for the first and one for the others.
fn contract(inputs: &[Tensor], flop: f64, product: Product) -> Record {
    let Product { batch, m, n, k } = product;
    let others: Vec<usize> = (1..inputs.len()).collect();
    let reads: Vec<Read> = others.iter().map(|&place| Read::Input(place)).collect();
    Record::new("matmul", inputs)
        .flop(flop)
        .product(product)
        .piece(Piece::of_inputs("grad_0", &[0], flop, &reads).product(Product { batch, m, n: k, k: n }))
        .piece(Piece::of_inputs("grad_1", &others, flop, &[Read::Input(0)]).product(Product {
            batch,
            m: k,
            n,
            k: m,
        }))
}

impl Core {
    fn of(attention: &Attention, seen: f64) -> Core {
        Core {
            heads: attention.heads,
            kv_heads: attention.kv_heads,
            key: attention.key,
            value: attention.value,
            seen,
            is_causal: !attention.bidirectional,
        }
    }

    /// Batched products of a head's keys, and the rows of each.
    fn batch(&self, sequences: f64, tokens: f64) -> (f64, f64) {
        let kv_heads = self.kv_heads.max(1) as f64;
        (sequences * kv_heads, tokens * self.heads as f64 / kv_heads)
    }

    /// The fused kernel, if its keys and values have one width, as measurements have it.
    fn kernel(&self, batch: f64, queries: f64) -> Option<KernelDocument> {
        let kernel = KernelDocument::Attention {
            batch,
            queries,
            keys: self.seen,
            heads: self.heads as f64,
            kv_heads: self.kv_heads as f64,
            head_dim: self.key as f64,
            causal: self.is_causal,
        };
        let is_positive = kernel.dimensions().iter().all(|&(_, size)| size > 0.0);
        (self.key == self.value && is_positive).then_some(kernel)
    }
}
