//! Configurations of the most different architectures, from public figures, with lists by layer written out.

/// Entries of a list, the last of every `period` and the last of all differing from the others.
fn every(count: usize, period: usize, other: &str, last: &str) -> String {
    let entry = |layer: usize| if layer.is_multiple_of(period) || layer == count { last } else { other };
    (1..=count).map(entry).collect::<Vec<_>>().join(",")
}

/// Entries of a list, the first of which differ from the others.
fn first(count: usize, number: usize, early: &str, late: &str) -> String {
    (0..count).map(|layer| if layer < number { early } else { late }).collect::<Vec<_>>().join(",")
}

/// Llama 4 Scout (Meta 2025) with its encoder of images.
pub(crate) fn llama4_scout() -> String {
    r#"{"model_type": "llama4", "text_config": {"hidden_size": 5120, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
    "head_dim": 128, "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
    "attention_chunk_size": 8192, "vocab_size": 202048}, "vision_config": {"hidden_size": 1408,
    "intermediate_size": 5632, "num_hidden_layers": 34, "num_attention_heads": 16, "image_size": 336,
    "patch_size": 14, "projector_input_dim": 4096, "projector_output_dim": 4096, "vision_output_dim": 4096}}"#
        .to_owned()
}

/// Qwen 3 30B-A3B (Qwen 2025).
pub(crate) fn qwen3_30b() -> String {
    r#"{"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "vocab_size": 151936}"#
        .to_owned()
}

/// gpt-oss 20b (OpenAI 2025).
pub(crate) fn gpt_oss_20b() -> String {
    r#"{"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "attention_bias": true,
    "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "vocab_size": 201088}"#
        .to_owned()
}

/// DeepSeek-V3 (DeepSeek-AI 2024, section 4.2).
pub(crate) fn deepseek_v3() -> String {
    r#"{"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "first_k_dense_replace": 3, "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "topk_method": "noaux_tc", "num_nextn_predict_layers": 1, "vocab_size": 129280}"#
        .to_owned()
}

/// DeepSeek-V2-Lite (DeepSeek-AI 2024), whose queries have no rank.
pub(crate) fn deepseek_v2_lite() -> String {
    r#"{"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
    "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16, "q_lora_rank": null,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "first_k_dense_replace": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
    "topk_method": "greedy", "vocab_size": 102400}"#
        .to_owned()
}

/// DeepSeek-V4-Flash (DeepSeek-AI 2026).
pub(crate) fn deepseek_v4_flash() -> String {
    let ratios = format!("0,0,{},0", every(41, 2, "4", "128").trim_end_matches("128").to_owned() + "4");
    format!(
        r#"{{"model_type": "deepseek_v4", "hidden_size": 4096, "moe_intermediate_size": 2048,
    "num_hidden_layers": 43, "num_attention_heads": 64, "head_dim": 512, "q_lora_rank": 1024,
    "qk_rope_head_dim": 64, "o_groups": 8, "o_lora_rank": 1024, "index_n_heads": 64, "index_head_dim": 128,
    "index_topk": 512, "sliding_window": 128, "hc_mult": 4, "num_hash_layers": 3, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 6, "num_nextn_predict_layers": 1, "vocab_size": 129280,
    "compress_ratios": [{ratios}]}}"#
    )
}

/// GLM-5.2 (Z.ai 2026), whose layers share selections.
pub(crate) fn glm_5_2() -> String {
    r#"{"model_type": "glm_moe_dsa", "hidden_size": 6144, "intermediate_size": 12288,
    "moe_intermediate_size": 2048, "num_hidden_layers": 78, "num_attention_heads": 64, "q_lora_rank": 2048,
    "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256,
    "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048, "index_topk_freq": 4,
    "index_skip_topk_offset": 3, "first_k_dense_replace": 3, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "num_nextn_predict_layers": 1, "vocab_size": 154880}"#
        .to_owned()
}

