//! Bytes of a worker.

use stagewright_structure::{Layer, Mixer, cache::layer_cache};

use super::Worker;
use crate::engine::MemoryOf;
use crate::model::LayerKind;

impl Worker<'_> {
    /// Bytes of weights on a device: the layers, and the tables at the ends that the worker has.
    pub fn weight_bytes(&self) -> f64 {
        let tensor = self.parallel.tensor as f64;
        let layers: f64 =
            self.counts.iter().map(|&(kind, count)| count * self.kind_bytes(&self.model.kinds[kind])).sum();
        let first =
            if self.is_first() { self.model.table_bytes / tensor + self.model.tower_bytes } else { 0.0 };
        let is_stored = self.is_last() && !(self.model.is_tied && self.is_first());
        let head = self.model.head.as_ref().filter(|_| is_stored);
        layers + first + head.map_or(0.0, |head| head.bytes / tensor)
    }

    /// Bytes of the weights of a layer of a kind on a device.
    fn kind_bytes(&self, kind: &LayerKind) -> f64 {
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
        let of_kind = |kind: &LayerKind| {
            let cache = layer_cache(&kind.layer, context, self.cache);
            let index = self.index_bytes(&kind.layer, context);
            let keys = (cache.tokens - index).max(0.0);
            keys / self.cache_degree(&kind.mixer) + index + cache.state / self.parallel.tensor as f64
        };
        self.counts.iter().map(|&(kind, count)| count * of_kind(&self.model.kinds[kind])).sum()
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
        let share = self.engine.memory_share;
        let taken = self.weight_bytes() + self.engine.outside_bytes;
        match self.engine.memory_of {
            MemoryOf::Total => share * self.device.memory - taken,
            MemoryOf::Free if taken > self.device.memory => self.device.memory - taken,
            MemoryOf::Free => share * (self.device.memory - taken),
        }
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
