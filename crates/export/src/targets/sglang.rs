//! SGLang: the environment variable `SGLANG_PP_LAYER_PARTITION`.
//!
//! The variable lists the number of layers of each pipeline rank, separated by commas: `--pp-size` numbers that add up
//! to the hidden layers of the model. The embedding is built on the first rank, the norm and the head on the last.
//!
//! As in vLLM, the function that reads the variable checks how many numbers there are and their sum, but not
//! that each is above 0. A model need not support ranks without layers, so such a stage is refused.
//!
//! Source: `get_pp_indices` in `python/sglang/srt/distributed/utils.py`, SGLang at 1107be1, and the option
//! `--pp-size` of `sglang.launch_server`.

use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained};
use crate::stack::{PIN_OUTER, Stack};
use crate::{Export, Placed, Result, Target};

pub(super) static TARGET: Target = Target {
    name: "sglang",
    summary: "SGLang: SGLANG_PP_LAYER_PARTITION",
    limits: "whole layers of one stack in order, at least one per stage; embedding first, head last; one device per \
             stage, no hosts; the forward pass alone",
    write,
    runtime: Runtime {
        name: "SGLang",
        passes: Passes::Forward,
        overlaps: true,
        sharing: Sharing { trained: Trained::Written, weight: COPIED, constant: COPIED },
        schedules: Schedules::Own("SGLang forms batches of its requests"),
    },
};

fn write(placed: &Placed) -> Result<Export> {
    let stack = Stack::new(placed, "SGLang")?;
    stack.pipeline.on_accelerators(placed, "SGLang runs pipeline stages only on accelerators")?;
    stack.no_stage_empty("SGLang needs at least one per stage", PIN_OUTER)?;
    Ok(Export::new(format!("SGLANG_PP_LAYER_PARTITION={}\n", stack.listed()))
        .note(format!("run SGLang with --pp-size {}", stack.pipeline.stages()))
        .note(stack.pipeline.ranks(placed)))
}
