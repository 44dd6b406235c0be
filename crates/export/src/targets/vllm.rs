//! vLLM: the environment variable `VLLM_PP_LAYER_PARTITION`.
//!
//! The variable lists the number of decoder layers of each pipeline rank, separated by commas:
//! `--pipeline-parallel-size` numbers that add up to the layers of the model. The embedding is built on the first rank,
//! the norm and the head on the last.
//!
//! The function that reads the variable checks how many numbers there are and their sum, but not that each is
//! above 0. A model need not support ranks without layers, so such a stage is refused.
//!
//! Source: `get_pp_indices` in `vllm/distributed/utils.py` and `tests/distributed/test_pipeline_partition.py`
//! in the 2025 sources of vLLM.

use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained};
use crate::stack::{PIN_OUTER, Stack};
use crate::{Export, Placed, Result, Target};

pub(super) static TARGET: Target = Target {
    name: "vllm",
    summary: "vLLM: VLLM_PP_LAYER_PARTITION",
    limits: "whole layers of one stack in order, at least one per stage; embedding first, head last; one device per \
             stage, no hosts; the forward pass alone",
    write,
    runtime: Runtime {
        name: "vLLM",
        passes: Passes::Forward,
        overlaps: true,
        sharing: Sharing { trained: Trained::Written, weight: COPIED, constant: COPIED },
        schedules: Schedules::Own("vLLM forms batches of its requests"),
    },
};

fn write(placed: &Placed) -> Result<Export> {
    let stack = Stack::new(placed, "vLLM")?;
    stack.pipeline.on_accelerators(placed, "vLLM runs pipeline stages only on accelerators")?;
    stack.no_stage_empty("vLLM needs at least one per stage", PIN_OUTER)?;
    Ok(Export::new(format!("VLLM_PP_LAYER_PARTITION={}\n", stack.listed()))
        .note(format!("run vLLM with --pipeline-parallel-size {}", stack.pipeline.stages()))
        .note(stack.pipeline.ranks(placed)))
}
