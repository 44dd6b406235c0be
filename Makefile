# The two main targets are `make demo` and `make test`.

CARGO ?= cargo
SHARED := $(wildcard ../shared)
ifneq ($(SHARED),)
export STAGEWRIGHT_SHARED ?= $(abspath $(SHARED))
endif

.PHONY: rust setup demo test wheel build-cuda test-runtimes screenshot lint fmt doc site bench-published-makespan bench-iopddl bench-joint bench-limits judge-local judge-joint judge-serving judge-candidates judge-costs exam-costs learned-costs growth-serving bench-scale reproduce policy systems

rust:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
	  echo "cargo is missing. Install Rust (no root needed) and open a new shell:"; \
	  echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"; \
	  exit 1; }

# Also installs what HiGHS is built with: CMake, a C++ compiler, and libclang for its bindings.
setup: rust
	@data/setup/install-build-tools

# Builds without HiGHS and candle, which this plan does not need, and mostly unoptimised.
demo: rust
	$(CARGO) build --profile demo --no-default-features --bin stagewright
	$(CARGO) run --quiet --profile demo --no-default-features --bin stagewright -- plan data/configurations/llama-3.1-8b/config.json --cluster 2xrtx-4090+2xrtx-3090 --whole-layers

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

# Builds the tests and benches that use a GPU; the machine that builds them needs none. If no CUDA toolkit is installed,
# one is put into target/cuda. See docs/cuda.md.
build-cuda: setup
	@command -v nvcc >/dev/null || { variables=$$(data/setup/install-cuda-toolkit) && eval "$$variables"; } && \
	  $(CARGO) test --no-run --package stagewright-policy --features cuda --all-targets

# Loads exports into the runtimes that they are written for. Needs Python 3.10 or later and a network. docs/runtimes.md
# lists the runtimes that can be added with RUNTIMES="…", several gigabytes, and those that ALONE="…" adds without their
# dependencies.
RUNTIMES ?= onnx onnxruntime openvino
ALONE ?=
test-runtimes: setup
	$(CARGO) build --bin stagewright
	python3 -m venv target/runtimes
	target/runtimes/bin/pip install --quiet --disable-pip-version-check numpy $(RUNTIMES)
	$(if $(ALONE),target/runtimes/bin/pip install --quiet --disable-pip-version-check --no-deps $(ALONE))
	target/runtimes/bin/python tests/runtimes/check.py target/debug/stagewright
	@data/setup/install-llama-cpp
	folder="$${STAGEWRIGHT_LLAMA_CPP:-$(CURDIR)/target/llama.cpp}"; [ -x "$$folder/llama-fit-params" ] || exit 0; \
	  STAGEWRIGHT_LLAMA_CPP="$$folder" $(CARGO) test --package stagewright-llamacpp --package stagewright-local \
	    --test integration oracle && \
	  target/runtimes/bin/python tests/runtimes/local.py target/debug/stagewright "$$folder"
	EXTRAS="torch ray tensorboard" bindings/python/run-tests

# Takes the screenshot of a report in the README.
screenshot: setup
	@data/setup/install-browser
	$(CARGO) test --workspace --test integration -- --ignored screenshot

# Judges the speed that is predicted for llama.cpp by published measurements: RUNS is a file with the columns of measured.csv.
# OPTIONS=--leave-one-out fits the constants again without each source in turn. A minute, most of it for the build.
RUNS ?= $(SHARED)/data/local-runs/measured.csv
judge-local: rust
	$(CARGO) run --quiet -p stagewright-llamacpp --example judge -- $(OPTIONS) $(RUNS)

# Judges the time and memory that joint plans predict by published training runs: RUNS is a folder with the files of
# published-runs. OPTIONS=--rows prints every run, --fit fits the constants, --leave-one-out fits them without each source in turn,
# and --ablation without each term of the model.
judge-joint: RUNS = $(SHARED)/data/published-runs
judge-joint: rust
	$(CARGO) run --quiet -p stagewright-joint --example published -- $(OPTIONS) $(RUNS)

