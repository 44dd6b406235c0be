//! Models whose layers have states: linear attention, state-space layers, short convolutions.

use stagewright_structure::cache::layer_cache;
use stagewright_structure::{Encoding, Mixer, Role, Rule};

use super::writer::{Model, Value};

/// Attention with two heads of width 16 over one head of keys, whose queries may have a gate.
fn attention(model: &mut Model, layer: u64, is_gated: bool) {
    model.layer(
        layer,
        &[
            ("attn_q", &[64, if is_gated { 64 } else { 32 }]),
            ("attn_k", &[64, 16]),
            ("attn_v", &[64, 16]),
            ("attn_output", &[32, 64]),
        ],
    );
}

fn dense(model: &mut Model, layer: u64) {
    model.layer(
        layer,
        &[("ffn_norm", &[64]), ("ffn_gate", &[64, 96]), ("ffn_up", &[64, 96]), ("ffn_down", &[96, 64])],
    );
}

fn hybrid(architecture: &str, layers: u32) -> Model {
    let mut model = Model::new(architecture, layers, 64, 100);
    model.key("attention.head_count", 2).key("attention.key_length", 16).key("attention.value_length", 16);
    for layer in 0..layers.into() {
        model.layer(layer, &[("attn_norm", &[64])]);
    }
    model
}

/// Keys of `ssm`: kernel, inner width, width of a state, rank of steps, groups.
fn ssm(model: &mut Model, [kernel, inner, state, rank, groups]: [u32; 5]) {
    model.key("ssm.conv_kernel", kernel).key("ssm.inner_size", inner).key("ssm.state_size", state);
    model.key("ssm.time_step_rank", rank);
    if groups > 0 {
        model.key("ssm.group_count", groups);
    }
}

fn kinds(model: &Model) -> Vec<&'static str> {
    let structure = model.structure();
    let kind = |mixer: &Mixer| match mixer {
        Mixer::Attention(_) => "attention",
        Mixer::Latent(_) => "latent",
        Mixer::Linear(_) => "linear",
        Mixer::StateSpace(_) => "state-space",
        Mixer::Convolution(_) => "convolution",
        Mixer::Compressed(_) => "compressed",
        Mixer::None => "none",
    };
    structure.layers.iter().map(|layer| kind(&layer.mixer)).collect()
}

pub(super) fn qwen3_next() -> Model {
    let mut model = hybrid("qwen3next", 4);
    ssm(&mut model, [4, 64, 16, 4, 2]);
    model.key("attention.head_count_kv", 1).key("full_attention_interval", 4);
    for layer in 0..3 {
        model.layer(
            layer,
            &[
                ("attn_qkv", &[64, 2 * 2 * 16 + 64]),
                ("attn_gate", &[64, 64]),
                ("ssm_conv1d", &[4, 2 * 2 * 16 + 64]),
                ("ssm_dt.bias", &[4]),
                ("ssm_a", &[4]),
                ("ssm_ba", &[64, 8]),
                ("ssm_norm", &[16]),
                ("ssm_out", &[64, 64]),
            ],
        );
    }
    attention(&mut model, 3, true);
    (0..4).for_each(|layer| dense(&mut model, layer));
    model
}

#[test]
fn every_fourth_layer_of_qwen3_next_has_attention() {
    let model = qwen3_next();
    assert_eq!(kinds(&model), ["linear", "linear", "linear", "attention"]);
    let structure = model.structure();
    let Mixer::Linear(linear) = &structure.layers[0].mixer else { panic!("{:?}", structure.layers[0].mixer) };
    assert_eq!((linear.key_heads, linear.value_heads, linear.key, linear.value), (2, 4, 16, 16));
    assert_eq!((linear.kernel, &linear.rule), (4, &Rule::GatedDelta));
    let bytes = layer_cache(&structure.layers[0], 1000, Encoding::BF16).bytes();
    assert_eq!(bytes, f64::from(4 * 4 * 16 * 16 + 3 * 2 * (2 * 2 * 16 + 64)));
    let Mixer::Attention(attention) = &structure.layers[3].mixer else {
        panic!("{:?}", structure.layers[3].mixer)
    };
    assert!(attention.gate);
    let role = |name: &str| structure.tensors.iter().find(|tensor| tensor.name == name).unwrap().role;
    assert_eq!((role("blk.0.attn_qkv.weight"), role("blk.3.attn_q.weight")), (Role::StateIn, Role::Query));
}

