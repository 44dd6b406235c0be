//! torchgpipe: the arguments `balance` and `devices` of `GPipe`.
//!
//! `balance` is the number of layers in each partition of an `nn.Sequential`, `devices` the device of each.
//! The counted layers are listed too, since the model must be a sequence of exactly these.
//!
//! Source: the user guide, `docs/guide.rst`, of torchgpipe at 0aa8484.

use stagewright_core::document::Schedule;

use crate::error::listed;
use crate::pipeline::Pipeline;
use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained, any};
use crate::sequence::Sequence;
use crate::{Export, Placed, Result, Target, literal};

pub(super) static TARGET: Target = Target {
    name: "torchgpipe",
    summary: "torchgpipe: balance and devices of GPipe",
    limits: "whole layers of an nn.Sequential, each reading only the previous one, at least one per stage; one \
             device per stage; no weight in several stages; no schedule but GPipe; needs --model",
    write,
    runtime: Runtime {
        name: "torchgpipe",
        passes: Passes::Training,
        overlaps: true,
        sharing: Sharing {
            trained: Trained::Refused("GPipe takes no parameter on several devices"),
            weight: COPIED,
            constant: "each of them has a copy, as a buffer: GPipe takes no parameter on several devices",
        },
        schedules: Schedules::Of {
            names: &[(Schedule::GPipe, "GPipe")],
            usage: |_, _| {
                "give `chunks` to GPipe, with checkpoint=\"never\": the plan computes nothing again".into()
            },
            rule: "torchgpipe has only GPipe",
            refusal: any,
        },
    },
};

fn write(placed: &Placed) -> Result<Export> {
    let sequence = Sequence::new(placed, TARGET.name, Pipeline::new(placed, "torchgpipe")?)?;
    sequence.chain(placed, "torchgpipe")?;
    sequence.no_stage_empty("torchgpipe needs at least one in every partition")?;
    let objective = &placed.plan.objective;
    let numbers = placed.numbers();
    let device = |&device: &usize| numbers[device].map_or_else(|| literal::string("cpu"), |n| n.to_string());
    let mut text = format!(
        "balance = {}\ndevices = {}\nlayers = {}\n",
        literal::list(sequence.counts().iter().map(ToString::to_string)),
        literal::list(sequence.pipeline.devices.iter().map(device)),
        literal::lines('[', sequence.layers().into_iter().map(literal::string), ']'),
    );
    if objective.schedule != Schedule::None {
        text.push_str(&format!("chunks = {}\n", objective.microbatches.unwrap_or(1)));
    }
    Ok(Export::new(text)
        .note("`layers` are the modules of the nn.Sequential that is divided, in order")
        .note(sequence.pipeline.ranks(placed))
        .also(tied(placed, &sequence))
        .also(sequence.outside(placed))
        .also(sequence.source))
}

/// Notes weights that several layers of one stage share, which the released torchgpipe refuses and its main branch
/// accepts.
fn tied(placed: &Placed, sequence: &Sequence) -> Option<String> {
    let names: Vec<String> = sequence.tied(placed).into_iter().map(|(weight, _)| weight).collect();
    (!names.is_empty()).then(|| {
        let names = listed(&names);
        format!("{names}: torchgpipe 0.0.7 takes no weight of several layers, and its main branch does on one device")
    })
}