# Judges the times that are predicted for served language models by published measurements: RUNS is a file with the columns of
# silicon.csv. OPTIONS=--summary leaves out the lines of rows, --fit fits the constants of data/engines.toml, --leave-one-out fits
# them without each model in turn, and --calibration prints factors for models, systems and engines.
judge-serving: RUNS = $(SHARED)/data/serving-runs/silicon.csv
judge-serving: rust
	$(CARGO) run --quiet -p stagewright-serving --example judge -- $(OPTIONS) $(RUNS)

# Solves exactly over the workers that aiconfigurator lists, and compares with what it chooses from them. Installs aiconfigurator,
# 0.9 GB with its tables, into target/peer, and lists workers once: 16 cases, five minutes.
judge-candidates: setup target/candidates.json
	$(CARGO) bench --profile dev --no-default-features --features milp --bench candidates -- target/candidates.json

target/candidates.json: benches/candidates/list.py
	python3 -m venv target/peer
	target/peer/bin/pip install --quiet --disable-pip-version-check aiconfigurator==0.12.0
	target/peer/bin/python $< $@.part
	mv $@.part $@

# Judges the seconds of kernels that networks predict, on measurements that they did not see: networks are trained without a
# class, without a family and without a fifth of the tables of aiconfigurator-core, and on the `train` rows of DATA, a CSV file in
# the columns of NeuSight's. MODELS, a file of whole models, is judged beside it. Ten minutes on two cores.
DATA ?= $(SHARED)/data/kernels/neusight.csv.gz
MODELS ?= $(wildcard $(dir $(DATA))neusight-models.csv)
TABLES = target/aiconfigurator/aiconfigurator_core
KERNELS = RAYON_NUM_THREADS=1 $(CARGO) run --quiet -p stagewright-train --features policy --example kernels --
judge-costs: setup
	@$(MAKE) --no-print-directory $(TABLES) || echo "the tables cannot be had: $(DATA) alone is judged"
	$(KERNELS) judge $$([ -d $(TABLES) ] && echo --tables $(TABLES)) --checkpoint data/kernels/checkpoint.safetensors --kernels $(DATA) $(if $(MODELS),--models $(MODELS))

# The tables of TensorRT-LLM, from which nothing learns: read once, when everything else is done.
exam-costs: setup $(TABLES)
	$(KERNELS) exam --tables $(TABLES) --checkpoint data/kernels/checkpoint.safetensors

# Trains the networks of data/kernels again, in target/learned-costs, where a run that was stopped goes on. Four minutes on two cores.
# OUT and KEEP are another file and folder, and OPTIONS="--without a100-80gb,h100" leaves devices out.
OUT ?= data/kernels/checkpoint.safetensors
KEEP ?= target/learned-costs
learned-costs: setup $(TABLES)
	$(KERNELS) train --tables $(TABLES) --kernels $(DATA) --keep $(KEEP) --out $(OUT) $(OPTIONS)

# The measured tables of aiconfigurator-core (NVIDIA, Apache-2.0), 0.1 GB, from PyPI.
$(TABLES):
	python3 -m pip install --quiet --disable-pip-version-check --no-deps --target target/aiconfigurator aiconfigurator-core==0.12.0

lint: setup
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: setup
	$(CARGO) fmt --all

doc: setup
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

# The documentation site in target/site, with every link checked.
site: doc
	$(CARGO) run -p stagewright-site -- target/site

# Suites of data/suites by their targets: the free splits and the latency of the published instances; free splits of built-in
# workloads; training graphs of about 1, 10, 50 and 80 thousand operators; training steps under dataflow execution; the tables of
# the field's papers by solvers that learn nothing; searches from the plan of a small sibling, an hour and a half; steps of 100,000 to
# a million operators, half an hour; and the learned policy, three hours. OPTIONS="--jobs 2" are options of `stagewright bench`.
bench: SUITES := reference-throughput
bench-free: SUITES := reference-free
bench-latency: SUITES := reference-latency
bench-own-free: SUITES := own-free
bench-large: SUITES := large-graphs
bench-makespan: SUITES := makespan
bench-gdp: SUITES := gdp-2 gdp-4 gdp-8
bench-placeto: SUITES := placeto
bench-hsdag: SUITES := hsdag
bench-siblings: SUITES := siblings siblings-free
bench-huge: SUITES := huge
bench-huge: target/scale/deepseek-experts.msgpack
bench-policy: SUITES := policy-steps policy-small policy-throughput policy-large

