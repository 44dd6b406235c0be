//! `torch.distributed.pipelining`: the `split_spec` of `pipeline`, as a Python module.
//!
//! The output is a dictionary from modules to `SplitPoint.BEGINNING`: a stage begins where such a module is
//! called. The program is traced and cut there, in program order. So a plan fits if its stages follow one
//! another in that order, which is the order of the model's operators as the torch exporter writes them, and if
//! each stage begins with the first operator of a module that the program calls once.
//!
//! Source: `annotate_split_points` and `pipeline` in `torch/distributed/pipelining/_IR.py`, PyTorch at 0c16800,
//! and the page "Pipeline Parallelism" of its documentation; run with PyTorch 2.4.1. The schedules are those of
//! `torch/distributed/pipelining/schedules.py`.

use std::collections::BTreeMap;

use stagewright_core::document::Schedule;

use crate::layers::{addressable, parts};
use crate::paths::Paths;
use crate::pipeline::Pipeline;
use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained, pytorch};
use crate::{Export, ExportError, Placed, Result, Target, literal};

pub(super) static TARGET: Target = Target {
    name: "torch-pipelining",
    summary: "torch.distributed.pipelining: split_spec, as a Python module",
    limits: "stages in the order of the program, each beginning with a module; one device per stage; needs --model",
    write,
    runtime: Runtime {
        name: RUNTIME,
        passes: Passes::Given,
        overlaps: true,
        sharing: Sharing {
            trained: Trained::Noted(
                "the plan synchronises its gradient, and the copies are separate parameters: sum their gradients before \
                 every update",
            ),
            weight: COPIED,
            constant: COPIED,
        },
        schedules: Schedules::Of {
            names: &[
                (Schedule::GPipe, "ScheduleGPipe"),
                (Schedule::OneFOneB, "Schedule1F1B"),
                (Schedule::ZeroBubble, ZERO_BUBBLE),
            ],
            usage: |name, microbatches| {
                // The classes for several stages per device take a list of stages.
                let stages = if name == ZERO_BUBBLE { "[stage]" } else { "stage" };
                format!("run the stages with {name}({stages}, n_microbatches={microbatches})")
            },
            rule: "PyTorch has GPipe, 1F1B and zero-bubble for stages of one device",
            refusal: pytorch,
        },
    },
};

const RUNTIME: &str = "torch.distributed.pipelining";

/// The class of the zero-bubble schedule.
const ZERO_BUBBLE: &str = "ScheduleInterleavedZeroBubble";

/// Why a plan alone does not determine the cuts.
const WHY: &str = "the plan does not state the order in which the program runs";

fn write(placed: &Placed) -> Result<Export> {
    placed.model(TARGET.name, WHY)?;
    let pipeline = Pipeline::new(placed, RUNTIME)?;
    placed.homes()?;
    let paths = Paths::new(placed)?;
    let program: Vec<usize> = (0..placed.operators.len())
        .filter(|&operator| placed.operators[operator].is_forward() && !placed.is_input(operator))
        .collect();
    check_order(placed, &pipeline, &program)?;
    let spans = spans(&program, &paths);
    let mut cuts: Vec<&str> = Vec::new();
    for (place, pair) in program.windows(2).enumerate() {
        let (before, operator) = (pair[0], pair[1]);
        if pipeline.stage(placed, before) == pipeline.stage(placed, operator) {
            continue;
        }
        let begins =
            |part: &&str| spans.get(part).is_some_and(|span| span.first == place + 1 && span.is_one_call());
        // An operator outside of all modules does not begin one.
        let own = (!paths.is_bare(operator)).then(|| parts(paths.first(operator)));
        match own.into_iter().flatten().find(begins) {
            Some(module) => {
                addressable(RUNTIME, module)?;
                cuts.push(module);
            }
            None => {
                return Err(ExportError::Cut {
                    layer: paths.first(operator).to_owned(),
                    left: Box::new(placed.sited(&placed.operators[before])),
                    right: Box::new(placed.sited(&placed.operators[operator])),
                });
            }
        }
    }
    let entries = cuts.iter().map(|module| literal::entry(module, "SplitPoint.BEGINNING"));
    let text = format!(
        "from torch.distributed.pipelining import SplitPoint\n\nsplit_spec = {}\n",
        literal::lines('{', entries, '}')
    );
    Ok(Export::new(text)
        .note(format!("`pipeline(module, …, split_spec=split_spec)` makes {} stages", pipeline.stages()))
        .note(pipeline.ranks(placed))
        .also(paths.source()))
}

/// Checks that the program runs all stages, one after the other.
fn check_order(placed: &Placed, pipeline: &Pipeline, program: &[usize]) -> Result<()> {
    let mut counts = vec![0; pipeline.stages()];
    let mut latest = 0;
    for &operator in program {
        let stage = pipeline.stage(placed, operator);
        if stage < latest {
            let rule = (
                "the program runs it after operators of a later stage",
                "with --pins, pin it to the stage of the operators that run right before it, or export to \
                 accelerate, which has no order",
            );
            return Err(pipeline.misplaced(placed, operator, rule));
        }
        latest = stage;
        counts[stage] += 1;
    }
    if counts.contains(&0) {
        return Err(ExportError::Counts {
            counts,
            rule: "every stage of torch.distributed.pipelining must run a part of the program",
            help: "plan with fewer devices, or pin the inputs to a device that runs a module",
        });
    }
    Ok(())
}

/// The range of a module's operators in the program.
struct Span {
    first: usize,
    last: usize,
    count: usize,
}

impl Span {
    /// Whether the module's operators are contiguous: a module that is called again would begin another stage.
    fn is_one_call(&self) -> bool {
        self.last - self.first + 1 == self.count
    }
}

/// The spans of all modules.
fn spans<'a>(program: &[usize], paths: &'a Paths) -> BTreeMap<&'a str, Span> {
    let mut spans: BTreeMap<&str, Span> = BTreeMap::new();
    for (place, &operator) in program.iter().enumerate().filter(|&(_, &operator)| !paths.is_bare(operator)) {
        for part in parts(paths.first(operator)) {
            let span = spans.entry(part).or_insert(Span { first: place, last: place, count: 0 });
            span.last = place;
            span.count += 1;
        }
    }
    spans
}
