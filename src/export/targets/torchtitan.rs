//! torchtitan: `module_fqns_per_model_part`.
//!
//! A list with the names of the modules of each stage, in the order of the stages. A name is that of a child
//! of the model, or of one in a list or dictionary of layers that is such a child: `tok_embeddings`,
//! `layers.3`, `norm`, `output`. Where the paths of a plan are no such names, the model is taken to be one of
//! torchtitan's own, which have just these four: then what is before the stack is `tok_embeddings`, and what
//! is after it `norm` and `output`; another embedding or a pooler has no name there.
//!
//! Source: `pipeline_module_split` in `torchtitan/distributed/pipeline_parallel.py` and the field of
//! `Parallelism` in `torchtitan/config/job_config.py`, torchtitan at 02ef790.
//! `pipeline_parallel_split_points`, which came before it, is called deprecated there.

use crate::export::error::shown_all;
use crate::export::layers::{addressable, layers};
use crate::export::literal;
use crate::export::pipeline::Pipeline;
use crate::export::sequence::is_data;
use crate::export::stack::Stack;
use crate::export::{Export, ExportError, Placed, Target};

const RUNTIME: &str = "torchtitan";

pub(super) static TARGET: Target = Target {
    name: "torchtitan",
    summary: "torchtitan: module_fqns_per_model_part",
    limits: "whole children of the model and whole layers of a list of them; one device a stage, no hosts; paths of other \
             depth are read as embedding, layers and head of torchtitan's own models",
    write,
};

fn write(placed: &Placed) -> Result<Export, ExportError> {
    let pipeline = Pipeline::of(placed, RUNTIME)?;
    pipeline.on_accelerators(placed, "torchtitan has its pipeline stages on accelerators")?;
    let (stages, note) = match as_named(placed, &pipeline)? {
        Some(stages) => (stages, None),
        None => {
            let note = "modules are called as in torchtitan's models: tok_embeddings, layers.N, norm, output";
            (by_convention(placed)?, Some(note))
        }
    };
    let parts = stages.iter().map(|names| literal::list(names.iter().map(|name| literal::string(name))));
    let export = Export::new(format!("module_fqns_per_model_part = {}\n", literal::lines('[', parts, ']')))
        .note(format!(
            "train with pipeline_parallel_degree = {} and a schedule of one stage a rank",
            stages.len()
        ))
        .note(pipeline.ranks(placed));
    Ok(match note {
        Some(note) => export.note(note),
        None => export,
    })
}

/// The modules by their own names, where torchtitan could address these.
fn as_named(placed: &Placed, pipeline: &Pipeline) -> Result<Option<Vec<Vec<String>>>, ExportError> {
    let mut stages = vec![Vec::new(); pipeline.stages()];
    for layer in layers(placed)? {
        let stage = pipeline.stage_of[layer.device(placed)?];
        if is_data(placed, &layer) {
            continue;
        }
        addressable(RUNTIME, &layer.path)?;
        let depth = layer.path.split('.').count();
        let fits = match &layer.number {
            Some(numbered) => depth == 2 && numbered.stack.ends_with('.'),
            None => depth == 1,
        };
        if !fits {
            return Ok(None);
        }
        stages[stage].push(layer.path);
    }
    // A stage of inputs alone has no module; only a stack can say what that means.
    Ok(stages.iter().all(|names| !names.is_empty()).then_some(stages))
}

/// Refuses what the names of torchtitan's own models leave out: they have one embedding before the stack, and
/// a norm and a head after it.
fn check_ends(stack: &Stack) -> Result<(), ExportError> {
    let refuse = |layers: &[String], have: &str| {
        let why = format!("the model has {} {have} alone", shown_all(layers));
        Err(ExportError::NoStack { runtime: RUNTIME, why })
    };
    if stack.before.len() > 1 {
        return refuse(&stack.before, "before it, where its own models have `tok_embeddings`");
    }
    let ends: Vec<End> = stack.after.iter().map(|path| end(path)).collect();
    match ends.as_slice() {
        // In which order the model lists the two means nothing.
        [] | [End::Norm | End::Head] | [End::Norm, End::Head] | [End::Head, End::Norm] => Ok(()),
        _ => refuse(&stack.after, "after it, where its own models have `norm` and `output`"),
    }
}

/// What a layer after the stack is called.
enum End {
    Norm,
    Head,
    Other,
}

fn end(path: &str) -> End {
    let last = path.rsplit('.').next().unwrap_or(path).to_ascii_lowercase();
    if last.contains("norm") || last == "ln_f" {
        End::Norm
    } else if last.ends_with("head") || last == "output" {
        End::Head
    } else {
        End::Other
    }
}

/// The modules by the names that they have in torchtitan's own models.
fn by_convention(placed: &Placed) -> Result<Vec<Vec<String>>, ExportError> {
    let stack = Stack::of(placed, RUNTIME)?;
    if stack.pipeline.stages() == 1 && !stack.others.is_empty() {
        placed.model(RUNTIME, "what is before the stack and what after it is not in the plan")?;
    }
    check_ends(&stack)?;
    let last = stack.counts.len() - 1;
    let mut next = 0;
    let stage = |(stage, &count): (usize, &usize)| {
        let mut names: Vec<String> = Vec::new();
        if stage == 0 {
            names.push("tok_embeddings".into());
        }
        names.extend((next..next + count).map(|layer| format!("layers.{layer}")));
        next += count;
        if stage == last {
            names.extend(["norm".into(), "output".into()]);
        }
        names
    };
    Ok(stack.counts.iter().enumerate().map(stage).collect())
}
