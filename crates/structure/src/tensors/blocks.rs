//! Tensors of the blocks of a layer.

use super::{Draft, Scope};
use crate::structure::{
    Attention, Compressed, Convolution, Dense, Indexer, Latent, Linear, Mixer, Mixture, QkNorm, Rule,
    StateSpace,
};
use crate::tensor::Role;

impl Draft<'_> {
    pub(super) fn mixer(&mut self, scope: &Scope, mixer: &Mixer) {
        let names = self.names;
        match mixer {
            Mixer::Attention(attention) => self.attention(&scope.below(names.attention), attention),
            Mixer::Latent(latent) => self.latent(&scope.below(names.attention), latent),
            Mixer::Compressed(compressed) => self.compressed(&scope.below(names.attention), compressed),
            Mixer::Linear(linear) => self.linear_attention(scope, linear),
            Mixer::StateSpace(space) => self.state_space(&scope.below(names.state_space), space),
            Mixer::Convolution(convolution) => self.convolution(&scope.below("conv"), convolution),
            Mixer::None => {}
        }
    }

    pub(super) fn attention(&mut self, scope: &Scope, attention: &Attention) {
        let (names, hidden) = (self.names, self.hidden);
        let queries = attention.heads * attention.key;
        let keys = attention.kv_heads * attention.key;
        let values = attention.kv_heads * attention.value;
        let own_cache = attention.shares_cache_of.is_none();
        // A gate that is no projection of its own is the second half of that of queries.
        let gated = if attention.gate && names.attention_gate.is_none() { 2 * queries } else { queries };
        match names.query_key_value {
            Some(name) => {
                let outputs = queries + keys + values;
                self.linear(scope, name, Role::QueryKeyValue, [hidden, outputs], attention.bias);
            }
            None => {
                self.linear(scope, names.query, Role::Query, [hidden, gated], attention.bias);
                if own_cache {
                    let bias = attention.bias && !attention.keys_without_bias;
                    self.linear(scope, names.key, Role::Key, [hidden, keys], bias);
                }
                if own_cache && !attention.values_are_keys {
                    self.linear(scope, names.value, Role::Value, [hidden, values], attention.bias);
                }
            }
        }
        let inner = attention.heads * attention.value;
        self.linear(scope, names.output, Role::Output, [inner, hidden], attention.output_bias);
        if let (true, Some(name)) = (attention.gate, names.attention_gate) {
            self.linear(scope, name, Role::AttentionGate, [hidden, inner], false);
        }
        if let (true, Some(name)) = (attention.head_gate, names.attention_gate) {
            self.linear(scope, name, Role::AttentionGate, [hidden, attention.heads], false);
        }
        if attention.sinks {
            self.tensor(scope, names.sinks, Role::Sinks, &[attention.heads]);
        }
        self.qk_norm(scope, attention);
        if let Some(indexer) = attention.indexer.as_ref().filter(|indexer| !indexer.shared) {
            self.block_indexer(scope, indexer);
        }
    }

    fn qk_norm(&mut self, scope: &Scope, attention: &Attention) {
        let width = |heads: u64| match attention.qk_norm {
            QkNorm::None => None,
            QkNorm::Head => Some(vec![attention.key]),
            QkNorm::Full => Some(vec![heads * attention.key]),
            QkNorm::EachHead => Some(vec![heads, attention.key]),
        };
        let names = self.names;
        if let Some(shape) = width(attention.heads) {
            self.tensor(scope, &format!("{}.weight", names.query_norm), Role::Norm, &shape);
        }
        if let Some(shape) = width(attention.kv_heads).filter(|_| attention.shares_cache_of.is_none()) {
            self.tensor(scope, &format!("{}.weight", names.key_norm), Role::Norm, &shape);
        }
    }

    /// Latent attention, with the names of DeepSeek-V3.
    fn latent(&mut self, scope: &Scope, latent: &Latent) {
        let (names, hidden) = (self.names, self.hidden);
        let queries = latent.heads * (latent.plain + latent.rotary);
        match latent.query_rank {
            Some(rank) => {
                self.linear(scope, "q_a_proj", Role::QueryDown, [hidden, rank], latent.bias);
                self.norm(scope, "q_a_layernorm", rank);
                self.linear(scope, "q_b_proj", Role::QueryUp, [rank, queries], false);
            }
            None => self.linear(scope, names.query, Role::Query, [hidden, queries], false),
        }
        let down = latent.rank + latent.rotary;
        self.linear(scope, "kv_a_proj_with_mqa", Role::KeyValueDown, [hidden, down], latent.bias);
        self.norm(scope, "kv_a_layernorm", latent.rank);
        let up = latent.heads * (latent.plain + latent.value);
        self.linear(scope, "kv_b_proj", Role::KeyValueUp, [latent.rank, up], false);
        let inner = latent.heads * latent.value;
        self.linear(scope, names.output, Role::Output, [inner, hidden], latent.bias);
        if latent.gate {
            self.linear(scope, "g_proj", Role::AttentionGate, [hidden, inner], false);
        }
        if let Some(indexer) = &latent.indexer {
            self.indexer(scope, indexer, latent.query_rank.unwrap_or(hidden));
        }
    }

    /// Indexer of DeepSeek-V3.2: queries from a latent of `rank`, one key with a normalisation, a weight for every head.
    fn indexer(&mut self, scope: &Scope, indexer: &Indexer, rank: u64) {
        if indexer.shared {
            return;
        }
        let (scope, hidden) = (scope.below("indexer"), self.hidden);
        self.linear(&scope, "wq_b", Role::Indexer, [rank, indexer.heads * indexer.width], false);
        self.linear(&scope, "wk", Role::Indexer, [hidden, indexer.width], false);
        self.tensor(&scope, "k_norm.weight", Role::Norm, &[indexer.width]);
        self.tensor(&scope, "k_norm.bias", Role::Norm, &[indexer.width]);
        self.linear(&scope, "weights_proj", Role::Indexer, [hidden, indexer.heads], false);
    }

    /// Indexer of MiniMax-M3: queries and one key, both with a normalisation.
    fn block_indexer(&mut self, scope: &Scope, indexer: &Indexer) {
        let hidden = self.hidden;
        let queries = [hidden, indexer.heads * indexer.width];
        self.linear(scope, "index_q_proj", Role::Indexer, queries, false);
        self.linear(scope, "index_k_proj", Role::Indexer, [hidden, indexer.width], false);
        for name in ["index_q_norm.weight", "index_k_norm.weight"] {
            self.tensor(scope, name, Role::Norm, &[indexer.width]);
        }
    }

    /// Attention of DeepSeek-V4 with its compressor, by the names of its reference implementation.
    fn compressed(&mut self, scope: &Scope, compressed: &Compressed) {
        let hidden = self.hidden;
        let Compressed { heads, width, query_rank, output_groups, output_rank, .. } = *compressed;
        self.linear(scope, "wq_a", Role::QueryDown, [hidden, query_rank], false);
        self.norm(scope, "q_norm", query_rank);
        self.linear(scope, "wq_b", Role::QueryUp, [query_rank, heads * width], false);
        self.linear(scope, "wkv", Role::Key, [hidden, width], false);
        self.norm(scope, "kv_norm", width);
        let group = (heads * width).checked_div(output_groups).unwrap_or(0);
        self.linear(scope, "wo_a", Role::OutputDown, [group, output_groups * output_rank], false);
        self.linear(scope, "wo_b", Role::Output, [output_groups * output_rank, hidden], false);
        self.tensor(scope, "attn_sink", Role::Sinks, &[heads]);
        if compressed.ratio > 0 {
            // Windows of entries that an indexer selects overlap, and have two halves.
            let halves = if compressed.indexer.is_some() { 2 } else { 1 };
            self.compressor(&scope.below("compressor"), compressed.ratio, halves, width);
        }
        if let Some(indexer) = compressed.indexer.as_ref().filter(|indexer| !indexer.shared) {
            let scope = scope.below("indexer");
            let queries = [query_rank, indexer.heads * indexer.width];
            self.linear(&scope, "wq_b", Role::Indexer, queries, false);
            self.linear(&scope, "weights_proj", Role::Indexer, [hidden, indexer.heads], false);
            self.compressor(&scope.below("compressor"), compressed.ratio, 2, indexer.width);
        }
    }

    /// Compressor of `ratio` tokens into an entry of a width.
    fn compressor(&mut self, scope: &Scope, ratio: u64, halves: u64, width: u64) {
        let hidden = self.hidden;
        self.linear(scope, "wkv", Role::KeyValueDown, [hidden, halves * width], false);
        self.linear(scope, "wgate", Role::KeyValueDown, [hidden, halves * width], false);
        self.tensor(scope, "ape", Role::Positions, &[ratio, halves * width]);
        self.norm(scope, "norm", width);
    }

    fn linear_attention(&mut self, scope: &Scope, linear: &Linear) {
        let (names, hidden) = (self.names, self.hidden);
        let keys = linear.key_heads * linear.key;
        let values = linear.value_heads * linear.value;
        match &linear.rule {
            Rule::GatedDelta => {
                let scope = scope.below(names.linear);
                self.linear(&scope, "in_proj_qkv", Role::StateIn, [hidden, 2 * keys + values], false);
                self.linear(&scope, "in_proj_z", Role::StateIn, [hidden, values], false);
                self.linear(&scope, "in_proj_b", Role::StateIn, [hidden, linear.value_heads], false);
                self.linear(&scope, "in_proj_a", Role::StateIn, [hidden, linear.value_heads], false);
                let channels = 2 * keys + values;
                self.tensor(&scope, "conv1d.weight", Role::Convolution, &[channels, 1, linear.kernel]);
                self.tensor(&scope, "dt_bias", Role::State, &[linear.value_heads]);
                self.tensor(&scope, "A_log", Role::State, &[linear.value_heads]);
                self.tensor(&scope, "norm.weight", Role::Norm, &[linear.value]);
                self.linear(&scope, "out_proj", Role::StateOut, [values, hidden], false);
            }
            Rule::ChannelDelta { gate_rank } => {
                let scope = scope.below(names.attention);
                for (name, conv, width) in [
                    ("q_proj", "q_conv1d", keys),
                    ("k_proj", "k_conv1d", keys),
                    ("v_proj", "v_conv1d", values),
                ] {
                    self.linear(&scope, name, Role::StateIn, [hidden, width], false);
                    self.tensor(
                        &scope,
                        &format!("{conv}.weight"),
                        Role::Convolution,
                        &[width, 1, linear.kernel],
                    );
                }
                self.linear(&scope, "f_a_proj", Role::StateIn, [hidden, linear.value], false);
                self.linear(&scope, "f_b_proj", Role::StateIn, [linear.value, keys], false);
                self.linear(&scope, "b_proj", Role::StateIn, [hidden, linear.value_heads], false);
                match gate_rank {
                    Some(rank) => {
                        self.linear(&scope, "g_a_proj", Role::StateIn, [hidden, *rank], false);
                        self.linear(&scope, "g_b_proj", Role::StateIn, [*rank, values], false);
                    }
                    None => self.linear(&scope, "g_proj", Role::StateIn, [hidden, values], false),
                }
                // Kimi Linear stores it ready for products; Kimi K3, whose gate is full, padded to a power of two.
                match gate_rank {
                    Some(_) => self.tensor(&scope, "A_log", Role::State, &[1, 1, linear.key_heads, 1]),
                    None => {
                        let padded = linear.key_heads.next_power_of_two();
                        self.tensor(&scope, "A_log", Role::State, &[padded]);
                    }
                }
                self.tensor(&scope, "dt_bias", Role::State, &[keys]);
                self.tensor(&scope, "o_norm.weight", Role::Norm, &[linear.value]);
                self.linear(&scope, "o_proj", Role::StateOut, [values, hidden], false);
            }
        }
    }

    /// State-space layer, with the names of Mamba 2.
    fn state_space(&mut self, scope: &Scope, space: &StateSpace) {
        let hidden = self.hidden;
        let inner = space.heads * space.width;
        let channels = inner + 2 * space.groups * space.state;
        self.linear(scope, "in_proj", Role::StateIn, [hidden, inner + channels + space.heads], space.bias);
        self.tensor(scope, "conv1d.weight", Role::Convolution, &[channels, 1, space.kernel]);
        if space.kernel_bias {
            self.tensor(scope, "conv1d.bias", Role::Convolution, &[channels]);
        }
        for name in ["A_log", "D", "dt_bias"] {
            self.tensor(scope, name, Role::State, &[space.heads]);
        }
        self.tensor(scope, "norm.weight", Role::Norm, &[inner]);
        self.linear(scope, "out_proj", Role::StateOut, [inner, hidden], space.bias);
    }

    fn convolution(&mut self, scope: &Scope, convolution: &Convolution) {
        let Convolution { width, kernel, bias } = *convolution;
        let hidden = self.hidden;
        self.linear(scope, "in_proj", Role::StateIn, [hidden, 3 * width], bias);
        self.tensor(scope, "conv.weight", Role::Convolution, &[width, 1, kernel]);
        if bias {
            self.tensor(scope, "conv.bias", Role::Convolution, &[width]);
        }
        self.linear(scope, "out_proj", Role::StateOut, [width, hidden], bias);
    }

    pub(super) fn dense(&mut self, scope: &Scope, dense: &Dense) {
        let (names, hidden) = (self.names, self.hidden);
        let scope = scope.below(names.dense);
        match (dense.gated, names.gate_up) {
            (true, Some(name)) => {
                self.linear(&scope, name, Role::GateUp, [hidden, 2 * dense.inner], dense.bias);
            }
            (true, None) => {
                self.linear(&scope, names.gate, Role::Gate, [hidden, dense.inner], dense.bias);
                self.linear(&scope, names.up, Role::Up, [hidden, dense.inner], dense.bias);
            }
            (false, _) => self.linear(&scope, names.up, Role::Up, [hidden, dense.inner], dense.bias),
        }
        self.linear(&scope, names.down, Role::Down, [dense.inner, hidden], dense.bias);
    }

    pub(super) fn mixture(&mut self, scope: &Scope, mixture: &Mixture) {
        let (names, hidden) = (self.names, self.hidden);
        self.tensor(scope, &format!("{}.weight", names.router), Role::Router, &[mixture.experts, hidden]);
        if mixture.router_bias {
            self.tensor(scope, names.router_bias, Role::Router, &[mixture.experts]);
        }
        let width = mixture.latent.unwrap_or(hidden);
        if mixture.latent.is_some() {
            let [down, up] = names.latent;
            self.linear(scope, down, Role::LatentDown, [hidden, width], false);
            self.linear(scope, up, Role::LatentUp, [width, hidden], false);
        }
        self.experts(scope, mixture, width);
        let Some(shared) = &mixture.shared else { return };
        if shared.inner > 0 {
            let below = scope.below(names.shared);
            let [gate, up, down] = names.shared_expert;
            if mixture.gated {
                self.linear(&below, gate, Role::SharedGate, [hidden, shared.inner], false);
            }
            self.linear(&below, up, Role::SharedUp, [hidden, shared.inner], false);
            self.linear(&below, down, Role::SharedDown, [shared.inner, hidden], false);
        }
        if shared.scaled {
            self.tensor(scope, &format!("{}.weight", names.shared_router), Role::SharedRouter, &[1, hidden]);
        }
    }

    /// Weights of the routed experts: a tensor with a `*` for the experts of a layer.
    fn experts(&mut self, scope: &Scope, mixture: &Mixture, width: u64) {
        let names = self.names;
        let [gate, up, down] = names.expert;
        let (count, inner) = (mixture.experts, mixture.inner);
        let below = scope.below(names.experts);
        let expert = |draft: &mut Self, name: &str, role: Role, [inputs, outputs]: [u64; 2]| {
            let (weight, bias) = match names.stacked {
                Some("") => (name.to_owned(), format!("{name}_bias")),
                Some(end) => (format!("{name}{end}"), format!("{name}.bias")),
                None => (format!("*.{name}.weight"), format!("*.{name}.bias")),
            };
            let [rows, columns] =
                if names.stacked_transposed { [inputs, outputs] } else { [outputs, inputs] };
            draft.tensor(&below, &weight, role, &[count, rows, columns]);
            if mixture.bias {
                draft.tensor(&below, &bias, role, &[count, outputs]);
            }
        };
        match (mixture.gated, names.expert_gate_up) {
            (true, Some(name)) => expert(self, name, Role::ExpertGateUp, [width, 2 * inner]),
            (true, None) => {
                expert(self, gate, Role::ExpertGate, [width, inner]);
                expert(self, up, Role::ExpertUp, [width, inner]);
            }
            (false, _) => expert(self, up, Role::ExpertUp, [width, inner]),
        }
        expert(self, down, Role::ExpertDown, [inner, width]);
    }
}
