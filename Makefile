# The two that matter: `make demo` and `make test`.

CARGO ?= cargo
SHARED := $(wildcard ../shared)
ifneq ($(SHARED),)
export STAGEWRIGHT_SHARED ?= $(abspath $(SHARED))
endif

.PHONY: rust setup demo test wheel build-cuda test-runtimes screenshot lint fmt doc site bench bench-large bench-free bench-latency bench-own-free bench-makespan bench-published-makespan bench-iopddl bench-joint bench-limits reproduce policy

rust:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
	  echo "cargo is missing. Install Rust (no root needed) and open a new shell:"; \
	  echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"; \
	  exit 1; }

# What HiGHS is built with as well: CMake, a C++ compiler, and libclang for its bindings.
setup: rust
	@data/setup/install-build-tools

# Without HiGHS and candle, which this plan does not need, and mostly unoptimised.
demo: rust
	$(CARGO) build --profile demo --no-default-features --bin stagewright
	$(CARGO) run --quiet --profile demo --no-default-features --bin stagewright -- plan data/models/llama-3.2-1b-step.json.gz --cluster 2xrtx-4090+2xrtx-3090 --whole-layers

test: setup
	@data/setup/install-browser
	@data/setup/install-onnxruntime
	@[ -n "$$STAGEWRIGHT_SHARED" ] || echo "STAGEWRIGHT_SHARED is not set: tests on reference inputs are skipped"
	@CARGO="$(CARGO)" .ci/test

# The Python package as a wheel in target/wheels: the extension, and the program for the command line.
wheel: setup
	python3 -m venv target/maturin
	target/maturin/bin/pip install --quiet --disable-pip-version-check 'maturin>=1.16,<2'
	bindings/python/make-wheel $(CURDIR)/target/maturin/bin/python release

# The tests and benches that use a GPU, on a machine that needs none: where no CUDA toolkit is installed, one is put into
# target/cuda. See docs/cuda.md.
build-cuda: setup
	@command -v nvcc >/dev/null || { variables=$$(data/setup/install-cuda-toolkit) && eval "$$variables"; } && \
	  $(CARGO) test --no-run --package stagewright-policy --features cuda --all-targets

# Loads exports into the runtimes that they are for. Needs Python 3.10 or later and a network; docs/runtimes.md has all of
# the runtimes that can be added with RUNTIMES="…", several gigabytes, and with ALONE="…", without what these depend on.
RUNTIMES ?= onnx onnxruntime openvino
ALONE ?=
test-runtimes: setup
	$(CARGO) build --bin stagewright
	python3 -m venv target/runtimes
	target/runtimes/bin/pip install --quiet --disable-pip-version-check numpy $(RUNTIMES)
	$(if $(ALONE),target/runtimes/bin/pip install --quiet --disable-pip-version-check --no-deps $(ALONE))
	target/runtimes/bin/python tests/runtimes/check.py target/debug/stagewright
	EXTRAS="torch ray tensorboard" bindings/python/run-tests

# The picture of a report in the README.
screenshot: setup
	@data/setup/install-browser
	$(CARGO) test --workspace --test integration -- --ignored screenshot

lint: setup
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: setup
	$(CARGO) fmt --all

doc: setup
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

# The documentation site in target/site, with every link checked.
site: doc
	$(CARGO) run -p stagewright-site -- target/site

bench: setup
	$(CARGO) build --release --bin stagewright
	target/release/stagewright bench data/suites/reference-throughput.toml

# Free splits of the published instances.
bench-free: setup
	$(CARGO) build --release --bin stagewright
	target/release/stagewright bench data/suites/reference-free.toml

# Latency of the published instances.
bench-latency: setup
	$(CARGO) build --release --bin stagewright
	target/release/stagewright bench data/suites/reference-latency.toml

# Free splits of built-in workloads at layer granularity.
bench-own-free: setup
	$(CARGO) build --release --bin stagewright
	mkdir -p target/workloads/free
	$(call on_cluster,bert-large,2xa100+2xv100-32gb,bert --variant large --training --batch 16 --precision fp16)
	$(call on_cluster,vit-l16,a100-and-v100,vit --variant l16 --training --batch 64 --precision fp16)
	$(call on_cluster,inception-v3,2xv100+2xp100,inception-v3 --training --batch 64 --precision fp16)
	$(call on_cluster,gpt-2-xl,4xt4,gpt --variant 2-xl --training --batch 7 --precision fp16)
	$(call on_cluster,mixtral-8x7b,4xrtx-4090,mixtral --variant 8x7b --precision bf16)
	$(call on_cluster,resnet-50,2xt4+1xepyc-7742+1xxeon-8480,resnet --variant 50 --batch 32 --precision fp16)
	$(call on_cluster,gnmt-8,4xp100-pcie:fp32+2xepyc-7742,gnmt --variant 8 --training --batch 64)
	$(call on_cluster,dlrm,4xv100-32gb:fp32+2xepyc-7742,dlrm --variant terabyte --training --batch 2048)
	$(call on_cluster,bert-large-pretraining,two-v100-servers-10gbe,bert --variant large-pretraining --training --batch 8 --precision fp16)
	target/release/stagewright bench data/suites/own-free.toml

