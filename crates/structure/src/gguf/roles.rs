//! Roles of tensors by the names that llama.cpp gives.

use crate::tensor::Role;

/// Name of a tensor, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name<'a> {
    /// Number of the layer; `None` outside the layers.
    pub(super) layer: Option<u64>,
    /// Name below the layer.
    pub(super) rest: &'a str,
}

impl<'a> Name<'a> {
    pub(super) fn of(name: &'a str) -> Name<'a> {
        let below = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        match below.and_then(|(number, rest)| Some((number.parse().ok()?, rest))) {
            Some((layer, rest)) => Name { layer: Some(layer), rest },
            None => Name { layer: None, rest: name },
        }
    }

    /// Name of the module that has the tensor as its weight, bias or scale.
    pub(super) fn module(self) -> &'a str {
        const SUFFIXES: [&str; 4] = [".weight", ".bias", ".scale", ".input_scale"];
        SUFFIXES.iter().find_map(|suffix| self.rest.strip_suffix(suffix)).unwrap_or(self.rest)
    }
}

/// Role of a tensor outside the layers.
pub(super) fn outside(module: &str) -> Role {
    match module {
        "token_embd" => Role::Embedding,
        "position_embd" | "token_types" => Role::Positions,
        "output" => Role::Head,
        "output_norm" | "token_embd_norm" | "per_layer_proj_norm" | "cls.norm" => Role::Norm,
        _ if ["v.", "a.", "mm."].iter().any(|prefix| module.starts_with(prefix)) => Role::Tower,
        _ => Role::Other,
    }
}

/// Role of a tensor of a layer. Layers with a state use the names of attention for the projections into it.
pub(super) fn inside(module: &str, has_state: bool) -> Role {
    match module {
        "attn_q" | "attn_k" | "attn_v" | "attn_qkv" | "attn_gate" if has_state => Role::StateIn,
        "attn_output" if has_state => Role::StateOut,
        "attn_q" => Role::Query,
        "attn_k" | "attn_kv" => Role::Key,
        "attn_v" => Role::Value,
        "attn_qkv" => Role::QueryKeyValue,
        "attn_output" | "attn_output_b" => Role::Output,
        "attn_output_a" => Role::OutputDown,
        "attn_gate" => Role::AttentionGate,
        "attn_sinks" => Role::Sinks,
        "attn_q_a" => Role::QueryDown,
        "attn_q_b" => Role::QueryUp,
        "attn_kv_a_mqa" => Role::KeyValueDown,
        "attn_kv_b" | "attn_k_b" | "attn_v_b" => Role::KeyValueUp,
        "nextn.embed_tokens" => Role::Embedding,
        "nextn.shared_head_head" => Role::Head,
        _ => feed_forward(module).or_else(|| state(module)).unwrap_or_else(|| by_affix(module)),
    }
}

fn feed_forward(module: &str) -> Option<Role> {
    Some(match module {
        "ffn_gate" => Role::Gate,
        "ffn_up" | "channel_mix_key" => Role::Up,
        "ffn_down" | "channel_mix_value" => Role::Down,
        "ffn_gate_exps" => Role::ExpertGate,
        "ffn_up_exps" => Role::ExpertUp,
        "ffn_gate_up_exps" => Role::ExpertGateUp,
        "ffn_down_exps" => Role::ExpertDown,
        "ffn_gate_shexp" => Role::SharedGate,
        "ffn_up_shexp" => Role::SharedUp,
        "ffn_gate_up_shexp" => Role::SharedGateUp,
        "ffn_down_shexp" => Role::SharedDown,
        "ffn_gate_inp_shexp" => Role::SharedRouter,
        "ffn_gate_inp" | "exp_probs_b" | "ffn_gate_tid2eid" => Role::Router,
        "ffn_latent_down" => Role::LatentDown,
        "ffn_latent_up" => Role::LatentUp,
        _ => return numbered_expert(module),
    })
}

