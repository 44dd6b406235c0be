"""Compares the work, caches and modules that the program derives from configurations with those of transformers.

    python3 work.py STAGEWRIGHT [MODEL_TYPE …]

Models of transformers run on the meta device, where tensors have shapes but no numbers. Seven figures of each are
compared, the first four from graphs of the program and the others from what `show` prints:

- FLOP of products in prefill, as PyTorch's `FlopCounterMode` counts them. It counts no elementwise operators and no
  normalisations, so those of the graph are left out; scaling, mask and softmax remain, which the graph has in its
  fused attention. Recurrences of linear attention and state-space layers are left out of both: transformers computes
  their parallel form, and the graph the recurrence itself.
- Bytes of weights that a step of decode reads: all but rows of tables and experts that no token needs. The graph has
  them with the activations of one token.
- Bytes of the cache that this step reads and appends, and those that are kept afterwards.
- FLOP of a token without attention, to which `show` adds recurrences; weights that a token uses; bytes of the cache.

Then the program plans whole layers on four accelerators, for one model of every architecture here and in
`structures.py`. Every key of the `device_map` must be a module of transformers, and `check_device_map` of accelerate
must find every tensor of a checkpoint in it; buffers that no checkpoint has, such as rotary frequencies, need no
device. Partitions for vLLM and SGLang must have all layers.
"""

import json
import os
import subprocess
import sys
import tempfile

from structures import CLASSES, MODELS as OTHERS, llama_like, product

# Largest difference, relative to transformers.
TOLERANCE = 0.02
BATCH, SEQUENCE, CONTEXT = 2, 256, 4096
# Bytes of a number in bf16.
WIDTH = 2

# Kinds of operators of the graph that multiply matrices.
PRODUCTS = {"linear", "attention", "short_convolution"}

FIGURES = [
    "FLOP of prefill",
    "weights read in decode",
    "cache read and written",
    "cache kept",
    "FLOP per token",
    "active parameters",
    "cache at context",
]

