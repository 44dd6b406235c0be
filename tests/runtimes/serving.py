"""Exports of serving plans, read by the parsers of the engines that they start.

Scripts run unchanged, with programs that record their words and variables instead of starting anything. The parsers of
vLLM, SGLang and their routers then read each command. Manifests are read as YAML.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import tempfile

# A program that appends what it is given to a file, a line of JSON each.
RECORDER = """#!/usr/bin/env python3
import json, os, sys
kept = {name: value for name, value in os.environ.items() if name.startswith(("CUDA_", "VLLM_", "SGLANG_"))}
with open(os.environ["RECORD"], "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], kept]) + "\\n")
"""
PROGRAMS = ("vllm", "vllm-router", "python3", "trtllm-serve")


def stage(kind, tensor, data, experts, first, layers):
    return {"kind": kind, "tensor": tensor, "data": data, "experts": experts, "first": first, "layers": layers}


def replica(role, count, stages):
    return {
        "role": role, "class": 0, "count": count, "stages": stages, "batch": 0 if role == "prefill" else 64,
        "requests_per_s": 2.0, "ttft_s": None, "tpot_s": None, "utilisation": None, "cache_tokens": 100000,
    }  # fmt: skip


def plan(engine):
    """A plan with prefill, decode, ranks of attention with experts, and a pipeline over two kinds of servers."""
    link = {"latency_s": 1e-6, "bandwidth": 5e10}
    kinds = [
        {"name": name, "class": name, "count": count, "server": {"devices": size, "link": link}}
        for name, count, size in [("large", 24, 8), ("small", 8, 4)]
    ]
    replicas = [
        replica("prefill", 2, [stage("small", 2, 1, 1, 0, 32)]),
        replica("decode", 1, [stage("large", 4, 1, 1, 0, 32)]),
        replica("aggregated", 1, [stage("large", 2, 4, 8, 0, 32)]),
        replica("aggregated", 1, [stage("large", 4, 1, 1, 0, 20), stage("small", 4, 1, 1, 20, 12)]),
    ]
    if engine == "tensorrt-llm":
        # Ranks of attention have one device, and a copy stays in a server.
        replicas[2:] = [replica("aggregated", 1, [stage("large", 1, 8, 4, 0, 32)])]
    question = {
        "engine": engine, "classes": [{"input": 4096, "output": 512, "shared_prefix": 64, "share": 1.0}],
        "goal": "throughput", "modes": ["aggregated", "disaggregated"], "max_stages": 2, "cache": "fp8",
    }  # fmt: skip
    return {
        "schema": "stagewright.serving-plan/1", "status": "feasible", "solver": "hand", "model": "org/it's a model",
        "cluster": {"schema": "stagewright.cluster/1", "classes": {}, "kinds": kinds}, "question": question,
        "value": 6.0, "bound": {"value": None, "source": "none", "certificate": None}, "gap": None,
        "requests_per_s": 6.0, "tokens_per_s": 3072.0, "devices": 24, "seconds": 0.0, "replicas": replicas,
    }  # fmt: skip


def recorded(script):
    """The programs that a script starts on all servers and for its routers, each with words and variables."""
    with tempfile.TemporaryDirectory(prefix="stagewright-") as folder:
        for program in PROGRAMS:
            path = os.path.join(folder, program)
            with open(path, "w", encoding="utf-8") as file:
                # The programs have another interpreter than the one that they stand for.
                file.write(RECORDER.replace("/usr/bin/env python3", os.path.realpath("/proc/self/exe")))
            os.chmod(path, 0o755)
        servers = sum(line.startswith("SERVER_") for line in script.splitlines())
        addresses = {f"SERVER_{number}": f"10.0.0.{number}" for number in range(servers)}
        record = os.path.join(folder, "record")
        environment = {"PATH": f"{folder}:/usr/bin:/bin", "RECORD": record, **addresses}
        for argument in [*map(str, range(servers)), "router"]:
            subprocess.run(["sh", "-c", script, "sh", argument], check=True, env=environment, cwd=folder)
        with open(record, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def check_layers(variables, name, indices, stages):
    """The engine's function gives every rank the layers that a variable has."""
    if name in variables:
        os.environ[name] = variables[name]
        found = [indices(32, rank, stages) for rank in range(stages)]
        del os.environ[name]
        assert found == [(0, 20), (20, 32)], found
        return 1
    return 0


def check_vllm(script):
    from vllm.distributed.utils import get_pp_indices
    from vllm.platforms import current_platform

    # Options have defaults by device, and this machine need not have one.
    current_platform.device_type = current_platform.device_type or "cpu"
    from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm_router.router_args import RouterArgs

    servers, routers, pipelines = 0, 0, 0
    for program, words, variables in recorded(script):
        if program == "vllm":
            assert words.pop(0) == "serve"
            found = make_arg_parser(FlexibleArgumentParser()).parse_args(words)
            assert found.model_tag == "org/it's a model" and found.kv_cache_dtype == "fp8", found
            assert found.tensor_parallel_size * (found.data_parallel_size or 1) <= 8, found
            assert found.enable_expert_parallel == (found.data_parallel_size == 4), found
            devices = len(variables["CUDA_VISIBLE_DEVICES"].split(","))
            ranks = found.tensor_parallel_size * found.pipeline_parallel_size * (found.data_parallel_size or 1)
            assert devices * found.nnodes == ranks, (found, variables)
            pipelines += check_layers(variables, "VLLM_PP_LAYER_PARTITION", get_pp_indices, found.pipeline_parallel_size)
            servers += 1
        else:
            check_router(RouterArgs, words, "vllm_pd_disaggregation")
            routers += 1
    assert (servers, routers, pipelines) == (6, 2, 2), (servers, routers, pipelines)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("vllm", "vllm-router")]
    print(f"{', '.join(versions)}: {servers} commands and {routers} routers of a serving plan are parsed")