#[test]
fn keys_and_tensors_must_agree_on_states() {
    let mut model = qwen3_next();
    for (key, value) in &mut model.keys {
        if key.ends_with("full_attention_interval") {
            *value = Value::U32(3);
        }
    }
    let error = model.read().unwrap_err();
    assert_eq!(error.code.to_string(), "M017");
    assert!(error.message.contains("attention by its keys, a state by its tensors"), "{}", error.message);
}

#[test]
fn nemotron_h_has_layers_of_one_block_each() {
    let mut model = hybrid("nemotron_h_moe", 4);
    ssm(&mut model, [4, 128, 16, 8, 2]);
    model.key("attention.head_count_kv", &[0, 0, 1, 0][..]).key("feed_forward_length", &[0, 96, 0, 48][..]);
    model.key("expert_count", 4).key("expert_used_count", 2).key("moe_latent_size", 32);
    model.layer(
        0,
        &[
            ("ssm_in", &[64, 2 * 128 + 2 * 2 * 16 + 8]),
            ("ssm_conv1d", &[4, 128 + 2 * 2 * 16]),
            ("ssm_conv1d.bias", &[128 + 2 * 2 * 16]),
            ("ssm_dt.bias", &[8]),
            ("ssm_a", &[1, 8]),
            ("ssm_d", &[1, 8]),
            ("ssm_norm", &[64, 2]),
            ("ssm_out", &[128, 64]),
        ],
    );
    model.layer(1, &[("ffn_up", &[64, 96]), ("ffn_down", &[96, 64])]);
    attention(&mut model, 2, false);
    model.layer(
        3,
        &[
            ("ffn_gate_inp", &[64, 4]),
            ("ffn_latent_down", &[64, 32]),
            ("ffn_latent_up", &[32, 64]),
            ("ffn_up_exps", &[32, 48, 4]),
            ("ffn_down_exps", &[48, 32, 4]),
            ("ffn_up_shexp", &[64, 56]),
            ("ffn_down_shexp", &[56, 64]),
        ],
    );
    assert_eq!(kinds(&model), ["state-space", "none", "attention", "none"]);
    let structure = model.structure();
    let Mixer::StateSpace(space) = &structure.layers[0].mixer else {
        panic!("{:?}", structure.layers[0].mixer)
    };
    assert_eq!((space.heads, space.width, space.state, space.groups), (8, 16, 16, 2));
    assert!(space.kernel_bias && !space.bias);
    let dense = structure.layers[1].dense.as_ref().unwrap();
    assert_eq!((dense.inner, dense.gated), (96, false));
    let Mixer::Attention(attention) = &structure.layers[2].mixer else {
        panic!("{:?}", structure.layers[2].mixer)
    };
    assert_eq!(attention.rotary, 0);
    let mixture = structure.layers[3].mixture.as_ref().unwrap();
    assert_eq!((mixture.latent, mixture.inner, mixture.gated), (Some(32), 48, false));
    assert_eq!(mixture.shared.as_ref().unwrap().inner, 56);
    assert!(structure.layers.iter().all(|layer| layer.norms == 1 && !layer.parallel));
}

