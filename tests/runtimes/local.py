"""Runs local plans by `llama-bench` on servers of this machine: `make test-runtimes`.

    python3 local.py STAGEWRIGHT FOLDER

FOLDER has `llama-bench` and `ggml-rpc-server` of llama.cpp (`data/setup/install-llama-cpp`). Ten small models with random
weights are planned on machines whose devices are servers, with room for a part of each model, so that plans have
overrides, layers on the host or several devices. The line that `export --to llama-bench` prints runs unchanged, in the
folder of the model; it must end with exit code 0 and a row with tokens a second for each of its tests. Times mean
nothing: servers and host are one processor.
"""

import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

STAGEWRIGHT, PROGRAMS = (os.path.abspath(path) for path in sys.argv[1:3])
MIB = 1 << 20

# Bytes that a plan leaves free.
MARGIN = 64 * MIB

# Numbers of types in a file, with the numbers and bytes of a block.
F32, Q8_0 = (0, 1, 4), (8, 32, 34)


def text(value):
    """A text in a file."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(item):
    """A value in a file, with its type."""
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    return struct.pack("<If", 6, item) if isinstance(item, float) else struct.pack("<II", 4, item)


class Model:
    """A GGUF file that is put together."""

    def __init__(self, architecture, layers, hidden, heads, kv_heads, head, inner, vocabulary):
        self.architecture, self.layers, self.hidden, self.inner = architecture, layers, hidden, inner
        self.queries, self.keys_values, self.head = heads * head, kv_heads * head, head
        # Lines have the name of a model that is one of a file.
        self.values = {"general.architecture": architecture, "general.name": "model.gguf"}
        self.values["tokenizer.ggml.model"] = "none"
        self.tensors = []
        self.key(block_count=layers, context_length=4096, embedding_length=hidden, feed_forward_length=inner)
        self.key(vocab_size=vocabulary)
        self.key("attention.", head_count=heads, head_count_kv=kv_heads, key_length=head, value_length=head)
        self.key("attention.", layer_norm_rms_epsilon=1e-5)
        self.key("rope.", dimension_count=head)
        self.add("token_embd.weight", hidden, vocabulary)
        self.add("output_norm.weight", hidden)

    def key(self, prefix="", **values):
        self.values.update({f"{self.architecture}.{prefix}{name}": item for name, item in values.items()})

    def add(self, name, *dimensions, kind=None):
        """A tensor: matrices in 8 bits, and vectors in 32."""
        self.tensors.append((name, dimensions, kind or (Q8_0 if len(dimensions) > 1 else F32)))

    def layer(self, layer, **tensors):
        for name, dimensions in tensors.items():
            self.add(f"blk.{layer}.{name}.weight", *dimensions)

    def attention(self, layer, norms=True):
        hidden, queries, keys_values = self.hidden, self.queries, self.keys_values
        self.layer(layer, attn_norm=(hidden,), attn_q=(hidden, queries), attn_k=(hidden, keys_values))
        self.layer(layer, attn_v=(hidden, keys_values), attn_output=(queries, hidden))
        if norms:
            self.layer(layer, attn_q_norm=(self.head,), attn_k_norm=(self.head,))

    def dense(self, layer, suffix="", inner=None):
        hidden, inner = self.hidden, inner or self.inner
        wide = {f"ffn_{name}{suffix}": (hidden, inner) for name in ("gate", "up")}
        self.layer(layer, **wide, **{f"ffn_down{suffix}": (inner, hidden)})

    def experts(self, layer, count, inner, shared=0):
        hidden = self.hidden
        self.add(f"blk.{layer}.ffn_gate_inp.weight", hidden, count, kind=F32)
        self.layer(layer, ffn_gate_exps=(hidden, inner, count), ffn_up_exps=(hidden, inner, count))
        self.layer(layer, ffn_down_exps=(inner, hidden, count))
        if shared:
            self.dense(layer, "_shexp", shared)

    def expert_keys(self, count, active, inner):
        self.key(expert_count=count, expert_used_count=active, expert_feed_forward_length=inner)

    def output(self):
        self.add("output.weight", *self.tensors[0][1])

    def write(self, path):
        """Writes the file, with weights of a few thousandths and norms of 1."""
        header = [b"GGUF", struct.pack("<IQQ", 3, len(self.tensors), len(self.values))]
        header += [text(name) + value(item) for name, item in self.values.items()]
        sizes, free = [], 0
        for name, dimensions, (number, block, size) in self.tensors:
            count = 1
            for dimension in dimensions:
                count *= dimension
            shape = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
            header.append(text(name) + shape + struct.pack("<IQ", number, free))
            sizes.append(count // block * size)
            free += -(-sizes[-1] // 32) * 32
        start = b"".join(header)
        # A scale, and as many numbers of 8 bits as a block has; repeated, with a length that no row divides.
        generator = random.Random(0)
        scale = struct.pack("<e", 2e-5)
        blocks = b"".join(scale + generator.randbytes(32) for _ in range(4099))
        with open(path, "wb") as file:
            file.write(start + bytes(-len(start) % 32))
            for (name, _, kind), size in zip(self.tensors, sizes):
                piece = blocks if kind == Q8_0 else struct.pack("<f", 1.0 if "norm" in name else 0.01)
                file.write((piece * (size // len(piece) + 1))[:size] + bytes(-size % 32))


def llama(layers, inner, tied=False):
    model = Model("llama", layers, 512, 8, 2, 64, inner, 2048)
    for layer in range(layers):
        model.attention(layer, norms=False)
        model.layer(layer, ffn_norm=(model.hidden,))
        model.dense(layer)
    if not tied:
        model.output()
    return model


def qwen3_moe(layers, count, inner):
    model = Model("qwen3moe", layers, 512, 8, 2, 64, inner, 2048)
    model.expert_keys(count, 4, inner)
    model.output()
    for layer in range(layers):
        model.attention(layer)
        model.layer(layer, ffn_norm=(model.hidden,))
        model.experts(layer, count, inner)
    return model


def gpt_oss(layers, count):
    """Windows in every other layer, and experts with biases."""
    model = Model("gpt-oss", layers, 512, 8, 2, 64, 512, 2048)
    model.expert_keys(count, 4, 512)
    model.key("attention.", sliding_window=128)
    model.output()
    for layer in range(layers):
        model.attention(layer, norms=False)
        model.layer(layer, post_attention_norm=(512,), attn_sinks=(8,))
        model.experts(layer, count, 512)
        for name, width in (("attn_q", 512), ("attn_k", 128), ("attn_v", 128), ("attn_output", 512)):
            model.add(f"blk.{layer}.{name}.bias", width)
        model.add(f"blk.{layer}.ffn_gate_inp.bias", count)
        for name in ("gate", "up", "down"):
            model.add(f"blk.{layer}.ffn_{name}_exps.bias", 512, count, kind=F32)
    return model


def gemma_3(layers, inner):
    """Windows in five of six layers, and a tied output."""
    model = Model("gemma3", layers, 512, 8, 2, 64, inner, 2048)
    model.key("attention.", sliding_window=512)
    for layer in range(layers):
        model.attention(layer)
        model.layer(layer, post_attention_norm=(512,), ffn_norm=(512,), post_ffw_norm=(512,))
        model.dense(layer)
    return model


def glm_4_5(layers, count):
    """Experts with a shared one, and a last layer that predicts a further token."""
    model = Model("glm4moe", layers, 512, 8, 2, 64, 1024, 2048)
    model.expert_keys(count, 4, 512)
    model.key(expert_shared_count=1, leading_dense_block_count=1, nextn_predict_layers=1)
    model.output()
    for layer in range(layers):
        model.attention(layer)
        model.layer(layer, post_attention_norm=(512,))
        if layer == 0:
            model.dense(layer)
        else:
            model.experts(layer, count, 512, shared=512)
            model.add(f"blk.{layer}.exp_probs_b.bias", count)
    last = layers - 1
    model.layer(last, **{"nextn.enorm": (512,), "nextn.hnorm": (512,), "nextn.eh_proj": (1024, 512)})
    return model


def deepseek_2(layers, count):
    """Latents instead of keys and values, and experts with a shared one after a dense layer."""
    heads, rank, rotary, plain, wide = 8, 256, 64, 64, 128
    model = Model("deepseek2", layers, 512, heads, 1, rank + rotary, 1024, 2048)
    model.expert_keys(count, 4, 512)
    model.key("attention.", value_length=rank, key_length_mla=plain + rotary, value_length_mla=wide)
    model.key("attention.", q_lora_rank=0, kv_lora_rank=rank)
    model.key("rope.", dimension_count=rotary)
    model.key(expert_shared_count=1, leading_dense_block_count=1)
    model.output()
    for layer in range(layers):
        model.layer(layer, attn_norm=(512,), ffn_norm=(512,), attn_kv_a_norm=(rank,))
        model.layer(layer, attn_kv_a_mqa=(512, rank + rotary), attn_q=(512, heads * (plain + rotary)))
        model.layer(layer, attn_k_b=(plain, rank, heads), attn_v_b=(rank, wide, heads))
        model.layer(layer, attn_output=(heads * wide, 512))
        if layer == 0:
            model.dense(layer)
        else:
            model.experts(layer, count, 512, shared=512)
    return model


# A model; the parts of it for which each server has room; options of the plan; and what its line must have: overrides of
# tensors or experts, layers on the host, or devices.
DECODE, REQUEST = ["--context", "256"], ["--context", "256", "--prompt", "128", "--output", "32"]
CASES = [
    ("dense", llama(12, 4096), [0.6], DECODE, {"host"}),
    ("dense, tied", llama(12, 4096, tied=True), [0.35, 0.4], REQUEST, {"host", "devices"}),
    ("dense, large projections", llama(4, 16384), [0.7], DECODE, {"overrides"}),
    ("experts", qwen3_moe(8, 16, 768), [0.4], DECODE, {"overrides"}),
    ("experts, 8-bit cache", qwen3_moe(8, 16, 768), [0.3, 0.3], [*REQUEST, "--cache", "q8_0"], {"overrides", "devices"}),
    ("windows and experts", gpt_oss(8, 16), [0.3, 0.4], DECODE, {"overrides", "devices"}),
    ("windows", gemma_3(12, 4096), [0.5, 0.6], DECODE, {"devices"}),
    ("prediction", glm_4_5(8, 16), [0.5], DECODE, {"overrides"}),
    ("latents", deepseek_2(8, 16), [0.5], REQUEST, {"overrides"}),
    ("three servers", qwen3_moe(12, 16, 512), [0.25, 0.25, 0.25], REQUEST, {"overrides", "devices"}),
]


class Servers:
    """Three servers of one thread."""

    def __enter__(self):
        self.processes, self.addresses = [], []
        for _ in range(3):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            command = [os.path.join(PROGRAMS, "ggml-rpc-server"), "-H", "127.0.0.1", "-t", "1", "-p", str(port)]
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self.processes.append(subprocess.Popen(command, **quiet))
            self.addresses.append(f"127.0.0.1:{port}")
        for address in self.addresses:
            self.wait(address)
        return self

    def wait(self, address):
        host, port = address.split(":")
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection((host, int(port))).close()
                return
            except OSError:
                assert time.monotonic() < until, f"no server listens at {address}"
                time.sleep(0.05)

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def machine(path, addresses, memories):
    """A file with a machine of servers and 4 GiB of RAM."""
    device = {"class": "rx-7900-xtx", "count": 1, "host": False, "reserve_bytes": 0.0}
    kinds = [
        {"name": f"rpc://{address}", **device, "memory_bytes": float(memory)} for address, memory in zip(addresses, memories)
    ]
    kinds.append({"name": "cpu", "class": "ryzen-7950x", "count": 1, "host": True, "reserve_bytes": 0.0, "memory_bytes": 4.0 * 2**30})
    classes = {
        "rx-7900-xtx": {"peak_flops": 61e12, "memory_bandwidth": 960e9},
        # So slow that small weights there count beside changes of device.
        "ryzen-7950x": {"peak_flops": 2.3e12, "memory_bandwidth": 4e9},
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schema": "stagewright.cluster/1", "classes": classes, "kinds": kinds}, file)


def run(folder, *arguments):
    output = subprocess.run([STAGEWRIGHT, *arguments], cwd=folder, capture_output=True, text=True)
    assert output.returncode == 0, f"{arguments}\n{output.stdout}\n{output.stderr}"
    return output.stdout


def planned(folder, addresses, memories, options):
    """The setting of a plan for the model in a folder."""
    machine(os.path.join(folder, "machine.json"), addresses, memories)
    run(folder, "plan", "model.gguf", "--local", "--cluster", "machine.json", *options, "--out", "plan.json")
    with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
        return json.load(file)["setting"]


def found(setting):
    """What is to be tested of a setting."""
    slots = sum(device["slots"][1] - device["slots"][0] for device in setting["devices"])
    parts = {
        "overrides": bool(re.search("-ot |-ncmoe ", setting["flags"])),
        "host": 0 < slots < setting["blocks"] + 1,
        "devices": len(setting["devices"]) > 1,
    }
    return {name for name, holds in parts.items() if holds}


def measured(folder, line):
    """Tokens a second of every test of a line that runs in a folder."""
    places = {**os.environ, "PATH": PROGRAMS + os.pathsep + os.environ.get("PATH", "")}
    output = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, env=places)
    assert output.returncode == 0, f"{line}\n{output.stdout}\n{output.stderr}"
    rows = re.findall(r"\| *(\S+(?: @ d\d+)?) *\| *([0-9.]+) ± [0-9.]+ *\|$", output.stdout, re.MULTILINE)
    assert rows and all(float(speed) > 0 for _, speed in rows), f"{line}\n{output.stdout}"
    return rows


def check(number, servers, folder):
    """Plans a case and runs its line."""
    name, model, parts, options, expected = CASES[number]
    model.write(os.path.join(folder, "model.gguf"))
    (whole,) = planned(folder, servers.addresses[:1], [8 << 30], options)["devices"]
    kept = whole["weights"] + whole["cache"]
    memories = [MARGIN + whole["compute"] + int(part * kept) for part in parts]
    setting = planned(folder, servers.addresses, memories, options)
    assert expected <= found(setting), f"{name}: {expected} of {setting['flags']}"
    line = run(folder, "export", "plan.json", "--to", "llama-bench").strip()
    rows = measured(folder, line)
    tests = len(re.findall(" -pg | -n [1-9]| -p [1-9]", line))
    assert len(rows) == tests, f"{rows} of {tests} tests\n{line}"
    shown = ", ".join(f"{test} {speed} tokens/s" for test, speed in rows)
    print(f"{name}: {shown}\n  {line}", flush=True)
    return found(setting)


def main():
    counts = dict.fromkeys(("overrides", "host", "devices"), 0)
    with Servers() as servers:
        for number in range(len(CASES)):
            with tempfile.TemporaryDirectory(prefix="stagewright-") as folder:
                for part in check(number, servers, folder):
                    counts[part] += 1
    shown = ", ".join(f"{count} with {part}" for part, count in counts.items())
    print(f"local: llama-bench ran the lines of {len(CASES)} plans: {shown}")


main()
