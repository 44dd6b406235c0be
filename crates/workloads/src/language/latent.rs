//! Attention over latents: MLA (DeepSeek-AI 2024, section 2.1) and the compressed attention of DeepSeek-V4.
//!
//! The cache of MLA holds a latent and a rotary key for each token. Prefill and training project keys and values of every
//! head up from the latents; those of the context are projected again. Decode, and every step whose selector leaves tokens
//! out, absorbs that projection into queries and outputs instead, so that scores and weighted sums are over the latents
//! and no key or value of a head exists.

use stagewright_structure::{Compressed, Latent, Role};

use super::attention::{Core, is_key_norm, is_query_norm};
use super::draw::{Cached, Draw};
use super::weights::Module;
use crate::operators::bilinear;
use crate::record::Product;
use crate::{Record, Tensor};

impl Draw<'_> {
    /// Latent attention of new tokens over themselves and earlier tokens.
    pub(super) fn latent(&mut self, base: &str, latent: &Latent, x: Tensor) -> Tensor {
        let (query, narrow) = self.latent_queries(base, latent, x);
        let mut down = x;
        if let Some(module) = self.weights.take(Role::KeyValueDown) {
            down = self.linear(&module, x);
        }
        let parts = self.parts(&format!("{base}.latent_split"), down, &[latent.rank, latent.rotary]);
        let (mut rows, rotary) = (parts[0], parts[1]);
        if let Some(module) = self.weights.take_if(is_key_norm) {
            rows = self.normalise(&module, rows, latent.rank);
        }
        let rotary = self.rotate(&format!("{base}.key_rotary"), rotary, 1, latent.rotary);
        let (context, length) = (self.step.context as f64, self.step.length() as f64);
        let mut beside = Vec::new();
        let (mut seen, mut past) = (length, context);
        if let Some(indexer) = &latent.indexer {
            beside.extend(self.indexer(base, indexer, x, narrow, length, context));
            seen = seen.min(indexer.selected as f64);
            past = past.min(indexer.selected as f64 * self.step.tokens as f64);
        }
        let absorbs = !self.step.is_training && (self.step.is_decode || seen < length);
        let mixed = match absorbs {
            true => self.absorbed(base, latent, query, [rows, rotary], &beside, [seen, past]),
            false => self.projected_up(base, latent, query, [rows, rotary], &beside, seen),
        };
        self.output(base, None, mixed, x)
    }

    /// What queries are projected from: the hidden state, or a normalised projection of it to a lower rank.
    fn narrowed(&mut self, x: Tensor) -> Tensor {
        let narrow = self.weights.take(Role::QueryDown).map_or(x, |module| self.linear(&module, x));
        let norm = self.weights.take_if(is_query_norm);
        norm.map_or(narrow, |module| self.normalise(&module, narrow, narrow.last()))
    }

    /// Queries of every head, and what they are projected from.
    fn latent_queries(&mut self, base: &str, latent: &Latent, x: Tensor) -> (Tensor, Tensor) {
        let narrow = self.narrowed(x);
        let module = self.weights.take(Role::QueryUp).or_else(|| self.weights.take(Role::Query));
        let query = module.map_or(narrow, |module| self.linear(&module, narrow));
        (self.rotate(&format!("{base}.query_rotary"), query, latent.heads, latent.rotary), narrow)
    }

    /// Bytes of `tokens` entries of the cache, in all sequences.
    fn entries(&self, tokens: f64, width: f64) -> f64 {
        tokens * width * self.step.cache.bytes_per_number() * self.step.batch as f64
    }

    /// Attention with keys and values projected up from all latents.
    fn projected_up(
        &mut self,
        base: &str,
        latent: &Latent,
        query: Tensor,
        [rows, rotary]: [Tensor; 2],
        beside: &[Tensor],
        seen: f64,
    ) -> Tensor {
        let step = *self.step;
        let context = step.context as f64;
        let key = (self.index, false);
        let again = step.length() as f64 / step.tokens as f64;
        let cached = self.cached(self.entries(context, latent.rank as f64), key);
        let mut keys = Vec::new();
        for module in self.weights.take_all(Role::KeyValueUp) {
            keys.push(self.up(&module, rows, again, cached));
        }
        let values: Vec<Tensor> = keys.last().copied().into_iter().collect();
        keys.push(rotary);
        keys.dedup_by_key(|tensor| tensor.value);
        let core = Core {
            heads: latent.heads,
            kv_heads: latent.heads,
            key: latent.plain.saturating_add(latent.rotary),
            value: latent.value,
            seen,
            is_causal: true,
        };
        let written = self.entries(step.tokens as f64, (latent.rank as f64) + latent.rotary as f64);
        let read = self.entries(context, latent.rotary as f64);
        let cached = self.cached(read + written, key);
        self.attend(base, query, [&keys, &values], beside, core, cached)
    }

    /// Projects latents up: `again` times as many as the new tokens have, with those of the context.
    fn up(&mut self, module: &Module, rows: Tensor, again: f64, cached: Cached) -> Tensor {
        let inputs = rows.last().max(1) as f64;
        let outputs = (module.matrices / inputs).round().max(1.0);
        let count = self.step.rows() * again;
        let product = Product { batch: 1.0, m: count, n: outputs, k: inputs };
        let record = self.weigh(Record::new("linear", [rows]), module, 1.0);
        let record = bilinear(record, module.elements, 2.0 * count * module.matrices, product);
        let shape = rows.shape.with_last(outputs as u64);
        self.push_all(&module.name, record, &[shape], &[count * outputs], cached)[0]
    }

    /// Attention over the latents themselves.
    fn absorbed(
        &mut self,
        base: &str,
        latent: &Latent,
        query: Tensor,
        [rows, rotary]: [Tensor; 2],
        beside: &[Tensor],
        [seen, past]: [f64; 2],
    ) -> Tensor {
        let [key_part, value_part] = self.halves(latent);
        let heads = latent.heads;
        let width = latent.rank.saturating_add(latent.rotary);
        let query = match key_part {
            Some(module) => self.by_head(&module, query, heads, [latent.plain, latent.rank], width),
            None => query,
        };
        let core = Core { heads, kv_heads: 1, key: width, value: latent.rank, seen, is_causal: true };
        let entry = self.entries(1.0, width as f64);
        let cached = self.cached((past + self.step.tokens as f64) * entry, (self.index, false));
        let mixed = self.attend(base, query, [&[rows, rotary], &[]], beside, core, cached);
        match value_part {
            Some(module) => self.by_head(&module, mixed, heads, [latent.rank, latent.value], latent.value),
            None => mixed,
        }
    }

    /// The projections of keys and of values out of the latent, which files have in one module or in two.
    fn halves(&mut self, latent: &Latent) -> [Option<Module>; 2] {
        let mut modules = self.weights.take_all(Role::KeyValueUp);
        modules.sort_by(|module, other| module.name.cmp(&other.name));
        match <[Module; 2]>::try_from(modules) {
            Ok(both) => both.map(Some),
            Err(modules) => {
                let Some(whole) = modules.into_iter().reduce(Module::joined) else { return [None, None] };
                let (plain, all) = (latent.plain, latent.plain.saturating_add(latent.value).max(1));
                let part = |name: &str, range| whole.part(format!("{}.{name}", whole.name), range, all);
                [Some(part("keys", [0, plain])), Some(part("values", [plain, all]))]
            }
        }
    }

    /// Multiplies `inputs` elements of each head by a matrix of its own; heads come out `width` wide.
    fn by_head(
        &mut self,
        module: &Module,
        x: Tensor,
        heads: u64,
        [inputs, outputs]: [u64; 2],
        width: u64,
    ) -> Tensor {
        let rows = self.step.rows();
        let product = Product { batch: heads as f64, m: rows, n: outputs as f64, k: inputs as f64 };
        let record = self.weigh(Record::new("linear", [x]), module, 1.0);
        let record = bilinear(record, module.elements, 2.0 * rows * module.matrices, product);
        self.push(&module.name, record, x.shape.with_last(heads.saturating_mul(width)), Cached::default())
    }

    /// Attention over a window and over compressed earlier tokens (DeepSeek-V4), with one head of keys that are also values.
    pub(super) fn compressed(&mut self, base: &str, compressed: &Compressed, x: Tensor) -> Tensor {
        let narrow = self.narrowed(x);
        let query = self.weights.take(Role::QueryUp).map_or(narrow, |module| self.linear(&module, narrow));
        let query = self.rotate(&format!("{base}.query_rotary"), query, compressed.heads, compressed.rotary);
        let mut keys = self.weights.take(Role::Key).map_or(x, |module| self.linear(&module, x));
        if let Some(module) = self.weights.take_if(is_key_norm) {
            keys = self.normalise(&module, keys, compressed.width);
        }
        let mut keys = vec![self.rotate(&format!("{base}.key_rotary"), keys, 1, compressed.rotary)];
        for module in self.weights.take_all(Role::KeyValueDown) {
            keys.push(self.linear(&module, x));
        }
        let step = *self.step;
        let entries = |tokens: u64| tokens.checked_div(compressed.ratio).unwrap_or(0) as f64;
        let (all, past) = (entries(step.length()), entries(step.context));
        let (mut seen, mut read) = (all, past);
        let mut beside = Vec::new();
        if let Some(indexer) = &compressed.indexer {
            beside.extend(self.indexer(base, indexer, x, narrow, all, past));
            seen = seen.min(indexer.selected as f64);
            read = read.min(indexer.selected as f64 * step.tokens as f64);
        }
        let core = Core {
            heads: compressed.heads,
            kv_heads: 1,
            key: compressed.width,
            value: compressed.width,
            seen: step.length().min(compressed.window) as f64 + seen,
            is_causal: true,
        };
        let recent =
            step.context.min(compressed.window.saturating_sub(1)) + step.tokens.min(compressed.window);
        let moved = self.entries(recent as f64 + read + (all - past), compressed.width as f64);
        let cached = self.cached(moved, (self.index, false));
        let mixed = self.attend(base, query, [&keys, &keys], &beside, core, cached);
        let mixed = self.weights.take(Role::OutputDown).map_or(mixed, |module| {
            let groups = compressed.output_groups.max(1);
            let group = (mixed.last() / groups).max(1);
            let outputs = (module.matrices / group as f64 / groups as f64).round().max(1.0) as u64;
            self.by_head(&module, mixed, groups, [group, outputs], outputs)
        });
        self.output(base, None, mixed, x)
    }
}
