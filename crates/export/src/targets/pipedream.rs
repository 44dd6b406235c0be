//! PipeDream: the configuration of its runtime, `--config_path`.
//!
//! `module_to_stage_map` is the stage of every module in the list that the model's `model(criterion)`
//! returns, the last of which is the criterion; `stage_to_rank_map` has the ranks of every stage, possibly
//! several. The runtime reads these keys by name; `modules` maps modules to layers for human readers.
//!
//! Source: `runtime/runtime.py` and the `mp_conf.json` and `hybrid_conf.json` of the models in `runtime` of
//! msr-fiddle/pipedream, last changed in 2021.

use crate::pipeline::Pipeline;
use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained, any};
use crate::sequence::Sequence;
use crate::{Export, ExportError, Placed, Result, Target, literal};

const RUNTIME: &str = "PipeDream";

pub(super) static TARGET: Target = Target {
    name: "pipedream",
    summary: "PipeDream: module_to_stage_map and stage_to_rank_map",
    limits: "whole layers in execution order, at least one per stage; no hosts; replicas are ranks; no weight in several stages, no \
             schedule with a flush; needs --model",
    write,
    runtime: Runtime {
        name: RUNTIME,
        passes: Passes::Training,
        overlaps: true,
        sharing: Sharing {
            trained: Trained::Refused("PipeDream would train separate copies of it"),
            weight: COPIED,
            constant: COPIED,
        },
        schedules: Schedules::Of {
            names: &[],
            usage: |_, _| String::new(),
            rule: "PipeDream updates after every microbatch, without a flush",
            refusal: any,
        },
    },
};

fn write(placed: &Placed) -> Result<Export> {
    let sequence = Sequence::new(placed, TARGET.name, Pipeline::replicated(placed, RUNTIME)?)?;
    sequence.pipeline.on_accelerators(placed, "PipeDream runs stages only on accelerators")?;
    sequence.no_stage_empty("a stage of PipeDream needs at least one")?;
    let mut stages: Vec<String> = Vec::new();
    let mut ranks: Vec<String> = Vec::new();
    let mut next: u64 = 0;
    for (stage, (count, &device)) in sequence.counts().into_iter().zip(&sequence.pipeline.devices).enumerate()
    {
        stages.extend(std::iter::repeat_n(stage.to_string(), count));
        let replicas = u64::from(placed.devices[device].document.replicas);
        if replicas == 0 || replicas > MAX_RANKS {
            let what = format!("a stage of {replicas} devices");
            return Err(ExportError::Devices { what, rule: "a stage of PipeDream has 1 to 65536 ranks" });
        }
        let own = (next..next + replicas).map(|rank| rank.to_string());
        ranks.push(literal::entry(&stage.to_string(), &literal::list(own)));
        next += replicas;
    }
    // The criterion runs on the stage of its input.
    stages.push((sequence.pipeline.stages() - 1).to_string());
    let modules = sequence.layers().into_iter().map(literal::string);
    let text = literal::lines(
        '{',
        [
            literal::entry("module_to_stage_map", &literal::list(stages)),
            literal::entry("stage_to_rank_map", &format!("{{{}}}", ranks.join(", "))),
            literal::entry("modules", &literal::list(modules)),
        ],
        '}',
    );
    Ok(Export::new(text + "\n")
        .note("the last entry of module_to_stage_map is the criterion")
        .note(sequence.pipeline.ranks(placed))
        .also(sequence.outside(placed))
        .also(sequence.source))
}

/// Maximum number of ranks listed for a stage; the plan may have any number.
const MAX_RANKS: u64 = 1 << 16;
