//! torchtitan: `module_fqns_per_model_part`.
//!
//! A list of the module names of each stage, in stage order. A name is that of a child of the model, or of an entry in
//! a list or dictionary of layers that is a child: `tok_embeddings`, `layers.3`, `norm`, `output`. If the paths of a
//! plan are not such names, the model is taken to be one of torchtitan's own, which have exactly these four: operators
//! before the stack are `tok_embeddings`, and operators after it `norm` and `lm_head`; another embedding or a pooler
//! has no name there.
//!
//! torchtitan silently skips a name that is not a child, and silently drops a child that no stage names. Until April
//! 2026 the head was `output`. A plan whose modules are exactly those of torchtitan's own models with that head is
//! therefore written with `lm_head`.
//!
//! Source: `_split_module` and `_generate_llm_fqn_per_model_part` in `torchtitan/distributed/pipeline_parallel.py` and
//! the field of `ParallelismConfig` in `torchtitan/config/configs.py`, torchtitan 0.3.0. The output was run with this
//! version.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::Schedule;

use crate::error::{listed, listed_up_to};
use crate::layers::{addressable, layers, parts};
use crate::literal;
use crate::paths::Paths;
use crate::pipeline::Pipeline;
use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained, pytorch};
use crate::sequence::is_data;
use crate::stack::Stack;
use crate::{Export, ExportError, Placed, Result, Target};

const RUNTIME: &str = "torchtitan";

/// Name of the head in torchtitan's own models.
const HEAD: &str = "lm_head";

/// Former name of the head.
const FORMER_HEAD: &str = "output";

/// Modules of torchtitan's own models besides the layers and the head.
const OWN: [&str; 2] = ["tok_embeddings", "norm"];

pub(super) static TARGET: Target = Target {
    name: "torchtitan",
    summary: "torchtitan: module_fqns_per_model_part",
    limits: "whole children of the model and whole layers of a list of them; one device per stage, no hosts; paths \
             of other depth are read as embedding, layers and head of torchtitan's own models; no weight in several stages",
    write,
    runtime: Runtime {
        name: RUNTIME,
        passes: Passes::Training,
        overlaps: true,
        sharing: Sharing {
            trained: Trained::Refused("torchtitan takes no tied weights in a pipeline"),
            weight: COPIED,
            constant: "each of them has a copy if its stage names the module that holds it",
        },
        schedules: Schedules::Of {
            names: &[
                (Schedule::GPipe, "GPipe"),
                (Schedule::OneFOneB, "1F1B"),
                (Schedule::ZeroBubble, "InterleavedZeroBubble"),
            ],
            usage: |name, microbatches| {
                format!(
                    "set pipeline_parallel_schedule = \"{name}\", and local_batch_size to {microbatches} times \
                     pipeline_parallel_microbatch_size"
                )
            },
            rule: "PyTorch has GPipe, 1F1B and zero-bubble for stages of one device",
            refusal: pytorch,
        },
    },
};

fn write(placed: &Placed) -> Result<Export> {
    let pipeline = Pipeline::new(placed, RUNTIME)?;
    pipeline.on_accelerators(placed, "torchtitan runs pipeline stages only on accelerators")?;
    let (stages, note, elsewhere) = match as_named(placed, &pipeline)? {
        Some(Named { mut stages, elsewhere }) => {
            let former = rename_head(&mut stages);
            let note = "the head `output` is named `lm_head` since torchtitan of April 2026";
            (stages, former.then_some(note), elsewhere)
        }
        None => {
            let note = "modules are named as in torchtitan's models: tok_embeddings, layers.N, norm, lm_head";
            (by_convention(placed)?, Some(note), Vec::new())
        }
    };
    let elsewhere = (!elsewhere.is_empty()).then(|| {
        format!(
            "{}: read in stages without the module of that name, which would run in every stage that names it: modules of the \
             reading stages have to hold it",
            listed(&elsewhere)
        )
    });
    let parts = stages.iter().map(|names| literal::list(names.iter().map(|name| literal::string(name))));
    Ok(Export::new(format!("module_fqns_per_model_part = {}\n", literal::lines('[', parts, ']')))
        .note(format!(
            "train with pipeline_parallel_degree = {} and a schedule of one stage per rank",
            stages.len()
        ))
        .note(pipeline.ranks(placed))
        .also(note.map(str::to_owned))
        .also(elsewhere))
}

/// Modules by their own names.
struct Named {
    /// The modules of every stage.
    stages: Vec<Vec<String>>,
    /// Constants that stages read without naming the module that has them.
    elsewhere: Vec<String>,
}

