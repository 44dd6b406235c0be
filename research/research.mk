# Experiments behind figures of the documentation; the Makefile includes this file. Each target says what it measures and how long
# it takes.

.PHONY: bench-python gpu-bundle bench-costs bench-pipelines

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
