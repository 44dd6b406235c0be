# Experiments behind figures of the documentation; the Makefile includes this file. Each target says what it measures and how long
# it takes.

.PHONY: bench-python gpu-bundle bench-costs bench-pipelines bench-gdp bench-placeto bench-hsdag bench-policy bench-siblings siblings bench-systems systems bench-systems-large

# Evaluations from Python against the loop over the program, as a table. Ten minutes, most of them the build.
bench-python: wheel
	python3 -m venv target/bench-python
	target/bench-python/bin/pip install --quiet --disable-pip-version-check --force-reinstall $(or $(CARGO_TARGET_DIR),target)/wheels/stagewright-*.whl
	target/bench-python/bin/python research/evaluate.py

# A bundle for a GPU machine without Rust and without a network, target/gpu-bundle.tar.xz, for compute capability 90 or that in
# CUDA_COMPUTE_CAP. See docs/cuda.md.
gpu-bundle: setup
	CARGO="$(CARGO)" research/gpu/make-bundle $(or $(CARGO_TARGET_DIR),target)/gpu-bundle

# Plans made with the roofline and with published measurements, which are installed into target/aiconfigurator.
bench-costs: rust
	python3 -m pip install --quiet --disable-pip-version-check --no-deps --target target/aiconfigurator aiconfigurator-core
	$(CARGO) bench -p stagewright-research --bench costs -- target/aiconfigurator/aiconfigurator_core

# Plans run as pipelines of two processes: predicted and measured throughput. Half an hour, on a machine that does nothing else.
bench-pipelines: rust
	@data/setup/install-onnxruntime
	$(CARGO) build --release --no-default-features --features metis,onnxruntime --bin stagewright
	$(CARGO) bench -p stagewright-research --bench pipelines

# The tables of the field's papers: the same models, on as many devices, by solvers that learn nothing. The papers' own systems
# are in `bench-systems`.
bench-gdp: setup
	$(CARGO) build --release --bin stagewright
	$(call step,gdp-2/rnnlm-2,rnnlm --variant 2 --batch 64 --training)
	$(call step,gdp-2/gnmt-2,gnmt --variant 2 --batch 128 --training)
	$(call step,gdp-2/transformer-xl-2,transformer-xl --variant 2 --batch 16 --training)
	$(call step,gdp-2/inception-v3,inception-v3 --batch 32 --training)
	$(call step,gdp-2/wavenet-2,wavenet --variant 2 --batch 8 --training)
	$(call step,gdp-4/rnnlm-4,rnnlm --variant 4 --batch 64 --training)
	$(call step,gdp-4/gnmt-4,gnmt --variant 4 --batch 128 --training)
	$(call step,gdp-4/transformer-xl-4,transformer-xl --variant 4 --batch 16 --training)
	$(call step,gdp-4/amoebanet,amoebanet-d --batch 32 --training)
	$(call step,gdp-4/wavenet-4,wavenet --variant 4 --batch 8 --training)
	$(call step,gdp-8/rnnlm-8,rnnlm --variant 8 --batch 64 --training)
	$(call step,gdp-8/gnmt-8,gnmt --variant 8 --batch 128 --training)
	$(call step,gdp-8/transformer-xl-8,transformer-xl --variant 8 --batch 16 --training)
	target/release/stagewright bench data/suites/gdp-2.toml
	target/release/stagewright bench data/suites/gdp-4.toml
	target/release/stagewright bench data/suites/gdp-8.toml

bench-placeto: setup
	$(CARGO) build --release --bin stagewright
	$(call step,placeto/inception-v3,inception-v3 --batch 32 --training)
	$(call step,placeto/nasnet,nasnet-a --batch 32 --training)
	$(call step,placeto/nmt,gnmt --variant 2 --batch 64 --training)
	target/release/stagewright bench data/suites/placeto.toml

