//! torchtitan: `module_fqns_per_model_part`.
//!
//! A list with the names of the modules of each stage, in the order of the stages. A name is that of a child
//! of the model, or of one in a list or dictionary of layers that is such a child: `tok_embeddings`,
//! `layers.3`, `norm`, `output`. Where the paths of a plan are no such names, the model is taken to be one of
//! torchtitan's own, which have just these four: then what is before the stack is `tok_embeddings`, and what
//! is after it `norm` and `lm_head`; another embedding or a pooler has no name there.
//!
//! A name that is no child is passed over, and a child that no stage names is left out, both without a word. Until
//! April 2026 the head was `output`. A plan whose modules are just those of torchtitan's own models with that head
//! is therefore written with `lm_head`.
//!
//! Source: `_split_module` and `_generate_llm_fqn_per_model_part` in `torchtitan/distributed/pipeline_parallel.py` and
//! the field of `ParallelismConfig` in `torchtitan/config/configs.py`, torchtitan 0.3.0, which it was run with.

use crate::export::error::shown_all;
use crate::export::layers::{addressable, layers};
use crate::export::literal;
use crate::export::paths::Paths;
use crate::export::pipeline::Pipeline;
use crate::export::sequence::is_data;
use crate::export::stack::Stack;
use crate::export::{Export, ExportError, Placed, Target};

const RUNTIME: &str = "torchtitan";

/// The head of torchtitan's own models.
const HEAD: &str = "lm_head";

/// What the head was called before.
const FORMER_HEAD: &str = "output";

/// What torchtitan's own models have beside the layers and the head.
const OWN: [&str; 2] = ["tok_embeddings", "norm"];

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
        Some(mut stages) => {
            let former = rename_head(&mut stages);
            (stages, former.then_some("the head `output` is called `lm_head` since torchtitan of April 2026"))
        }
        None => {
            let note =
                "modules are called as in torchtitan's models: tok_embeddings, layers.N, norm, lm_head";
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
    let paths = Paths::of(placed)?;
    // Names of another implementation are not torchtitan's, even where they have its form.
    if paths.published.is_some() {
        return Ok(None);
    }
    for layer in layers(placed, &paths)? {
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

/// Gives the head of a model that is torchtitan's own by all other names the name that it has now; whether it had the
/// former one.
fn rename_head(stages: &mut [Vec<String>]) -> bool {
    let has = |name: &str| stages.iter().flatten().any(|module| module == name);
    let own = |module: &String| {
        OWN.contains(&module.as_str()) || module == FORMER_HEAD || module.starts_with("layers.")
    };
    if !OWN.into_iter().all(has) || !stages.iter().flatten().all(own) {
        return false;
    }
    let head = stages.iter_mut().flatten().find(|module| *module == FORMER_HEAD);
    head.map(|module| HEAD.clone_into(module)).is_some()
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
        _ => refuse(&stack.after, "after it, where its own models have `norm` and `lm_head`"),
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
            names.extend(["norm".into(), HEAD.into()]);
        }
        names
    };
    Ok(stack.counts.iter().enumerate().map(stage).collect())
}