/// Kimi K3 (Moonshot AI 2026).
pub(crate) fn kimi_k3() -> String {
    let is_full = |layer: &usize| layer.is_multiple_of(4) || *layer == 93;
    let list = |full: bool| {
        let layers = (1..=93).filter(|layer| is_full(layer) == full);
        layers.map(|layer| layer.to_string()).collect::<Vec<_>>().join(",")
    };
    format!(
        r#"{{"model_type": "kimi_k3", "text_config": {{"model_type": "kimi_linear", "hidden_size": 7168,
    "intermediate_size": 33792, "moe_intermediate_size": 3072, "num_hidden_layers": 93,
    "num_attention_heads": 96, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_output_gate": true, "first_k_dense_replace": 1,
    "num_experts": 896, "num_experts_per_token": 16, "num_shared_experts": 2,
    "routed_expert_hidden_size": 3584, "latent_moe_use_norm": true, "attn_res_block_size": 12,
    "vocab_size": 163840, "linear_attn_config": {{"num_heads": 96, "head_dim": 128,
    "short_conv_kernel_size": 4, "use_full_rank_gate": true, "kda_layers": [{}], "full_attn_layers": [{}]}}}},
    "vision_config": {{"vt_hidden_size": 1024, "vt_intermediate_size": 4096, "vt_num_hidden_layers": 27,
    "vt_num_attention_heads": 12, "qkv_hidden_size": 1536, "norm_type": "rmsnorm", "attn_bias": false,
    "linear_bias": false, "patch_embed_proj_bias": false, "patch_size": 14, "init_pos_emb_height": 64,
    "init_pos_emb_width": 64, "merge_kernel_size": [2, 2], "mm_projector_type": "patchmergerv2"}}}}"#,
        list(false),
        list(true)
    )
}

/// Qwen 3.5 35B-A3B (Qwen 2026).
pub(crate) fn qwen3_5_35b() -> String {
    r#"{"model_type": "qwen3_5_moe", "text_config": {"hidden_size": 2048, "num_hidden_layers": 40,
    "full_attention_interval": 4, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
    "attn_output_gate": true, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 256,
    "num_experts_per_tok": 8, "mtp_num_hidden_layers": 1, "vocab_size": 248320}, "vision_config": {"depth": 27,
    "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "patch_size": 16,
    "temporal_patch_size": 2, "spatial_merge_size": 2, "num_position_embeddings": 2304,
    "out_hidden_size": 2048, "deepstack_visual_indexes": []}}"#
        .to_owned()
}

/// Nemotron 3 Super 120B-A12B (NVIDIA 2026).
pub(crate) fn nemotron_3_super() -> String {
    r#"{"model_type": "nemotron_h", "hidden_size": 4096, "num_hidden_layers": 88,
    "hybrid_override_pattern":
    "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME",
    "mtp_hybrid_override_pattern": "*E", "num_nextn_predict_layers": 1, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64,
    "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "use_conv_bias": true, "n_routed_experts": 512,
    "num_experts_per_tok": 22, "moe_intermediate_size": 2688, "moe_latent_size": 1024,
    "moe_shared_expert_intermediate_size": 5376, "vocab_size": 131072}"#
        .to_owned()
}

/// MiniMax-M3 (MiniMax 2026) with its encoder of images.
pub(crate) fn minimax_m3() -> String {
    let sparse = first(60, 3, "0", "1");
    format!(
        r#"{{"model_type": "minimax_m3_vl", "projector_hidden_size": 6144, "text_config": {{
    "hidden_size": 6144, "intermediate_size": 3072, "dense_intermediate_size": 12288,
    "shared_intermediate_size": 3072, "num_hidden_layers": 60, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "rotary_dim": 64, "qk_norm_type": "per_head",
    "num_local_experts": 128, "num_experts_per_tok": 4, "moe_layer_freq": [{sparse}], "vocab_size": 200064,
    "sparse_attention_config": {{"sparse_num_index_heads": 4, "sparse_index_dim": 128,
    "sparse_topk_blocks": 16, "sparse_block_size": 128, "sparse_attention_freq": [{sparse}]}}}},
    "vision_config": {{"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32,
    "num_attention_heads": 16, "patch_size": 14}}}}"#
    )
}

