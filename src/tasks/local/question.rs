//! A local question: the model, the machine, and what is left open.

use serde::Deserialize;
use stagewright_core::document::{ClusterDocument, LocalGoal, LocalObjectiveDocument, ModelOptionsDocument};
use stagewright_formats::code::F006;
use stagewright_llamacpp::{Goal, Machine, Setting};
use stagewright_local::Question;
use stagewright_structure::{Encoding, Structure};

use super::SMALLEST_CONTEXT;
use super::machine::{machine, spoken};
use crate::code::{U001, U002};
use crate::failure::{Failure, Result};
use crate::nearest::instead;
use crate::reading::{self, Place};
use crate::structures;
use crate::tasks::options::{no_effect, refuse};
use crate::tasks::{Document, Kind, PlanFile, Request};

/// Options of a local plan.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LocalOptions {
    /// Whether a local plan is asked for.
    pub local: bool,
    /// Objective.
    pub goal: Option<LocalGoal>,
    /// Tokens of the prompt.
    pub prompt: Option<u64>,
    /// Tokens that answer it.
    pub output: Option<u64>,
    /// Tokens of a micro-batch.
    pub micro_batch: Option<u64>,
}

/// Micro-batches that are chosen from if a prompt counts.
const MICRO_BATCHES: [u64; 6] = [128, 256, 512, 1024, 2048, 4096];

/// The micro-batch of llama.cpp, for which plans of single tokens keep memory.
const USUAL_MICRO_BATCH: u64 = 512;

/// Tokens before the one that counts, if no lengths are given and the context holds twice as many.
const TOKENS: u64 = 2048;

/// The largest prompt and output, beyond any context.
const MOST_TOKENS: u64 = (1 << 31) - 1;

/// A local question.
pub struct Local {
    pub(super) label: String,
    pub(super) structure: Structure,
    pub(super) machine: Machine,
    pub(super) cluster: ClusterDocument,
    /// Kinds of the cluster by device, and that of the host.
    pub(super) kinds: Vec<String>,
    pub(super) host_kind: String,
    pub(super) objective: LocalObjectiveDocument,
    pub(super) options: Option<ModelOptionsDocument>,
    /// The context that was given.
    pub(super) context: Option<u64>,
    pub(super) sequences: u64,
    /// The encoding of the cache that was given.
    pub(super) cache: Option<Encoding>,
    pub(super) micro_batches: Vec<u64>,
    pub(super) place: Place,
}

/// Parameters that a search does not change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fixed {
    pub(super) context: u64,
    pub(super) cache: Encoding,
    pub(super) goal: Goal,
    pub(super) sequences: u64,
}

/// Reads a question.
pub(super) fn read(request: Request, plan: Option<&PlanFile<'_>>) -> Result<(Local, Vec<String>)> {
    let Request { model, cluster, kept_cluster, options, benches, local, place, .. } = request;
    refuse(Kind::Local, options.given.iter().map(String::as_str), &place)?;
    let Some((cluster_label, mut cluster)) = cluster.or(kept_cluster) else {
        return Err(Failure::new(U002, "no machine given").at(place("cluster")).help(format!(
            "give the cards, the processor and RAM: {} 1xrtx-3090+1xryzen-7950x:64GiB",
            place("cluster")
        )));
    };
    reading::reserve(&mut cluster, &options.document);
    let mut notes = Vec::new();
    let label = model.label();
    let structure = structures::of_opened(model, &structures::reading(&options.document), &mut notes)?;
    refuse_other_names(&label, &structure, &place)?;
    let machine = machine(&cluster_label, &cluster, &structure, &benches, &mut notes)?;
    let objective = match plan {
        Some(PlanFile::Whole(_, Document::Local(plan))) => plan.objective.clone(),
        _ => objective(&local.unwrap_or_default(), &place)?,
    };
    check_counts(&objective, &place)?;
    let (kinds, host_kind) = spoken(&cluster);
    let cache = options.document.cache.as_deref().map(|name| cache_type(name, &place)).transpose()?;
    for (name, count) in [("context", options.document.context), ("sequences", options.document.sequences)] {
        if count == Some(0) {
            return Err(Failure::new(U001, format!("{} is 0", place(name)))
                .at(place(name))
                .help("leave it out"));
        }
    }
    let micro_batches = micro_batches(&objective);
    let local = Local {
        label,
        structure,
        machine,
        cluster,
        kinds,
        host_kind,
        objective,
        context: options.document.context,
        sequences: options.document.sequences.unwrap_or(1),
        cache,
        options: options.kept(),
        micro_batches,
        place,
    };
    check_context(&local)?;
    Ok((local, notes))
}