#[test]
fn jamba_decays_every_channel_by_itself() {
    let mut model = hybrid("jamba", 2);
    ssm(&mut model, [4, 128, 16, 8, 0]);
    model.key("attention.head_count_kv", &[0, 1][..]).key("feed_forward_length", 96);
    model.layer(
        0,
        &[
            ("ssm_in", &[64, 256]),
            ("ssm_conv1d", &[4, 128]),
            ("ssm_conv1d.bias", &[128]),
            ("ssm_x", &[128, 8 + 2 * 16]),
            ("ssm_dt", &[8, 128]),
            ("ssm_dt.bias", &[128]),
            ("ssm_a", &[16, 128]),
            ("ssm_d", &[128]),
            ("ssm_dt_norm", &[8]),
            ("ssm_out", &[128, 64]),
        ],
    );
    attention(&mut model, 1, false);
    (0..2).for_each(|layer| dense(&mut model, layer));
    assert_eq!(kinds(&model), ["state-space", "attention"]);
    let structure = model.structure();
    // 16 numbers of 32 bits for each of 128 channels, and 3 earlier tokens of 16 bits.
    let bytes = layer_cache(&structure.layers[0], 1000, Encoding::BF16).bytes();
    assert_eq!(bytes, f64::from(4 * 16 * 128 + 2 * 3 * 128));
}

#[test]
fn lfm2_and_kimi_and_rwkv_have_their_states() {
    let mut lfm2 = hybrid("lfm2", 2);
    lfm2.key("attention.head_count_kv", &[0, 1][..])
        .key("shortconv.l_cache", 3)
        .key("feed_forward_length", 96);
    lfm2.layer(
        0,
        &[("shortconv.in_proj", &[64, 192]), ("shortconv.conv", &[3, 64]), ("shortconv.out_proj", &[64, 64])],
    );
    attention(&mut lfm2, 1, false);
    (0..2).for_each(|layer| dense(&mut lfm2, layer));
    assert_eq!(kinds(&lfm2), ["convolution", "attention"]);

    let mut kimi = hybrid("kimi-linear", 1);
    kimi.key("attention.head_count_kv", &[0][..]).key("kda.head_dim", 16).key("ssm.conv_kernel", 4);
    kimi.layer(
        0,
        &[
            ("attn_q", &[64, 32]),
            ("attn_k", &[64, 32]),
            ("attn_v", &[64, 32]),
            ("ssm_conv1d_q", &[4, 1, 32]),
            ("ssm_f_a", &[64, 16]),
            ("ssm_f_b", &[16, 32]),
            ("ssm_beta", &[64, 2]),
            ("ssm_g_a", &[64, 12]),
            ("ssm_g_b", &[12, 32]),
            ("ssm_a", &[1, 2]),
            ("attn_output", &[32, 64]),
        ],
    );
    dense(&mut kimi, 0);
    let structure = kimi.structure();
    let Mixer::Linear(linear) = &structure.layers[0].mixer else { panic!("{:?}", structure.layers[0].mixer) };
    assert_eq!(
        (linear.value_heads, linear.key, &linear.rule),
        (2, 16, &Rule::ChannelDelta { gate_rank: Some(12) })
    );

    let mut rwkv = Model::new("rwkv7", 1, 64, 100);
    rwkv.key("wkv.head_size", 16);
    rwkv.layer(
        0,
        &[
            ("attn_norm", &[64]),
            ("attn_norm_2", &[64]),
            ("time_mix_key", &[64, 64]),
            ("time_mix_g2", &[8, 64]),
            ("time_mix_output", &[64, 64]),
            ("channel_mix_key", &[64, 256]),
            ("channel_mix_value", &[256, 64]),
        ],
    );
    let structure = rwkv.structure();
    let Mixer::Linear(linear) = &structure.layers[0].mixer else { panic!("{:?}", structure.layers[0].mixer) };
    assert_eq!((linear.key_heads, linear.value), (4, 16));
    assert_eq!(structure.layers[0].dense.as_ref().unwrap().inner, 256);
    assert!(!structure.layers[0].parallel);
}

#[test]
fn attention_beside_a_state_is_refused() {
    let mut model = hybrid("falcon-h1", 1);
    ssm(&mut model, [4, 128, 16, 8, 2]);
    model.key("attention.head_count_kv", 1);
    attention(&mut model, 0, false);
    model.layer(0, &[("ssm_in", &[64, 328]), ("ssm_out", &[128, 64])]);
    let error = model.read().unwrap_err();
    assert_eq!(
        (error.code.to_string(), error.place.to_string()),
        ("M014".to_owned(), "model.gguf: blk.0".to_owned())
    );
}