def check_sglang(script):
    from sglang.srt.distributed.utils import get_pp_indices
    from sglang.srt.server_args import ServerArgs
    from sglang_router.router_args import RouterArgs

    servers, routers, pipelines = 0, 0, 0
    for program, words, variables in recorded(script):
        assert (program, words.pop(0)) == ("python3", "-m")
        if words.pop(0) == "sglang.launch_server":
            parser = argparse.ArgumentParser()
            ServerArgs.add_cli_args(parser)
            found = parser.parse_args(words)
            assert found.model_path == "org/it's a model" and found.kv_cache_dtype == "fp8_e4m3", found
            devices = len(variables["CUDA_VISIBLE_DEVICES"].split(","))
            assert devices * found.nnodes == found.tp_size * found.pp_size, (found, variables)
            assert found.tp_size % found.attn_dp_size == 0 and found.tp_size % found.ep_size == 0, found
            pipelines += check_layers(variables, "SGLANG_PP_LAYER_PARTITION", get_pp_indices, found.pp_size)
            servers += 1
        else:
            check_router(RouterArgs, words, "pd_disaggregation")
            routers += 1
    assert (servers, routers, pipelines) == (6, 2, 2), (servers, routers, pipelines)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("sglang", "sglang-router")]
    print(f"{', '.join(versions)}: {servers} commands and {routers} routers of a serving plan are parsed")


def check_router(arguments, words, disaggregated):
    """A router is given prefill and decode, or aggregated copies."""
    parser = argparse.ArgumentParser()
    arguments.add_cli_args(parser, use_router_prefix=False)
    found = arguments.from_cli_args(parser.parse_args(words), use_router_prefix=False)
    if getattr(found, disaggregated):
        assert (len(found.prefill_urls), len(found.decode_urls)) == (2, 1), found
    else:
        assert len(found.worker_urls) == 2, found


def check_tensorrt_llm(script):
    """Every server has a file of settings; the engine's own parser needs a GPU."""
    commands = [words for program, words, _ in recorded(script) if program == "trtllm-serve"]
    assert [words[0] for words in commands].count("disaggregated") == 1 and len(commands) == 5, commands


def check_manifests(text, kinds):
    import yaml

    found = [document["kind"] for document in yaml.safe_load_all(text)]
    assert found == kinds, found