/// The modules by their own names, if torchtitan can address these.
fn as_named(placed: &Placed, pipeline: &Pipeline) -> Result<Option<Named>> {
    let mut stages = vec![Vec::new(); pipeline.stages()];
    let paths = Paths::new(placed)?;
    // The names of another implementation are not torchtitan's, even if they have the same form.
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
    let elsewhere = hold(placed, pipeline, &mut stages)?;
    // A stage with nothing but inputs has no module; only a stack can express it.
    Ok(stages.iter().all(|names| !names.is_empty()).then_some(Named { stages, elsewhere }))
}

/// Adds children that run nothing but hold tensors to the stages that read them: torchtitan drops children that no
/// stage names, and gives a copy to every stage that names a child. A child that runs is named in its own stage alone,
/// since torchtitan's models run every child that a stage has. Returns the constants that stages read without naming
/// the child that has them.
///
/// Takes time O(modules · log modules + readers · log modules).
///
/// # Errors
/// If a trained weight belongs to a child whose stage has none of the weight's readers, or to a child without a name
/// (E018).
fn hold(placed: &Placed, pipeline: &Pipeline, stages: &mut [Vec<String>]) -> Result<Vec<String>> {
    let Some(graph) = placed.graph else { return Ok(Vec::new()) };
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lists: BTreeSet<&str> = BTreeSet::new();
    for (stage, names) in stages.iter().enumerate() {
        for name in names {
            runs.insert(name, stage);
            lists.extend(name.split_once('.').map(|(list, _)| list));
        }
    }
    let mut idle: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut elsewhere: Vec<String> = Vec::new();
    for (index, parameter) in graph.parameters().iter().enumerate() {
        // Parameters of the model itself or of a list of layers stay in every stage.
        let child = parts(&parameter.name).find(|part| *part != parameter.name && !lists.contains(part));
        let Some(child) = child else { continue };
        let readers = || graph.readers(index).iter().map(|op| pipeline.stage(placed, op.index()));
        match runs.get(child) {
            // A weight that several stages read is refused by the rule for all targets.
            Some(&stage) if parameter.trained && readers().any(|reader| reader == stage) => {}
            Some(_) if parameter.trained => {
                let why = "it is a weight of a module in another stage than its readers";
                return Err(ExportError::Name { runtime: RUNTIME, module: parameter.name.clone(), why });
            }
            Some(&stage) => {
                elsewhere.extend(readers().any(|reader| reader != stage).then(|| parameter.name.clone()));
            }
            None => match addressable(RUNTIME, child) {
                Ok(()) => idle.entry(child).or_default().extend(readers()),
                Err(error) if parameter.trained => return Err(error),
                // The name of a constant need not be a name in the model.
                Err(_) => elsewhere.push(parameter.name.clone()),
            },
        }
    }
    for (child, readers) in idle {
        readers.into_iter().for_each(|stage| stages[stage].push(child.to_owned()));
    }
    Ok(elsewhere)
}

/// Renames the former head to its present name if all other modules are those of torchtitan's own models. Returns
/// whether it did.
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

/// Refuses layers without a name in torchtitan's own models, which have one embedding before the stack, and a norm and
/// a head after it.
fn check_ends(stack: &Stack) -> Result<()> {
    let refuse = |layers: &[String], have: &str| {
        let why = format!("the model has only {} {have}", listed_up_to(layers, 4));
        Err(ExportError::NoStack { runtime: RUNTIME, why })
    };
    if stack.before.len() > 1 {
        return refuse(&stack.before, "before it, where its own models have `tok_embeddings`");
    }
    let ends: Vec<End> = stack.after.iter().map(|path| end(path)).collect();
    match ends.as_slice() {
        // The order in which the model lists the two is irrelevant.
        [] | [End::Norm | End::Head] | [End::Norm, End::Head] | [End::Head, End::Norm] => Ok(()),
        _ => refuse(&stack.after, "after it, where its own models have `norm` and `lm_head`"),
    }
}

/// Name of a layer after the stack.
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

/// The modules by their names in torchtitan's own models.
fn by_convention(placed: &Placed) -> Result<Vec<Vec<String>>> {
    let stack = Stack::new(placed, RUNTIME)?;
    if stack.pipeline.stages() == 1 && !stack.others.is_empty() {
        placed.model(
            RUNTIME,
            "the plan does not state which operators are before the stack and which after it",
        )?;
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
