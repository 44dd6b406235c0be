//! Megatron-LM before layouts: `--decoder-first-pipeline-num-layers` and
//! `--decoder-last-pipeline-num-layers`.
//!
//! The options give the numbers of decoder layers in the first and the last stage; the remaining layers are divided
//! evenly among the other stages and must be divisible. Without the two options all stages have the same number of
//! layers. `--num-layers-per-virtual-pipeline-stage` divides every stage into chunks of that many layers; a plan has
//! one stage per device, so this option is never written.
//!
//! Source: `get_num_layers_to_build` in `megatron/core/transformer/transformer_block.py` and
//! `megatron/training/arguments.py` of Megatron Core, as they were before layouts and still are alongside them.

use super::megatron::{RUNTIME, options_with_ties};
use crate::stack::Stack;
use crate::{Export, ExportError, Placed, Result, Target};

pub(super) static TARGET: Target = Target {
    name: "megatron-layers",
    summary: "Megatron-LM: --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers",
    limits: "as megatron, with at least one layer per stage and equal numbers in all but the first and the last",
    write,
    runtime: RUNTIME,
};

fn write(placed: &Placed) -> Result<Export> {
    let stack = Stack::new(placed, "Megatron")?;
    stack.pipeline.on_accelerators(placed, "Megatron runs pipeline stages only on accelerators")?;
    let help = "export to megatron, whose layouts allow any number in any stage";
    stack.no_stage_empty("these options require at least one in every stage", help)?;
    let counts = &stack.counts;
    let inner = counts.get(1..counts.len() - 1).unwrap_or_default();
    if inner.windows(2).any(|pair| pair[0] != pair[1]) {
        let rule = "these options require equal numbers in all stages but the first and the last";
        return Err(ExportError::Counts { counts: counts.clone(), rule, help });
    }
    let mut options =
        format!("--num-layers {} --pipeline-model-parallel-size {}", stack.layers(), stack.pipeline.stages());
    if counts.windows(2).any(|pair| pair[0] != pair[1]) {
        options.push_str(&format!(
            " --decoder-first-pipeline-num-layers {} --decoder-last-pipeline-num-layers {}",
            counts[0],
            counts[counts.len() - 1]
        ));
    }
    options_with_ties(placed, &stack, options)
}