/// Early files have a tensor for each expert, as in `ffn_gate.3`.
fn numbered_expert(module: &str) -> Option<Role> {
    let (module, expert) = module.rsplit_once('.')?;
    expert.parse::<u32>().ok()?;
    match module {
        "ffn_gate" => Some(Role::ExpertGate),
        "ffn_up" => Some(Role::ExpertUp),
        "ffn_down" => Some(Role::ExpertDown),
        _ => None,
    }
}

fn state(module: &str) -> Option<Role> {
    Some(match module {
        "ssm_in" | "ssm_x" | "ssm_ba" | "ssm_alpha" | "ssm_beta" | "shortconv.in_proj" => Role::StateIn,
        "ssm_f_a" | "ssm_f_b" | "ssm_g_a" | "ssm_g_b" => Role::StateIn,
        "time_mix_receptance" | "time_mix_key" | "time_mix_value" | "time_mix_gate" => Role::StateIn,
        "ssm_out" | "shortconv.out_proj" | "time_mix_output" => Role::StateOut,
        "ssm_conv1d" | "ssm_conv1d_q" | "ssm_conv1d_k" | "ssm_conv1d_v" | "shortconv.conv" => {
            Role::Convolution
        }
        "time_mix_ln" => Role::Norm,
        "ssm_a" | "ssm_d" | "ssm_dt" => Role::State,
        _ if module.starts_with("time_mix_") => Role::State,
        _ => return None,
    })
}

/// Norms end in `_norm`, possibly with a number; selectors of tokens begin with `indexer`.
fn by_affix(module: &str) -> Role {
    let stem = module.trim_end_matches(|character: char| character.is_ascii_digit());
    let stem = if stem.len() < module.len() { stem.strip_suffix('_').unwrap_or(module) } else { module };
    if stem.ends_with("norm") || module == "ffn_norm_exps" {
        Role::Norm
    } else if module.starts_with("indexer") {
        Role::Indexer
    } else {
        Role::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str) -> Role {
        let name = Name::of(name);
        if name.layer.is_some() { inside(name.module(), false) } else { outside(name.module()) }
    }

    #[test]
    fn names_are_taken_apart() {
        let name = Name::of("blk.12.ffn_down_exps.weight");
        assert_eq!(
            (name.layer, name.rest, name.module()),
            (Some(12), "ffn_down_exps.weight", "ffn_down_exps")
        );
        assert_eq!(Name::of("blk.x.attn_q.weight").layer, None);
        assert_eq!(Name::of("blk.3.ssm_a").module(), "ssm_a");
    }

    #[test]
    fn roles_follow_from_names() {
        for (name, expected) in [
            ("token_embd.weight", Role::Embedding),
            ("output.weight", Role::Head),
            ("rope_freqs.weight", Role::Other),
            ("v.blk.0.attn_q.weight", Role::Tower),
            ("blk.0.attn_q.bias", Role::Query),
            ("blk.0.attn_norm_2.weight", Role::Norm),
            ("blk.0.post_ffw_norm_1.weight", Role::Norm),
            ("blk.0.attn_kv_a_norm.weight", Role::Norm),
            ("blk.0.nextn.enorm.weight", Role::Norm),
            ("blk.0.nextn.eh_proj.weight", Role::Other),
            ("blk.0.indexer.k_norm.bias", Role::Norm),
            ("blk.0.indexer.attn_q_b.weight", Role::Indexer),
            ("blk.0.ffn_gate.7.weight", Role::ExpertGate),
            ("blk.0.ffn_gate_inp.bias", Role::Router),
            ("blk.0.exp_probs_b.bias", Role::Router),
            ("blk.0.ffn_down_exps.input_scale", Role::ExpertDown),
            ("blk.0.ffn_act.scales", Role::Other),
            ("blk.0.wholly_new.weight", Role::Other),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
        assert_eq!(inside("attn_qkv", true), Role::StateIn);
    }
}