# Published models, with the keys of their config.json files. Two have fewer layers, but all kinds of layers.
MODELS = [
    ("llama", "Llama 3.1 8B", llama_like(4096, 14336, 32, 32, 8, 128256)),
    ("qwen2", "Qwen2.5 7B", llama_like(3584, 18944, 28, 28, 4, 152064)),
    ("qwen3_moe", "Qwen3 30B-A3B", llama_like(2048, 6144, 48, 32, 4, 151936, head_dim=128, moe_intermediate_size=768, num_experts=128, num_experts_per_tok=8)),
    ("mixtral", "Mixtral 8x7B", llama_like(4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2)),
    ("deepseek_v3", "DeepSeek-V3, 6 layers", llama_like(7168, 18432, 6, 128, 128, 129280, moe_intermediate_size=2048, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, n_group=8, topk_group=4, first_k_dense_replace=3)),
    ("gemma3_text", "Gemma 3 1B", llama_like(1152, 6912, 26, 4, 1, 262144, head_dim=256, sliding_window=512, sliding_window_pattern=6)),
    ("gpt_oss", "gpt-oss 20B", llama_like(2880, 2880, 24, 64, 8, 201088, head_dim=64, num_local_experts=32, num_experts_per_tok=4, sliding_window=128)),
    # With positions for `CONTEXT` tokens; the published model has 1024.
    ("gpt2", "GPT-2 XL", {"n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 8192, "vocab_size": 50257}),
    ("gpt_neox", "Pythia 6.9B", llama_like(4096, 16384, 32, 32, 32, 50432, rotary_pct=0.25)),
    ("falcon", "Falcon-7B", {"hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "vocab_size": 65024, "multi_query": True, "parallel_attn": True, "bias": False}),
    ("nemotron_h", "Nemotron-H 8B", llama_like(4096, 21504, 52, 32, 8, 131072, hybrid_override_pattern="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", head_dim=128, mamba_num_heads=128, mamba_head_dim=64, ssm_state_size=128, n_groups=8, conv_kernel=4)),
    ("qwen3_5_moe_text", "Qwen3.5 35B-A3B, 8 layers", llama_like(2048, 512, 8, 16, 2, 248320, head_dim=256, full_attention_interval=4, linear_num_key_heads=16, linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4, moe_intermediate_size=512, shared_expert_intermediate_size=512, num_experts=256, num_experts_per_tok=8)),
]


# Architectures whose maps lack a module: the projector behind a tower, and a table that encoder and decoder share.
LACKING = {"gemma3", "t5"}


def made(kind, raw):
    """The model of a configuration, without numbers."""
    import torch
    import transformers

    config = transformers.CONFIG_MAPPING[kind].from_dict(raw)
    # Both compute the same products as the faster ways, which need the numbers of the router or are not counted.
    ways = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
    with torch.device("meta"):
        if kind in CLASSES:
            return getattr(transformers, CLASSES[kind])(config)
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, **ways).eval()


def called(model, batch, tokens, **more):
    """What a model returns for new sequences. With a cache, it does not look at positions for packed sequences."""
    import torch

    ids = torch.zeros((batch, tokens), dtype=torch.long, device="meta")
    with torch.no_grad():
        return model(input_ids=ids, use_cache=True, **more)


def flop_of(model):
    """FLOP of the products of prefill, and those of its attention."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        called(model, BATCH, SEQUENCE)
    by_module = counter.get_flop_counts()
    counted = lambda name: {str(operator): flop for operator, flop in by_module.get(name, {}).items()}
    flop, attention = sum(counted("Global").values()), 0
    for name, module in model.named_modules():
        batched = counted(f"{type(model).__name__}.{name}").get("aten.bmm", 0)
        if hasattr(module, "conv1d"):
            # The products of such a mixer with weights are not batched, so these are the recurrence.
            flop -= batched
        elif name.endswith((".self_attn", ".attn", ".attention", ".self_attention")) or hasattr(module, "k_proj"):
            # Eager attention also computes the scores outside of the window.
            seen = min(getattr(module, "sliding_window", None) or SEQUENCE, SEQUENCE) / SEQUENCE
            flop -= batched * (1 - seen)
            attention += batched * seen
    return flop, attention


def weights_of(model):
    """Weights that a token uses, with whole tables, and those that it reads."""
    import torch

    modules, head = dict(model.named_modules()), model.get_output_embeddings().weight
    used = read = 0
    for name, parameter in model.named_parameters():
        count, above = product(parameter.shape), name.rpartition(".")[0]
        if above.endswith(".experts"):
            # Experts are stacked.
            count *= model.config.num_experts_per_tok / parameter.shape[0]
        is_table = isinstance(modules[above], torch.nn.Embedding) and parameter is not head
        used += count
        read += count / parameter.shape[0] if is_table else count
    return used, read


def cache_of(model):
    """Bytes of keys and values of a sequence after a step of decode, and those of its states."""
    cache = called(model, 1, CONTEXT + 1, logits_to_keep=1).past_key_values
    held = lambda *names: [getattr(layer, name, None) for layer in cache.layers for name in names]
    rows = sum(tensor.nbytes for tensor in held("keys", "values") if tensor is not None)
    states = [state for states in held("conv_states", "recurrent_states") if states for state in states.values()]
    return rows, sum(state.nbytes for state in states)


def of_transformers(model):
    """The figures of a model of transformers."""
    flop, attention = flop_of(model)
    used, read = weights_of(model)
    rows, states = cache_of(model)
    kept = rows + states
    return [flop, read * WIDTH, rows + 2 * states, kept, (flop - attention) / BATCH / SEQUENCE, used, kept]


def graph(run, folder, *options):
    """The graph of a step."""
    target = os.path.join(folder, "graph.json")
    run("convert", os.path.join(folder, "config.json"), target, "--to", "native", *map(str, options))
    with open(target, encoding="utf-8") as file:
        return json.load(file)


def of_program(run, folder):
    """The figures of the configuration in a folder."""
    prefill = graph(run, folder, "--phase", "prefill", "--batch", BATCH, "--sequence", SEQUENCE, "--all-logits")
    flop = sum(operator["flop"] for operator in prefill["operators"] if operator["kind"] in PRODUCTS)
    decode = graph(run, folder, "--phase", "decode", "--context", CONTEXT)
    caches = [parameter for parameter in decode["parameters"] if parameter["name"].endswith(".cache")]
    readers = {reader for cache in caches for reader in cache["readers"]}
    bytes_of = {operator["name"]: operator["bytes_moved"] for operator in decode["operators"]}
    # What a reader of a cache moves besides its weights and activations is of the cache. A view is subtracted as its whole
    # tensor, which makes the rest slightly less after a fused projection.
    moved = sum(bytes_of[reader] for reader in readers)
    moved -= sum(operator.get("parameter_bytes", 0) for operator in decode["operators"] if operator["name"] in readers)
    for tensor in decode["tensors"]:
        moved -= tensor.get("bytes", 0) * len(readers & {tensor["producer"], *tensor["consumers"]})
    kept = sum(cache["bytes"] for cache in caches)
    shown = json.loads(run("show", os.path.join(folder, "config.json"), "--context", str(CONTEXT + 1), "--json"))
    shown = [shown[name] for name in ("flop_per_token", "active_parameters", "cache_bytes")]
    return [flop, sum(bytes_of.values()) - moved, moved, kept, *shown]


def compare(title, theirs, ours):
    """Prints a row of the table. Returns the figures that differ."""
    by = [own / other - 1 for own, other in zip(ours, theirs)]
    cells = [f"{own:.5g} / {other:.5g} ({off:+.2%})" for own, other, off in zip(ours, theirs, by)]
    print(f"| {title} |", " | ".join(cells), "|", flush=True)
    return [f"{title}: {name} differs by {off:.2%}" for name, off in zip(FIGURES, by) if abs(off) > TOLERANCE]


def exported(run, folder):
    """A function that exports a plan of whole layers on four accelerators to a target."""
    config, plan = (os.path.join(folder, name) for name in ("config.json", "plan.json"))
    run("plan", config, "--cluster", "4xh200", "--whole-layers", "--out", plan)
    return lambda target: run("export", plan, "--to", target, "--model", config, "--cluster", "4xh200")


def misnamed(title, device_map, model):
    """What is wrong with the names in a `device_map`."""
    from accelerate.utils import check_device_map

    modules = dict(model.named_modules())
    absent = [key for key in device_map if key not in modules]
    wrong = [f"{title}: {len(absent)} keys are no modules, such as {absent[0]}"] if absent else []
    try:
        check_device_map(model, {key: device for key, device in device_map.items() if key in modules})
    except ValueError as error:
        wrong.append(f"{title}: {str(error)[:300]}")
    return wrong


def partitions(title, export, layers):
    """What is wrong with the numbers of layers for vLLM and SGLang."""
    wrong = []
    for target in ("vllm", "sglang"):
        counts = [int(count) for count in export(target).partition("=")[2].split(",")]
        if sum(counts) != layers:
            wrong.append(f"{title}: {target} has {counts}, not {layers} layers")
    return wrong


def write(folder, kind, raw):
    """Writes the configuration that the program reads."""
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"model_type": kind, **raw}, file)


def check_work(run, kinds=()):
    """Compares figures and modules of all models, or of those of some values of `model_type`."""
    first = {kind: (kind, title, raw) for kind, title, raw in reversed(OTHERS + MODELS) if kind not in LACKING}
    wrong, chosen = [], [case for kind, case in sorted(first.items()) if not kinds or kind in kinds]
    assert chosen, f"there is no model of {kinds}"
    print("| model |", " | ".join(FIGURES), "|")
    print("| --- " * (len(FIGURES) + 1) + "|")
    with tempfile.TemporaryDirectory(prefix="stagewright-") as folder:
        for kind, title, raw in (case for case in MODELS if not kinds or case[0] in kinds):
            write(folder, kind, raw)
            wrong += compare(title, of_transformers(made(kind, raw)), of_program(run, folder))
        for kind, title, raw in chosen:
            write(folder, kind, raw)
            export, model = exported(run, folder), made(kind, raw)
            wrong += misnamed(title, json.loads(export("accelerate")), model)
            if any(kind == known for known, *_ in MODELS):
                wrong += partitions(title, export, model.config.num_hidden_layers)
    assert not wrong, "\n".join(wrong)
    within = f"figures are within {TOLERANCE:.0%} of transformers"
    print(f"work: {within}; maps of {len(chosen)} architectures name its modules")


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1])
    output = {"check": True, "capture_output": True, "text": True}
    check_work(lambda *arguments: subprocess.run([program, *arguments], **output).stdout, sys.argv[2:])