/// The encoding of a cache, by a name that llama.cpp knows.
fn cache_type(name: &str, place: &Place) -> Result<Encoding> {
    let known = Setting::cache_types();
    let encoding = known.contains(&name).then(|| Encoding::named(name)).flatten();
    encoding.ok_or_else(|| {
        Failure::new(U001, format!("`{name}` is no type of a cache of llama.cpp"))
            .at(place("cache"))
            .help(instead(name, known.iter().copied()))
    })
}

/// llama.cpp reads GGUF alone, whose names its overrides match. Its memory and its speed are not those of the programs that read
/// other files, for which plans of operators are exported.
fn refuse_other_names(label: &str, structure: &Structure, place: &Place) -> Result<()> {
    let is_of_gguf = structure.tensors.iter().any(|tensor| tensor.name.starts_with("blk."));
    match is_of_gguf {
        true => Ok(()),
        false => Err(Failure::new(F006, "the tensors do not have the names of a GGUF file")
            .at(label)
            .help(format!(
                "give the GGUF file that llama.cpp will run; its header suffices. For Accelerate, vLLM or SGLang plan without \
                 {}, with whole layers and the phase decode, and export that plan",
                place("local")
            ))),
    }
}

/// The objective that the options pose.
fn objective(options: &LocalOptions, place: &Place) -> Result<LocalObjectiveDocument> {
    let LocalOptions { goal, prompt, output, micro_batch, .. } = *options;
    let has_lengths = prompt.is_some() || output.is_some();
    let kind = goal.unwrap_or(if has_lengths { LocalGoal::Request } else { LocalGoal::Decode });
    if kind == LocalGoal::Prefill && output.is_some() {
        return Err(no_effect("output", "a plan for prompts alone", place));
    }
    let needed = match kind {
        LocalGoal::Prefill if prompt.is_none() => Some("prompt"),
        LocalGoal::Request if output.is_none() => Some("output"),
        LocalGoal::Request if prompt.is_none() => Some("prompt"),
        _ => None,
    };
    if let Some(name) = needed {
        let cause = "the goal counts tokens whose number is not given".to_owned();
        return Err(Failure::new(U001, cause).at(place(name)).help(format!("give {}", place(name))));
    }
    Ok(LocalObjectiveDocument {
        kind,
        prompt,
        output,
        tokens: None,
        micro_batch,
        to_devices: false,
        value_s: None,
    })
}

/// Refuses counts of tokens of options, or of a plan, that no context has.
fn check_counts(objective: &LocalObjectiveDocument, place: &Place) -> Result<()> {
    let LocalObjectiveDocument { prompt, output, micro_batch, tokens, .. } = *objective;
    let tokens = tokens.filter(|&tokens| tokens > 0);
    for (name, given) in
        [("prompt", prompt), ("output", output), ("micro_batch", micro_batch), ("context", tokens)]
    {
        if let Some(tokens) = given.filter(|&tokens| tokens == 0 || tokens > MOST_TOKENS) {
            let cause = format!("{} is {tokens}", place(name));
            return Err(Failure::new(U001, cause).at(place(name)).help("give the number of tokens"));
        }
    }
    Ok(())
}