# The field's learned systems on small models and on held-out families: a night, or half as long with JOBS=2 on two cores. The
# larger models of the papers, ten minutes a solver, and at equal simulations: some 14 hours, half of it with JOBS=2. Both resume
# an interrupted run of the same program; times are comparable only at the same JOBS.
JOBS ?= 1
bench-systems bench-systems-large: OPTIONS := --jobs $(JOBS) --journal target/systems.journal
bench-systems: systems
bench-systems: SUITES := systems-small systems-calls systems-held-out systems-hsdag
bench-systems-large: SUITES := systems-2 systems-4 systems-8 systems-calls-2 systems-calls-4 systems-calls-8

OPTIONS ?=
SUITE_TARGETS := bench bench-free bench-latency bench-own-free bench-large bench-makespan bench-gdp bench-placeto bench-hsdag \
  bench-siblings bench-huge bench-policy bench-systems bench-systems-large
.PHONY: $(SUITE_TARGETS)
$(SUITE_TARGETS): setup
	$(CARGO) build --release --bin stagewright
	for suite in $(SUITES); do target/release/stagewright bench $(OPTIONS) data/suites/$$suite.toml || exit; done

# A training step like DeepSeek-V3's with an operator for each of 256 experts a layer, 272,185 operators.
target/scale/deepseek-experts.msgpack: setup
	mkdir -p $(@D)
	$(CARGO) build --release --bin stagewright
	target/release/stagewright convert data/configurations/deepseek-v3 $@ --to packed --cluster 64xa100 --expert-group 1 --phase training --batch 4 \
	  --sequence 512 --set hidden=1024 --set expert_ffn=256 --set ffn=2048

# Reading, planning and memory of steps of 10,000 to 1,000,000 operators: four minutes after the build. Writes target/scale.csv
# and .svg.
bench-scale: setup
	$(CARGO) bench --no-default-features --bench scale

# Instances of the contest on intra-operator parallelism: up to five minutes each, without HiGHS and candle.
bench-iopddl: rust
	$(CARGO) build --release --no-default-features --bin stagewright
	target/release/stagewright bench data/suites/iopddl.toml

# Joint plans: large models on up to 4,096 devices, published runs of Megatron-LM, Piper's program, and growth. A minute,
# without HiGHS and candle.
bench-joint: rust
	$(CARGO) bench --no-default-features --bench joint

# Serving plans on up to 4,095 devices of three kinds, each planned three times and checked: two minutes after the
# build. Writes target/serving-growth.csv and .svg.
growth-serving: setup
	$(CARGO) bench --profile dev --no-default-features --features milp --bench growth

# A hundred random time limits over large graphs and every objective, with the overrun of each: ten minutes, without candle.
bench-limits: rust
	$(CARGO) bench --no-default-features --features milp --bench limits

# Makes the main tables of the pages in docs again, within ten minutes at a reduced budget and with the profile of the
# tests, and compares them with the shipped figures.
reproduce: setup
	$(CARGO) bench --profile dev --bench reproduce

# Task graphs of the scheduling literature, next to their published or known makespans, without HiGHS and candle. Files of
# Davidović and Crainic are solved as well if TASK_GRAPHS names them.
TASK_GRAPHS ?=
bench-published-makespan: rust
	$(CARGO) bench --no-default-features --bench published_makespan -- $(TASK_GRAPHS)

# Trains the checkpoint in data/policy again: see data/policy/README.md. Resumes an interrupted run.
policy: setup
	$(CARGO) build --release --bin stagewright
	target/release/stagewright train data/policy/imitation.toml --out target/policy/imitation
	cp target/policy/imitation/best.safetensors data/policy/checkpoint.safetensors
	cp target/policy/imitation/metrics.csv data/policy/imitation.csv

# Trains the learned systems on many graphs. Resumes an interrupted run.
systems: setup
	$(CARGO) build --release --bin stagewright
	$(foreach system,gdp placeto hsdag hdp,$(call trained,$(system)))

define trained
target/release/stagewright train data/policy/systems/$(1).toml --out target/policy/systems/$(1)

endef

# Experiments behind figures of the documentation.
include research/research.mk
