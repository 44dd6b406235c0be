//! Bytes of a worker.

use stagewright_structure::{Layer, Mixer, cache::layer_cache};

use super::Worker;

impl Worker<'_> {
    /// Bytes of weights on a device: the layers, and the tables at the ends that the worker has.
    pub fn weight_bytes(&self) -> f64 {
        let layers: f64 = self.counts.iter().map(|&(kind, count)| count * self.kind_weight_bytes(kind)).sum();
        layers + self.end_weight_bytes(self.is_first(), self.is_last())
    }

    /// Bytes of weights outside the layers on a device of the first or the last worker of a model.
    pub(crate) fn end_weight_bytes(&self, is_first: bool, is_last: bool) -> f64 {
        let tensor = self.parallel.tensor as f64;
        let first = if is_first { self.model.table_bytes / tensor + self.model.tower_bytes } else { 0.0 };
        let is_stored = is_last && !(self.model.is_tied && is_first);
        let head = self.model.head.as_ref().filter(|_| is_stored);
        first + head.map_or(0.0, |head| head.bytes / tensor)
    }

    /// Bytes of the weights of a layer of a kind on a device.
    pub(crate) fn kind_weight_bytes(&self, kind: usize) -> f64 {
        let kind = &self.model.kinds[kind];
        let products: f64 = kind
            .products
            .iter()
            .map(|product| product.bytes / product.share.degree(self.parallel.tensor))
            .sum();
        let devices = self.parallel.experts as f64 * self.parallel.expert_tensor as f64;
        let experts =
            kind.experts.as_ref().map_or(0.0, |experts| experts.bytes * experts.count as f64 / devices);
        products + experts + kind.other_bytes
    }

    /// Bytes of the cache and states of a sequence of `context` tokens on a device of its rank. Heads of keys and values and
    /// states are divided among the devices, latents and compressed entries are whole on each.
    pub fn cache_bytes(&self, context: u64) -> f64 {
        self.counts.iter().map(|&(kind, count)| count * self.kind_cache_bytes(kind, context)).sum()
    }

    /// Bytes of the cache and states of a layer of a kind, of a sequence of `context` tokens, on a device of its rank.
    pub(crate) fn kind_cache_bytes(&self, kind: usize, context: u64) -> f64 {
        let kind = &self.model.kinds[kind];
        let cache = layer_cache(&kind.layer, context, self.cache);
        let index = self.index_bytes(&kind.layer, context);
        let keys = (cache.tokens - index).max(0.0);
        keys / self.cache_degree(&kind.mixer) + index + cache.state / self.parallel.tensor as f64
    }

    /// Devices that keys and values are divided among.
    fn cache_degree(&self, mixer: &Mixer) -> f64 {
        match mixer {
            Mixer::Attention(attention) => attention.kv_heads.clamp(1, self.parallel.tensor) as f64,
            _ => 1.0,
        }
    }

    /// Bytes of the keys of an indexer beside keys and values.
    fn index_bytes(&self, layer: &Layer, context: u64) -> f64 {
        match &layer.mixer {
            Mixer::Attention(attention) => {
                let own = attention.indexer.as_ref().filter(|indexer| !indexer.shared);
                own.map_or(0.0, |indexer| {
                    context as f64 * indexer.width as f64 * self.cache.bytes_per_number()
                })
            }
            _ => 0.0,
        }
    }

    /// Bytes for caches on a device beside the weights; negative if the weights do not fit.
    pub fn cache_budget(&self) -> f64 {
        self.engine.cache_budget(self.device.memory, self.weight_bytes())
    }

    /// The largest batch of a rank whose sequences of `context` tokens fit beside the weights; 0 if none does, and `u64::MAX` if
    /// sequences keep nothing.
    pub fn largest_batch(&self, context: u64) -> u64 {
        let budget = self.cache_budget();
        let bytes = self.cache_bytes(context);
        if budget < 0.0 {
            0
        } else if bytes <= 0.0 {
            u64::MAX
        } else {
            (budget / bytes) as u64
        }
    }
}