/// MiMo-V2-Flash (Xiaomi 2025).
pub(crate) fn mimo_v2_flash() -> String {
    let full = |layer: usize| layer == 0 || layer == 47 || layer % 6 == 5;
    let pattern = (0..48).map(|layer| if full(layer) { "0" } else { "1" }).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"model_type": "mimo_v2_flash", "hidden_size": 4096, "intermediate_size": 16384,
    "moe_intermediate_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "swa_num_key_value_heads": 8,
    "sliding_window": 128, "hybrid_layer_pattern": [{pattern}], "moe_layer_freq": [{}],
    "n_routed_experts": 256, "num_experts_per_tok": 8, "vocab_size": 152576}}"#,
        first(48, 1, "0", "1")
    )
}

/// Step 3.7 Flash (StepFun 2026) with its encoder of images.
pub(crate) fn step_3_7_flash() -> String {
    let kind = |layer: usize| {
        if layer < 45 && layer.is_multiple_of(4) { "\"full_attention\"" } else { "\"sliding_attention\"" }
    };
    let sparse = (3..45).map(|layer| layer.to_string()).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"model_type": "step3p7", "text_config": {{"hidden_size": 4096, "intermediate_size": 11264,
    "moe_intermediate_size": 1280, "share_expert_dim": 1280, "num_hidden_layers": 45,
    "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128, "sliding_window": 512,
    "attention_other_setting": {{"attention_type": "sliding_attention", "num_attention_heads": 96,
    "num_attention_groups": 8, "head_dim": 128}}, "moe_num_experts": 288, "moe_top_k": 8,
    "moe_layers_enum": "{sparse}", "num_nextn_predict_layers": 3, "vocab_size": 128896,
    "layer_types": [{}]}}, "vision_config": {{"width": 1536, "layers": 47, "heads": 16, "image_size": 728,
    "patch_size": 14, "mlp_ratio": 5.833333333333333}}}}"#,
        (0..48).map(kind).collect::<Vec<_>>().join(",")
    )
}

/// Gemma 4 26B-A4B (Google 2026) with its encoder of images.
pub(crate) fn gemma_4_26b() -> String {
    format!(
        r#"{{"model_type": "gemma4", "text_config": {{"hidden_size": 2816, "intermediate_size": 2112,
    "moe_intermediate_size": 704, "num_hidden_layers": 30, "num_attention_heads": 16,
    "num_key_value_heads": 8, "num_global_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512,
    "attention_k_eq_v": true, "sliding_window": 1024, "enable_moe_block": true, "num_experts": 128,
    "top_k_experts": 8, "vocab_size": 262144, "layer_types": [{}]}}, "vision_config": {{"hidden_size": 1152,
    "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16, "head_dim": 72,
    "patch_size": 16, "position_embedding_size": 10240, "standardize": true}}}}"#,
        every(30, 6, "\"sliding_attention\"", "\"full_attention\"")
    )
}

/// A Nemotron NAS model of three layers: whole, without attention, and without a feed-forward block.
pub(crate) fn nemotron_nas() -> String {
    r#"{"model_type": "nemotron-nas", "hidden_size": 8192, "num_hidden_layers": 3, "num_attention_heads": 64,
    "vocab_size": 128256, "block_configs": [
    {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 5.25}},
    {"attention": {"no_op": true}, "ffn": {"ffn_mult": 1.3125}},
    {"attention": {"n_heads_in_group": 8}, "ffn": {"no_op": true}}]}"#
        .to_owned()
}
