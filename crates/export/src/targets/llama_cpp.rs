//! llama.cpp: `--n-gpu-layers` and `--tensor-split`.
//!
//! A model of n blocks has n + 1 layers, the last being the output. `--n-gpu-layers` of k + 1 puts the last k + 1 of
//! them on accelerators; the others and the token embedding are on the host. `--split-mode layer` divides the layers on
//! accelerators in the proportions of `--tensor-split`: if these add up to k + 1, every accelerator gets exactly its
//! number of layers, since layer i is put where the prefix sum of the proportions first exceeds i / (k + 1), and both
//! are quotients of the same integers.
//!
//! Source: `load_tensors` in `src/llama-model.cpp` of llama.cpp, builds b9993 and b10437. Older builds did not
//! count the output layer in `--n-gpu-layers` if blocks stayed on the host.

use crate::pipeline::Pipeline;
use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained};
use crate::stack::Stack;
use crate::{Export, ExportError, Placed, Result, Target};

pub(super) static TARGET: Target = Target {
    name: "llama-cpp",
    summary: "llama.cpp: --n-gpu-layers, --split-mode, --tensor-split",
    limits: "whole blocks in order, the first ones on the host or all on accelerators; the embedding on the host, \
             the output on the last accelerator; one host, one device per stage; the forward pass alone",
    write,
    runtime: Runtime {
        name: "llama.cpp",
        passes: Passes::Forward,
        overlaps: true,
        sharing: Sharing { trained: Trained::Written, weight: COPIED, constant: COPIED },
        schedules: Schedules::Own("llama.cpp forms batches of its requests"),
    },
};

fn write(placed: &Placed) -> Result<Export> {
    let stack = Stack::new(placed, "llama.cpp")?;
    let pipeline = &stack.pipeline;
    let is_host = |stage: usize| placed.devices[pipeline.devices[stage]].host;
    let hosts = (0..pipeline.stages()).filter(|&stage| is_host(stage)).count();
    if hosts > 1 || (hosts == 1 && !is_host(0)) {
        let what = "a host that is not the first stage".to_owned();
        let rule = "llama.cpp has one host, which runs the first stage";
        return Err(ExportError::Devices { what, rule });
    }
    if let (false, Some(&embedding)) = (is_host(0), stack.others.get(&0)) {
        let rule = (
            "llama.cpp keeps the token embedding on the host",
            "plan with a host in the cluster and pin the embedding to it with --pins",
        );
        return Err(pipeline.misplaced(placed, embedding, rule));
    }
    let accelerators: Vec<usize> = (hosts..pipeline.stages()).collect();
    let Some(&last) = accelerators.last() else {
        return Ok(Export::new("--n-gpu-layers 0\n"));
    };
    let counts: Vec<usize> =
        accelerators.iter().map(|&stage| stack.counts[stage] + usize::from(stage == last)).collect();
    let split = counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let text = format!(
        "--n-gpu-layers {} --split-mode layer --tensor-split {split}\n",
        counts.iter().sum::<usize>()
    );
    Ok(Export::new(text).note(listed(placed, pipeline, &accelerators)))
}

/// The required order of the accelerators.
fn listed(placed: &Placed, pipeline: &Pipeline, stages: &[usize]) -> String {
    let names = stages.iter().map(|&stage| placed.shown(pipeline.devices[stage])).collect::<Vec<_>>();
    format!("give the accelerators with --device in this order: {}", names.join(", "))
}
