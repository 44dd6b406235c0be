# The two that matter: `make demo` and `make test`.

CARGO ?= cargo
SHARED := $(wildcard ../shared)
ifneq ($(SHARED),)
export STAGEWRIGHT_SHARED ?= $(abspath $(SHARED))
endif

.PHONY: setup demo test lint fmt doc bench bench-large bench-free

# Rust, and what HiGHS is built with: CMake, a C++ compiler, and libclang for its bindings.
setup:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
	  echo "cargo is missing. Install Rust (no root needed) and open a new shell:"; \
	  echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"; \
	  exit 1; }
	@data/setup/install-build-tools

demo: setup
	$(CARGO) build --bin stagewright
	$(CARGO) run --quiet --bin stagewright -- plan data/demo/model.json --cluster data/demo/cluster.toml

test: setup
	@[ -n "$$STAGEWRIGHT_SHARED" ] || echo "STAGEWRIGHT_SHARED is not set: tests on reference inputs are skipped"
	$(CARGO) test --workspace

lint: setup
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: setup
	$(CARGO) fmt --all

doc: setup
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

bench: setup
	$(CARGO) build --release --bin stagewright
	target/release/stagewright bench data/suites/reference-throughput.toml

# Free splits of the published instances.
bench-free: setup
	$(CARGO) build --release --bin stagewright
	target/release/stagewright bench data/suites/reference-free.toml

# Training graphs of about 1, 10, 50 and 80 thousand operators.
bench-large: setup
	$(CARGO) build --release --bin stagewright
	mkdir -p target/workloads
	target/release/stagewright workload resnet --variant 152 --batch 32 --training --out target/workloads/resnet-152.json
	target/release/stagewright workload gnmt --variant 2 --batch 128 --sequence 40 --training --out target/workloads/gnmt-2-40.json
	target/release/stagewright workload gnmt --variant 8 --batch 128 --sequence 75 --training --out target/workloads/gnmt-8-75.json
	target/release/stagewright workload gnmt --variant 8 --batch 128 --sequence 110 --training --out target/workloads/gnmt-8-110.json
	target/release/stagewright bench data/suites/large-graphs.toml