bench-hsdag: setup
	$(CARGO) build --release --bin stagewright
	$(hsdag_graphs)
	target/release/stagewright bench data/suites/hsdag.toml

define hsdag_graphs
$(call step,hsdag/inception-v3,inception-v3 --batch 1)
$(call step,hsdag/resnet-50,resnet --variant 50 --batch 1)
$(call step,hsdag/bert-base,bert --variant base --batch 1)
endef

# The learned policy on large steps, and on random problems of families that it was not trained on: three hours.
# PROBLEMS=50 LARGE=10 is a part.
PROBLEMS ?= 500
LARGE ?= 40
bench-policy: siblings
	$(call problems,policy-small,held-out-small,$(PROBLEMS))
	$(call problems,policy-large,held-out-large,$(LARGE))
	target/release/stagewright bench data/suites/policy-steps.toml
	target/release/stagewright bench data/suites/policy-small.toml
	target/release/stagewright bench data/suites/policy-throughput.toml
	target/release/stagewright bench data/suites/policy-large.toml

# Searches that start from the plan of a small sibling, the same model with fewer time steps or layers: twenty large training
# steps, whose siblings are planned for 30 s each, and free splits, whose siblings have half the batch. An hour and a half, on two
# cores.
bench-siblings: siblings
	for step in target/workloads/siblings/*.json; do small=target/workloads/siblings/small/$$(basename $$step .json); \
	  target/release/stagewright plan $$small.json --objective makespan --time-limit 30s --threads 2 --out $$small.plan.json || exit; \
	done
	$(foreach cluster,2xa100+2xv100-32gb 4xt4 2xv100+2xp100,$(call halves,bert-base,$(cluster),bert --variant base,16 32))
	$(foreach cluster,2xa100+2xv100-32gb 4xv100-32gb+4xp100,$(call halves,bert-large,$(cluster),bert --variant large,8 16))
	$(foreach cluster,a100-and-v100 2xa100+2xt4,$(call halves,vit-l16,$(cluster),vit --variant l16,32 64))
	$(call halves,vit-b16,2xv100+2xp100,vit --variant b16,64)
	$(call halves,inception-v3,2xv100+2xp100,inception-v3,32 64)
	$(call halves,inception-v3,4xt4,inception-v3,64)
	$(foreach cluster,2xt4+1xepyc-7742 2xv100+2xp100 4xp100,$(call halves,resnet-50,$(cluster),resnet --variant 50,64))
	$(call halves,resnet-101,2xv100+2xp100,resnet --variant 101,64)
	$(call halves,resnet-152,2xv100+2xp100,resnet --variant 152,32)
	$(foreach cluster,4xt4 2xa100+2xv100-32gb,$(call halves,gpt-2-small,$(cluster),gpt --variant 2-small,8))
	$(foreach cluster,4xt4 2xa100+2xv100-32gb,$(call halves,gpt-2-medium,$(cluster),gpt --variant 2-medium,8))
	$(call halves,gnmt-4,4xp100-pcie,gnmt --variant 4,128)
	$(foreach cluster,4xp100-pcie 4xv100-32gb+4xp100,$(call halves,gnmt-8,$(cluster),gnmt --variant 8,128))
	target/release/stagewright bench data/suites/siblings.toml
	target/release/stagewright bench data/suites/siblings-free.toml

# The large training steps and their siblings. GNMT-8 of 70 tokens is by cost rules 1, as in other tables.
siblings: setup
	$(CARGO) build --release --bin stagewright
	$(call sibling,gnmt-8-50,8xv100-32gb:fp32@nvlink,gnmt --variant 8 --batch 128,--sequence 50,--sequence 10)
	$(call sibling,gnmt-8-70,8xv100-32gb:fp32@nvlink,gnmt --variant 8 --batch 128 --cost-rules 1,--sequence 70,--sequence 10)
	$(call sibling,gnmt-8-110,8xv100-32gb:fp32@nvlink,gnmt --variant 8 --batch 128,--sequence 110,--sequence 10)
	$(call sibling,gnmt-8-70-4,4xp100:fp32@nvlink,gnmt --variant 8 --batch 128,--sequence 70,--sequence 10)
	$(call sibling,gnmt-8-60-64,8xv100-32gb:fp32@nvlink,gnmt --variant 8,--batch 64 --sequence 60,--batch 128 --sequence 10)
	$(call sibling,gnmt-4-60,4xv100-32gb:fp32@nvlink,gnmt --variant 4 --batch 128,--sequence 60,--sequence 10)
	$(call sibling,gnmt-4-100,4xv100-32gb:fp32@nvlink,gnmt --variant 4 --batch 128,--sequence 100,--sequence 10)
	$(call sibling,gnmt-4-80-8,8xp100:fp32@nvlink,gnmt --variant 4 --batch 128,--sequence 80,--sequence 10)
	$(call sibling,gnmt-2-110,2xv100-32gb:fp32@nvlink,gnmt --variant 2 --batch 128,--sequence 110,--sequence 15)
	$(call sibling,gnmt-2-150,4xv100-32gb:fp32@nvlink,gnmt --variant 2 --batch 128,--sequence 150,--sequence 15)
	$(call sibling,rnnlm-2-305,2xp100:fp32@nvlink,rnnlm --variant 2 --batch 64,--sequence 305,--sequence 30)
	$(call sibling,rnnlm-4-200,4xp100:fp32@nvlink,rnnlm --variant 4 --batch 64,--sequence 200,--sequence 20)
	$(call sibling,rnnlm-8-100,8xv100-32gb:fp32@nvlink,rnnlm --variant 8 --batch 64,--sequence 100,--sequence 10)
	$(call sibling,rnnlm-8-150,4xv100-32gb:fp32@nvlink,rnnlm --variant 8 --batch 64,--sequence 150,--sequence 15)
	$(call sibling,rnnlm-4-155-8,8xp100:fp32@nvlink,rnnlm --variant 4 --batch 128,--sequence 155,--sequence 15)
	$(call sibling,wavenet-100,4xv100-32gb:fp32@nvlink,wavenet --batch 8,--layers 100,--layers 10)
	$(call sibling,wavenet-200,8xv100-32gb:fp32@nvlink,wavenet --batch 8,--layers 200,--layers 20)
	$(call sibling,nasnet-60,8xv100-32gb:fp32@nvlink,nasnet-a --batch 32,--layers 60,--layers 12)
	$(call sibling,amoebanet-150,8xv100-32gb:fp32@nvlink,amoebanet-d --batch 16,--layers 150,--layers 18)
	$(call sibling,bert-500,8xa100,bert --variant large --batch 4,--layers 500,--layers 24)

# A training step with its cluster, and a sibling: $(call sibling,NAME,CLUSTER,WORKLOAD,SIZES,SIBLING'S SIZES).
define sibling
@mkdir -p target/workloads/siblings/small
target/release/stagewright workload $(3) $(4) --training | \
	target/release/stagewright convert - target/workloads/siblings/$(1).json --cluster $(2)
target/release/stagewright workload $(3) $(5) --training | \
	target/release/stagewright convert - target/workloads/siblings/small/$(1).json --cluster $(2)

endef

# Training steps by layers at every batch of a list, with the plan for half the batch:
# $(call halves,NAME,CLUSTER,WORKLOAD,BATCHES).
halves = $(foreach batch,$(4),$(call half,$(1)-$(batch)-$(2),$(2),$(3),$(batch)))

define half
@mkdir -p target/workloads/siblings-free/small
target/release/stagewright workload $(3) --batch $(4) --training --precision fp16 --granularity layer | \
	target/release/stagewright convert - target/workloads/siblings-free/$(1).json --cluster $(2)
target/release/stagewright workload $(3) --batch $$(($(4) / 2)) --training --precision fp16 --granularity layer | \
	target/release/stagewright convert - target/workloads/siblings-free/small/$(1).json --cluster $(2)
target/release/stagewright plan target/workloads/siblings-free/small/$(1).json --split free --solver bnp --time-limit 30s \
	--threads 2 --out target/workloads/siblings-free/small/$(1).plan.json

endef

# Random problems in a folder of their own: $(call problems,NAME,RECIPE,COUNT).
define problems
rm -rf target/workloads/$(1)
target/release/stagewright workload --recipe data/policy/$(2).toml --count $(3) --out target/workloads/$(1)
endef

# The field's learned systems on five small models and on HELD_OUT problems of held-out families: a night, or half as long with
# JOBS=2 on two cores. Resumes an interrupted run of the same program; times are comparable only at the same JOBS.
HELD_OUT ?= 24
JOBS ?= 1
BENCH_SYSTEMS := target/release/stagewright bench --jobs $(JOBS) --journal target/systems.journal
bench-systems: systems
	$(call step,systems-small/inception-v3,inception-v3 --batch 32 --training)
	$(call step,systems-small/resnet-50,resnet --variant 50 --batch 32 --training)
	$(call step,systems-small/bert-base,bert --variant base --batch 16 --training)
	$(call step,systems-small/transformer-xl-2,transformer-xl --variant 2 --batch 16 --training)
	$(call step,systems-small/wavenet-2,wavenet --variant 2 --batch 8 --training)
	$(call problems,systems-held-out,held-out-systems,$(HELD_OUT))
	$(hsdag_graphs)
	$(BENCH_SYSTEMS) data/suites/systems-small.toml
	$(BENCH_SYSTEMS) data/suites/systems-calls.toml
	$(BENCH_SYSTEMS) data/suites/systems-held-out.toml
	$(BENCH_SYSTEMS) data/suites/systems-hsdag.toml

# The systems trained on many graphs. Resumes an interrupted run.
systems: setup
	$(CARGO) build --release --bin stagewright
	$(foreach system,gdp placeto hsdag hdp,$(call trained,$(system)))

define trained
target/release/stagewright train data/policy/systems/$(1).toml --out target/policy/systems/$(1)

endef

# The larger models of the papers, ten minutes a solver, and at equal simulations: some 14 hours, half of it with JOBS=2 (see
# `bench-systems`).
bench-systems-large: setup
	$(CARGO) build --release --bin stagewright
	$(call step,systems-2/rnnlm-2,rnnlm --variant 2 --batch 64 --training)
	$(call step,systems-2/gnmt-2,gnmt --variant 2 --batch 128 --training)
	$(call step,systems-2/nasnet,nasnet-a --batch 32 --training)
	$(call step,systems-4/rnnlm-4,rnnlm --variant 4 --batch 64 --training)
	$(call step,systems-4/gnmt-4,gnmt --variant 4 --batch 128 --training)
	$(call step,systems-4/transformer-xl-4,transformer-xl --variant 4 --batch 16 --training)
	$(call step,systems-4/amoebanet,amoebanet-d --batch 32 --training)
	$(call step,systems-4/wavenet-4,wavenet --variant 4 --batch 8 --training)
	$(call step,systems-8/rnnlm-8,rnnlm --variant 8 --batch 64 --training)
	$(call step,systems-8/gnmt-8,gnmt --variant 8 --batch 128 --training)
	$(call step,systems-8/transformer-xl-8,transformer-xl --variant 8 --batch 16 --training)
	$(BENCH_SYSTEMS) data/suites/systems-2.toml
	$(BENCH_SYSTEMS) data/suites/systems-4.toml
	$(BENCH_SYSTEMS) data/suites/systems-8.toml
	$(BENCH_SYSTEMS) data/suites/systems-calls-2.toml
	$(BENCH_SYSTEMS) data/suites/systems-calls-4.toml
	$(BENCH_SYSTEMS) data/suites/systems-calls-8.toml
