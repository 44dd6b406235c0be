//! The newest architectures, from configurations by public figures.

use stagewright_structure::huggingface::{Reading, read};
use stagewright_structure::{Mixer, Role, Structure, Tensor};

use crate::models;

fn structure(config: &str) -> Structure {
    read("config.json", config.as_bytes(), None, &Reading::default()).unwrap()
}

/// Weights, those of prediction layers and of what they share included, and those of everything else.
fn counts(structure: &Structure) -> [u64; 2] {
    let predicts = |layer: u64| structure.layers[layer as usize].is_prediction;
    let is_prediction =
        |tensor: &&Tensor| tensor.layer.is_some_and(predicts) || tensor.role == Role::Prediction;
    let prediction: u64 = structure.tensors.iter().filter(is_prediction).map(Tensor::elements).sum();
    [structure.parameters(), structure.parameters() - prediction]
}

/// Counts with and without prediction layers. The second are those of the models in Hugging Face's transformers 5.24,
/// where it has them, with its buffers of routers.
#[test]
fn counts_are_those_of_the_checkpoints() {
    for (config, expected) in [
        (models::llama4_scout(), [108_641_793_536, 108_641_793_536]),
        (models::qwen3_30b(), [30_532_122_624, 30_532_122_624]),
        (models::gpt_oss_20b(), [20_914_757_184, 20_914_757_184]),
        (models::deepseek_v2_lite(), [15_706_484_224, 15_706_484_224]),
        (models::deepseek_v3(), [684_489_845_504, 671_026_419_200]),
        (models::deepseek_v4_flash(), [290_944_616_402, 284_334_567_511]),
        (models::glm_5_2(), [753_329_940_480, 743_377_019_904]),
        (models::kimi_k3(), [2_779_931_837_184, 2_779_931_837_184]),
        (models::qwen3_5_35b(), [35_951_822_704, 35_107_181_936]),
        (models::nemotron_3_super(), [123_611_033_088, 120_668_707_840]),
        (models::minimax_m3(), [427_040_140_160, 427_040_140_160]),
        (models::mimo_v2_flash(), [309_766_601_088, 308_778_780_864]),
        (models::gemma_4_26b(), [25_805_936_206, 25_805_936_206]),
        (models::step_3_7_flash(), [201_365_316_160, 198_937_145_152]),
        (models::nemotron_nas(), [3_284_180_992, 3_284_180_992]),
    ] {
        let structure = structure(&config);
        assert_eq!(counts(&structure), expected, "{}", structure.architecture);
    }
}

/// A tensor's shape by its name.
fn shape(structure: &Structure, name: &str) -> Vec<u64> {
    let found = structure.tensors.iter().find(|tensor| tensor.name == name);
    found.unwrap_or_else(|| panic!("{} has no {name}", structure.architecture)).shape.clone()
}

#[test]
fn tensors_have_the_names_of_the_checkpoints() {
    for (config, name, expected) in [
        (
            models::llama4_scout(),
            "language_model.model.layers.0.feed_forward.experts.gate_up_proj",
            vec![16, 5120, 16384],
        ),
        (models::llama4_scout(), "vision_model.vision_adapter.mlp.fc1.weight", vec![4096, 5632]),
        (models::qwen3_30b(), "model.layers.7.mlp.experts.*.gate_proj.weight", vec![128, 768, 2048]),
        (models::gpt_oss_20b(), "model.layers.0.mlp.experts.gate_up_proj_bias", vec![32, 5760]),
        (models::deepseek_v3(), "model.layers.61.eh_proj.weight", vec![7168, 14336]),
        (models::deepseek_v4_flash(), "layers.2.attn.indexer.compressor.ape", vec![4, 256]),
        (models::deepseek_v4_flash(), "layers.3.attn.compressor.wkv.weight", vec![512, 4096]),
        (models::deepseek_v4_flash(), "layers.0.ffn.gate.tid2eid", vec![129280, 6]),
        (models::deepseek_v4_flash(), "mtp.0.ffn.experts.*.w2.weight", vec![256, 4096, 2048]),
        (models::glm_5_2(), "model.layers.6.self_attn.indexer.wq_b.weight", vec![4096, 2048]),
        (models::kimi_k3(), "language_model.model.layers.0.self_attn.A_log", vec![128]),
        (
            models::kimi_k3(),
            "language_model.model.layers.92.block_sparse_moe.routed_expert_norm.weight",
            vec![3584],
        ),
        (models::kimi_k3(), "vision_tower.encoder.blocks.0.wqkv.weight", vec![4608, 1024]),
        (
            models::qwen3_5_35b(),
            "model.language_model.layers.0.linear_attn.in_proj_qkv.weight",
            vec![8192, 2048],
        ),
        (models::qwen3_5_35b(), "mtp.layers.0.mlp.shared_expert_gate.weight", vec![1, 2048]),
        (models::nemotron_3_super(), "mtp.layers.1.mixer.fc1_latent_proj.weight", vec![1024, 4096]),
        (
            models::minimax_m3(),
            "language_model.model.layers.3.self_attn.index_q_proj.weight",
            vec![512, 6144],
        ),
        (models::mimo_v2_flash(), "model.mtp.layers.2.self_attn.attention_sink_bias", vec![64]),
        (models::step_3_7_flash(), "model.layers.3.moe.gate_proj.weight", vec![288, 1280, 4096]),
        (
            models::step_3_7_flash(),
            "vision_model.transformer.resblocks.0.attn.in_proj_weight",
            vec![4608, 1536],
        ),
        (models::gemma_4_26b(), "model.language_model.layers.5.self_attn.k_proj.weight", vec![1024, 2816]),
        (models::nemotron_nas(), "model.layers.1.post_attention_layernorm.weight", vec![8192]),
    ] {
        assert_eq!(shape(&structure(&config), name), expected, "{name}");
    }
}

#[test]
fn layers_share_selections_and_windows_as_the_configuration_says() {
    let glm = structure(&models::glm_5_2());
    let shares = |layer: usize| match &glm.layers[layer].mixer {
        Mixer::Latent(latent) => latent.indexer.as_ref().is_some_and(|indexer| indexer.shared),
        _ => panic!("latent attention in every layer"),
    };
    let own: Vec<usize> = (0..79).filter(|&layer| !shares(layer)).collect();
    // Those of the list of modules that the checkpoint in FP8 leaves unquantised, with the prediction layer.
    let expected: Vec<usize> = [0, 1].into_iter().chain((2..79).step_by(4)).collect();
    assert_eq!(own, expected);
    let gemma = structure(&models::gemma_4_26b());
    let full = |layer: usize| match &gemma.layers[layer].mixer {
        Mixer::Attention(attention) => attention.window.is_none() && attention.values_are_keys,
        _ => panic!("attention in every layer"),
    };
    assert_eq!((0..30).filter(|&layer| full(layer)).collect::<Vec<_>>(), [5, 11, 17, 23, 29]);
}