/// Refuses a context that cannot hold the lengths of all sequences.
fn check_context(local: &Local) -> Result<()> {
    let needed = local.lengths().saturating_mul(local.sequences);
    match local.context.filter(|&context| context < needed) {
        None => Ok(()),
        Some(context) => {
            let option = (local.place)("context");
            let cause =
                format!("{option} {context} does not hold the {needed} tokens of prompts and answers");
            Err(Failure::new(U001, cause).at(option).help("give a larger one, or leave it out"))
        }
    }
}

fn micro_batches(objective: &LocalObjectiveDocument) -> Vec<u64> {
    match (objective.micro_batch, objective.kind, objective.prompt) {
        (Some(given), ..) => vec![given],
        (None, LocalGoal::Decode, _) | (None, _, None) => vec![USUAL_MICRO_BATCH],
        (None, _, Some(prompt)) => {
            let most = prompt.next_power_of_two().max(USUAL_MICRO_BATCH);
            MICRO_BATCHES.into_iter().filter(|&size| size <= most).collect()
        }
    }
}

impl Local {
    /// The solver's question.
    pub(super) fn question(&self, fixed: &Fixed) -> Question<'_> {
        Question {
            structure: &self.structure,
            devices: &self.machine.devices,
            host: self.machine.host,
            goal: fixed.goal,
            context: fixed.context,
            sequences: fixed.sequences,
            keys: fixed.cache,
            values: fixed.cache,
            micro_batches: &self.micro_batches,
        }
    }

    /// Parameters for a context and an encoding.
    pub(super) fn fixed(&self, context: u64, cache: Encoding) -> Fixed {
        Fixed { context, cache, goal: self.goal(context), sequences: self.sequences }
    }

    /// Parameters of a command line.
    pub(super) fn fixed_of(&self, setting: &Setting) -> Fixed {
        let context = setting.context.or(self.structure.context).unwrap_or(SMALLEST_CONTEXT);
        Fixed { context, cache: setting.keys, goal: self.goal(context), sequences: setting.sequences }
    }

    /// The goal in a context.
    pub(super) fn goal(&self, context: u64) -> Goal {
        let LocalObjectiveDocument { kind, prompt, output, tokens, .. } = self.objective;
        let (prompt, output) = (prompt.unwrap_or(0), output.unwrap_or(0));
        match kind {
            LocalGoal::Prefill => Goal::Prefill { prompt },
            LocalGoal::Request => Goal::Request { prompt, output },
            LocalGoal::Decode if self.lengths() > 0 => {
                Goal::Decode { tokens: prompt.saturating_add(output / 2) }
            }
            LocalGoal::Decode => Goal::Decode { tokens: tokens.unwrap_or(TOKENS.min(context / 2)) },
        }
    }

    /// Tokens of a prompt and its answer.
    pub(super) fn lengths(&self) -> u64 {
        self.objective.prompt.unwrap_or(0).saturating_add(self.objective.output.unwrap_or(0))
    }

    /// Contexts to choose from, the largest first: the given one, what the lengths need, or the model's and its halves.
    pub(super) fn contexts(&self) -> Vec<u64> {
        let lengths = self.lengths();
        if let Some(context) = self.context {
            return vec![context];
        }
        if lengths > 0 {
            return vec![lengths.saturating_mul(self.sequences)];
        }
        let mut context = self.structure.context.unwrap_or(SMALLEST_CONTEXT).max(1);
        let mut contexts = vec![context];
        while context / 2 >= SMALLEST_CONTEXT {
            context /= 2;
            contexts.push(context);
        }
        contexts
    }

    /// Encodings of the cache to try in turn: the given one, or 16 bits and then 8.
    pub(super) fn encodings(&self) -> Vec<Encoding> {
        match self.cache {
            Some(cache) => vec![cache],
            None => [Some(Encoding::F16), Encoding::named("q8_0")].into_iter().flatten().collect(),
        }
    }
}
