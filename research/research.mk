# Experiments behind figures in the documentation; the Makefile includes this file. The comment of each target says what it
# measures and how long that takes.

.PHONY: bench-python gpu-bundle bench-costs bench-pipelines

# Compares evaluations from Python with a loop over the program, as a table. Ten minutes, most of it for the build.
bench-python: wheel
	python3 -m venv target/bench-python
	target/bench-python/bin/pip install --quiet --disable-pip-version-check --force-reinstall $(or $(CARGO_TARGET_DIR),target)/wheels/stagewright-*.whl
	target/bench-python/bin/python research/evaluate.py

# Builds target/gpu-bundle.tar.xz, a bundle for a GPU machine without Rust or a network, for compute capability 90 or
# the one in CUDA_COMPUTE_CAP. See docs/cuda.md.
gpu-bundle: setup
	CARGO="$(CARGO)" research/gpu/make-bundle $(or $(CARGO_TARGET_DIR),target)/gpu-bundle

# Compares plans made with the roofline, with closed forms, with networks that saw neither device and with published measurements:
# what plans lose by the value that the measurements give them. Half an hour on two cores, most of it for the build.
UNSEEN = target/unseen.safetensors
bench-costs: setup $(TABLES)
	$(KERNELS) train --tables $(TABLES) --keep target/unseen --out $(UNSEEN) --without a100-80gb,h100
	$(CARGO) bench -p stagewright-research --bench costs -- $(abspath $(TABLES)) $(abspath $(UNSEEN))

# Runs plans as pipelines of two processes and compares predicted and measured throughput. Half an hour, on an otherwise
# idle machine.
bench-pipelines: rust
	@data/setup/install-onnxruntime
	$(CARGO) build --release --no-default-features --features metis,onnxruntime --bin stagewright
	$(CARGO) bench -p stagewright-research --bench pipelines
