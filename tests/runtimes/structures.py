"""Compares the tensors and windows that the program derives from configurations with those of transformers.

    python3 structures.py STAGEWRIGHT [MODEL_TYPE …]

Every architecture is made on the meta device, from the defaults of its configuration class and from the figures of
published models, and its parameters get the names and shapes that transformers writes into a checkpoint
(`revert_weight_conversion`): experts one by one, and names of before its version 5. The program reads the same
configuration as a file. Names and shapes must be the same, each tied tensor once, and so must the window of each layer.
"""

import json
import os
import subprocess
import sys
import tempfile

# Classes other than the one for causal language models.
CLASSES = {
    "bert": "BertModel",
    "gemma3": "Gemma3ForConditionalGeneration",
    "roberta": "RobertaModel",
    "t5": "T5ForConditionalGeneration",
    "vit": "ViTForImageClassification",
    "whisper": "WhisperForConditionalGeneration",
}

# Published checkpoints name a module that transformers 5 leaves out when it saves.
PUBLISHED = {"gemma3": [("vision_tower.", "vision_tower.vision_model.")]}


def llama_like(hidden, inner, layers, heads, kv_heads, vocabulary, **more):
    """Keys that most decoders share."""
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
        **more,
    }


# Figures of published models, with the keys of their config.json files.
MODELS = [
    ("bert", "BERT-large", llama_like(1024, 4096, 24, 16, 16, 30522, max_position_embeddings=512, type_vocab_size=2)),
    ("bloom", "BLOOM-176B", {"hidden_size": 14336, "n_layer": 70, "n_head": 112, "vocab_size": 250880}),
    ("bloom", "BLOOM-560M", {"n_embed": 1024, "n_layer": 24, "num_attention_heads": 16, "vocab_size": 250880}),
    ("cohere", "Command R+", llama_like(12288, 33792, 64, 96, 8, 256000, use_qk_norm=True)),
    ("cohere2", "Command R7B", llama_like(4096, 14336, 32, 32, 8, 256000, head_dim=128, sliding_window=4096)),
    ("falcon", "Falcon-7B", {"hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "vocab_size": 65024, "multi_query": True, "parallel_attn": True, "bias": False}),
    ("falcon", "Falcon-40B", {"hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": True, "parallel_attn": True}),
    ("falcon", "Falcon2-11B", {"hidden_size": 4096, "num_hidden_layers": 60, "num_attention_heads": 32, "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1, "tie_word_embeddings": False, "ffn_hidden_size": 16384}),
    ("falcon", "Falcon-RW-1B", {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, "vocab_size": 50304, "alibi": True, "multi_query": False, "parallel_attn": False, "bias": True}),
    ("gemma", "Gemma 2B", llama_like(2048, 16384, 18, 8, 1, 256000, head_dim=256)),
    ("gemma2", "Gemma 2 9B", llama_like(3584, 14336, 42, 16, 8, 256000, head_dim=256, sliding_window=4096)),
    ("gemma3", "Gemma 3 4B", {
        "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024},
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False},
    }),
    ("gemma3_text", "Gemma 3 1B", llama_like(1152, 6912, 26, 4, 1, 262144, head_dim=256, sliding_window=512, sliding_window_pattern=6)),
    ("gpt2", "GPT-2 XL", {"n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024, "vocab_size": 50257}),
    ("gpt_bigcode", "StarCoder", {"n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576, "n_positions": 8192, "vocab_size": 49152, "multi_query": True}),
    ("gpt_bigcode", "heads of their own", {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 2048, "vocab_size": 49152, "multi_query": False}),
    ("gpt_neox", "Pythia 6.9B", {"hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 50432, "rotary_pct": 0.25}),
    ("granite", "Granite 3.1 8B", llama_like(4096, 12800, 40, 32, 8, 49155, tie_word_embeddings=True)),
    ("granite", "with biases", llama_like(1024, 4096, 8, 16, 4, 49152, attention_bias=True, mlp_bias=True)),
    ("lfm2", "LFM2 1.2B", llama_like(2048, 12288, 16, 32, 8, 65536, block_ff_dim=12288, block_multiple_of=256, block_ffn_dim_multiplier=1.0, conv_L_cache=3, conv_bias=False, full_attn_idxs=[2, 5, 8, 10, 12, 14], tie_embedding=True)),
    ("lfm2", "with biases", llama_like(1024, 6656, 6, 16, 8, 65536, conv_bias=True, full_attn_idxs=[2, 5], block_auto_adjust_ff_dim=False)),
    ("llama", "Llama 3.1 8B", llama_like(4096, 14336, 32, 32, 8, 128256)),
    ("mistral", "Mistral Nemo", llama_like(5120, 14336, 40, 32, 8, 131072, head_dim=128, sliding_window=None)),
    ("mixtral", "Mixtral 8x7B", llama_like(4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2)),
    ("olmo", "OLMo 1B", llama_like(2048, 8192, 16, 16, 16, 50304, tie_word_embeddings=True)),
    ("olmo2", "OLMo 2 32B", llama_like(5120, 27648, 64, 40, 8, 100352)),
    ("opt", "OPT-350M", {"hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "word_embed_proj_dim": 512, "do_layer_norm_before": False, "vocab_size": 50272, "max_position_embeddings": 2048}),
    ("opt", "without biases", {"hidden_size": 512, "ffn_dim": 2048, "num_hidden_layers": 4, "num_attention_heads": 8, "word_embed_proj_dim": 512, "enable_bias": False, "layer_norm_elementwise_affine": False, "vocab_size": 50272, "max_position_embeddings": 2048}),
    ("phi", "Phi-2", llama_like(2560, 10240, 32, 32, 32, 51200, partial_rotary_factor=0.4)),
    ("phi", "with normalised queries", llama_like(1024, 4096, 4, 16, 16, 51200, qk_layernorm=True)),
    ("phi3", "Phi-3 medium", llama_like(5120, 17920, 40, 40, 10, 32064)),
    ("qwen2", "Qwen2.5 7B", llama_like(3584, 18944, 28, 28, 4, 152064)),
    ("qwen2", "with windows", llama_like(512, 1536, 6, 8, 2, 151936, use_sliding_window=True, sliding_window=64, max_window_layers=4)),
    ("qwen2_moe", "Qwen2 57B-A14B", llama_like(3584, 18944, 28, 28, 4, 151936, moe_intermediate_size=2560, shared_expert_intermediate_size=20480, num_experts=64, num_experts_per_tok=8)),
    ("qwen3", "Qwen3 0.6B", llama_like(1024, 3072, 28, 16, 8, 151936, head_dim=128, tie_word_embeddings=True)),
    ("qwen3_moe", "Qwen3 30B-A3B", llama_like(2048, 6144, 48, 32, 4, 151936, head_dim=128, moe_intermediate_size=768, num_experts=128, num_experts_per_tok=8)),
    ("qwen3_moe", "with dense layers", llama_like(512, 1536, 6, 8, 2, 151936, head_dim=64, moe_intermediate_size=128, num_experts=4, num_experts_per_tok=2, decoder_sparse_step=2, mlp_only_layers=[3])),
    ("qwen3_moe", "with windows", llama_like(512, 1536, 2, 8, 2, 151936, head_dim=64, moe_intermediate_size=128, num_experts=4, num_experts_per_tok=2, use_sliding_window=True, sliding_window=64)),
    ("roberta", "RoBERTa-large", llama_like(1024, 4096, 24, 16, 16, 50265, max_position_embeddings=514, type_vocab_size=1)),
    ("smollm3", "SmolLM3 3B", llama_like(2048, 11008, 36, 16, 4, 128256)),
    ("smollm3", "with windows", llama_like(512, 1536, 8, 8, 2, 128256, use_sliding_window=True, sliding_window=64)),
    ("stablelm", "StableLM 2 12B", llama_like(5120, 13824, 40, 32, 8, 100352, qk_layernorm=True, use_parallel_residual=True)),
    ("stablelm", "StableLM 2 1.6B", llama_like(2048, 5632, 24, 32, 32, 100352, use_qkv_bias=True)),
    ("starcoder2", "StarCoder2 15B", llama_like(6144, 24576, 40, 48, 4, 49152, sliding_window=4096)),
    ("starcoder2", "without biases", llama_like(1024, 4096, 4, 16, 4, 49152, use_bias=False, tie_word_embeddings=False)),
    ("t5", "T5-base", {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12, "vocab_size": 32128}),
    # Published without a tied head, which transformers 5 ties whatever the file says; so the file says nothing here.
    ("t5", "T5 1.1 XXL", {"d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_decoder_layers": 24, "num_heads": 64, "vocab_size": 32128, "feed_forward_proj": "gated-gelu"}),
    ("vit", "ViT-B/16", {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "image_size": 224, "patch_size": 16, "id2label": {str(label): str(label) for label in range(1000)}}),
    ("vit", "ViT-L/32 384, without biases", {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "image_size": 384, "patch_size": 32, "qkv_bias": False}),
    ("whisper", "Whisper large v3", {"d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20, "decoder_layers": 32, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_mel_bins": 128, "vocab_size": 51866}),
]


def of_transformers(kind, config):
    """Names and shapes of the parameters, as transformers writes them into a checkpoint."""
    import torch
    import transformers
    from transformers.core_model_loading import revert_weight_conversion

    made = getattr(transformers, CLASSES[kind]) if kind in CLASSES else None
    with torch.device("meta"):
        model = made(config) if made else transformers.AutoModelForCausalLM.from_config(config)
    # A tied parameter is listed once, under the name of its first module.
    tensors = revert_weight_conversion(model, dict(model.named_parameters()))
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    for old, new in PUBLISHED.get(kind, []):
        shapes = {name.replace(old, new, 1) if name.startswith(old) else name: shape for name, shape in shapes.items()}
    return shapes


def windows_of(config):
    """Window of every layer of attention, as the layers of transformers choose it."""
    config = config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None) or None
    types = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    return [window if name == "sliding_attention" else None for name in types if name != "conv"]


def of_program(run, config, folder):
    """Names and shapes of the tensors that the program derives, with experts and heads one by one, and windows."""
    source, target = os.path.join(folder, "config.json"), os.path.join(folder, "structure.json")
    with open(source, "w", encoding="utf-8") as file:
        json.dump(config, file)
    run("convert", source, target)
    with open(target, encoding="utf-8") as file:
        structure = json.load(file)
    shapes = {}
    for tensor in structure["tensors"]:
        name, shape = tensor["name"], tensor["shape"]
        single = [(name, shape)]
        if "*" in name:
            single = [(name.replace("*", str(index)), shape[1:]) for index in range(shape[0])]
        for name, shape in single:
            assert name not in shapes, f"{name} is derived twice"
            shapes[name] = shape
    mixers = [layer["mixer"] for layer in structure["layers"]]
    return shapes, [mixer.get("window") for mixer in mixers if mixer["kind"] == "attention"]


def compare(run, folder, kind, title, raw):
    """Compares a configuration's tensors. Returns whether they are the same."""
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[kind].from_dict(raw)
    # Without figures, the file is the one that transformers writes.
    file = {"model_type": kind, **raw} if raw else json.loads(config.to_json_string(use_diff=False))
    theirs, (ours, windows) = of_transformers(kind, config), of_program(run, file, folder)
    count = lambda shapes: sum(product(shape) for shape in shapes.values())
    lacking = [f"  lacks {name} {theirs[name]}" for name in theirs if name not in ours]
    beyond = [f"  adds {name} {ours[name]}" for name in ours if name not in theirs]
    other = [f"  {name} is {ours[name]}, not {theirs[name]}" for name in theirs if ours.get(name, theirs[name]) != theirs[name]]
    found = [*lacking, *beyond, *other]
    if windows != windows_of(config):
        found.append(f"  windows are {windows}, not {windows_of(config)}")
    print(f"{kind}: {title}: {len(theirs)} tensors, {count(theirs):,} parameters", *found[:12], sep="\n")
    return not found


def product(shape):
    result = 1
    for size in shape:
        result *= size
    return result


def check_structures(run, kinds=()):
    """Compares every architecture, or those of some values of `model_type`."""
    cases = [(kind, "defaults", {}) for kind in sorted({kind for kind, *_ in MODELS})] + MODELS
    with tempfile.TemporaryDirectory(prefix="stagewright-") as folder:
        same = [compare(run, folder, *case) for case in cases if not kinds or case[0] in kinds]
    assert all(same) and same, "the tensors above differ from those of transformers"
    print(f"structures: {len(same)} configurations have the tensors of transformers")


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1])
    check_structures(lambda *arguments: subprocess.run([program, *arguments], check=True), sys.argv[2:])