# A workload by layers, with its cluster: $(call on_cluster,NAME,CLUSTER,WORKLOAD).
define on_cluster
target/release/stagewright workload $(3) --cost-rules 1 --granularity layer | \
	target/release/stagewright convert - target/workloads/free/$(1).json --cluster $(2)
endef

# Training graphs of about 1, 10, 50 and 80 thousand operators.
bench-large: setup
	$(CARGO) build --release --bin stagewright
	mkdir -p target/workloads
	target/release/stagewright workload resnet --variant 152 --batch 32 --training --cost-rules 1 --out target/workloads/resnet-152.json
	target/release/stagewright workload gnmt --variant 2 --batch 128 --sequence 40 --training --cost-rules 1 --out target/workloads/gnmt-2-40.json
	target/release/stagewright workload gnmt --variant 8 --batch 128 --sequence 75 --training --cost-rules 1 --out target/workloads/gnmt-8-75.json
	target/release/stagewright workload gnmt --variant 8 --batch 128 --sequence 110 --training --cost-rules 1 --out target/workloads/gnmt-8-110.json
	target/release/stagewright bench data/suites/large-graphs.toml

# Training steps of the models that learned placement is measured on, under dataflow execution.
bench-makespan: setup
	$(CARGO) build --release --bin stagewright
	$(call step,makespan/inception-v3,inception-v3 --batch 32 --training,2)
	$(call step,makespan/nasnet,nasnet-a --batch 32 --training,2)
	$(call step,makespan/amoebanet,amoebanet-d --batch 32 --training,2)
	$(call step,makespan/rnnlm-2,rnnlm --batch 64 --training,2)
	$(call step,makespan/gnmt-2,gnmt --variant 2 --batch 128 --training,2)
	$(call step,makespan/transformer-xl,transformer-xl --batch 16 --training,2)
	$(call step,makespan/wavenet,wavenet --batch 8 --training,2)
	$(call step,makespan/bert-base,bert --variant base --batch 16 --training,2)
	$(call step,makespan/mixtral,mixtral --batch 1 --layers 2 --training,2)
	target/release/stagewright bench data/suites/makespan.toml

# Instances of the contest on intra-operator parallelism: up to five minutes each, without HiGHS and candle.
bench-iopddl: rust
	$(CARGO) build --release --no-default-features --bin stagewright
	target/release/stagewright bench data/suites/iopddl.toml

# Joint plans: large models on up to 4,096 devices, published runs of Megatron-LM, Piper's program, and growth. A minute,
# without HiGHS and candle.
bench-joint: rust
	$(CARGO) bench --no-default-features --bench joint

# A hundred random time limits over large graphs and every objective, with the overrun of each: ten minutes, without candle.
bench-limits: rust
	$(CARGO) bench --no-default-features --features milp --bench limits

# The main tables of the pages in docs, made again within ten minutes at a reduced budget and compared with the shipped figures,
# with the profile of the tests.
reproduce: setup
	$(CARGO) bench --profile dev --bench reproduce

# Task graphs of the scheduling literature, next to their published or known makespans, without HiGHS and candle. Files of
# Davidović and Crainic are solved as well if TASK_GRAPHS names them.
TASK_GRAPHS ?=
bench-published-makespan: rust
	$(CARGO) bench --no-default-features --bench published_makespan -- $(TASK_GRAPHS)

# A workload in a file of its own, by cost rules 1 unless given: $(call step,NAME,WORKLOAD,RULES).
define step
@mkdir -p target/workloads/$(dir $(1))
target/release/stagewright workload $(2) --cost-rules $(or $(3),1) --out target/workloads/$(1).json
endef

# The checkpoint in data/policy anew: see data/policy/README.md. Resumes an interrupted run.
policy: setup
	$(CARGO) build --release --bin stagewright
	target/release/stagewright train data/policy/imitation.toml --out target/policy/imitation
	cp target/policy/imitation/best.safetensors data/policy/checkpoint.safetensors
	cp target/policy/imitation/metrics.csv data/policy/imitation.csv

# Experiments behind figures of the documentation.
include research/research.mk
