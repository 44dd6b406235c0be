//! How a runtime treats the parts of a plan that are in no module, layer or operator: weights that several devices
//! hold, the schedule, the passes, the order on a device, and the options that its figures are for.
//!
//! [`Target::export`] handles all of these parts for every target: each is written, noted by name, or refused.

use std::collections::BTreeMap;

use stagewright_core::document::{
    Communication, Execution, ModelOptionsDocument, ObjectiveDocument, ObjectiveKind, Schedule, Training,
};
use stagewright_report::units::bytes;

use super::error::{ExportError, Result, listed};
use super::placed::Placed;
use super::shared::shared;
use super::{Export, Target};

/// Behaviour of a runtime beyond placing modules, layers or operators.
#[derive(Debug)]
pub(crate) struct Runtime {
    /// Name for display.
    pub(crate) name: &'static str,
    pub(crate) passes: Passes,
    /// Whether devices work on different batches at the same time.
    pub(crate) overlaps: bool,
    pub(crate) sharing: Sharing,
    pub(crate) schedules: Schedules,
}

/// The passes that a runtime executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passes {
    /// The forward pass.
    Forward,
    /// The passes of the model.
    Given,
    /// A training step, whatever passes the model has.
    Training,
    /// A drawing executes no pass.
    Drawn,
}

/// Treatment of weights and constants that several devices hold, each as half a sentence that follows the name.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// Treatment of a weight in training.
    pub(crate) trained: Trained,
    /// Treatment of a weight in inference.
    pub(crate) weight: &'static str,
    /// Treatment of a constant: a mask, a table or a cache.
    pub(crate) constant: &'static str,
}

/// Treatment of a trained weight that several devices hold.
#[derive(Debug)]
pub(crate) enum Trained {
    /// The runtime refuses weights that several devices hold, by this rule.
    Refused(&'static str),
    /// The runtime does not keep the copies equal: the action that the user has to take.
    Noted(&'static str),
    /// The target's own code writes, notes or refuses a weight that several devices hold. Runtimes that do not train
    /// have no such weight.
    Written,
}

/// Half a sentence on a weight or a constant of which every device has a copy.
pub(crate) const COPIED: &str = "each of them has a copy";

/// Note on a plan without information on whether the embedding and the head share their weight.
pub(crate) const MEGATRON_TIES: &str = "Megatron ties the embedding and the head unless it is given \
     --untie-embeddings-and-output-weights: the plan does not say whether the model does";

/// The pipeline schedules of a runtime.
#[derive(Debug)]
pub(crate) enum Schedules {
    /// A list of schedules.
    Of {
        /// Names in the runtime.
        names: &'static [(Schedule, &'static str)],
        /// How to give the runtime a schedule of this name with a number of microbatches.
        usage: fn(&str, u32) -> String,
        /// Reason why the runtime has no other schedule.
        rule: &'static str,
        /// The rule that a number of microbatches violates for a number of stages, with a hint, if any.
        refusal: fn(Schedule, u32, usize) -> Option<(&'static str, &'static str)>,
    },
    /// The runtime accepts no schedule: its behaviour instead, as half a sentence.
    Own(&'static str),
}

/// The `refusal` of [`Schedules::Of`] for runtimes that run any number of microbatches.
pub(crate) fn any(_: Schedule, _: u32, _: usize) -> Option<(&'static str, &'static str)> {
    None
}

/// Why the schedules of PyTorch refuse a number of microbatches, with a hint; `None` if they run.
pub(crate) fn pytorch(
    schedule: Schedule,
    microbatches: u32,
    stages: usize,
) -> Option<(&'static str, &'static str)> {
    match schedule {
        Schedule::OneFOneB if (microbatches as usize) < stages => Some((
            "1F1B of PyTorch needs at least as many as stages",
            "plan with a smaller microbatch, a larger batch or fewer stages",
        )),
        Schedule::ZeroBubble if !microbatches.is_multiple_of((microbatches / stages as u32).max(1)) => {
            Some((
                "zero-bubble of PyTorch divides them evenly into ⌊microbatches / stages⌋ rounds",
                "plan with --schedule 1f1b, or with a batch whose microbatches are a multiple of the stages",
            ))
        }
        _ => None,
    }
}

/// Hint for a weight on several devices, for runtimes that train no copies.
const UNTIE: &str = "export to deepspeed, which trains such copies, or to megatron, which trains those of the embedding and the \
                     head; or untie the weight in the model; or plan with --tied together, which keeps all its readers on \
                     one device";

impl Target {
    /// Completes an export with notes on everything that the text lacks.
    ///
    /// Takes time O(readers · log devices) for the shared weights and constants of the model.
    ///
    /// # Errors
    /// If the runtime refuses one of them (E028, E030 and E031).
    pub(super) fn complete(&self, placed: &Placed, mut export: Export) -> Result<Export> {
        let runtime = &self.runtime;
        export.notes.extend(runtime.schedule(placed)?);
        export.notes.extend(runtime.sharing(placed)?);
        export.notes.extend(runtime.passes(placed));
        let objective = &placed.plan.objective;
        let several = placed.devices.len() > 1;
        let turns = several && !runtime.overlaps && objective.kind == ObjectiveKind::Throughput;
        if turns && runtime.passes != Passes::Drawn {
            let name = runtime.name;
            export.notes.push(format!(
                "{name} runs one device after the other, and the value of the plan is that of a full pipeline"
            ));
        }
        if runtime.passes == Passes::Drawn {
            let calls = placed
                .devices
                .iter()
                .any(|device| device.document.calls.as_ref().is_some_and(|calls| calls.len() > 1));
            let ordered = placed.plan.priority.is_some();
            export.notes.extend(calls.then(|| "the calls of each device are not drawn".into()));
            export
                .notes
                .extend(ordered.then(|| "the order of the operators on a device is not drawn".into()));
        } else if placed.plan.priority.is_some() {
            let note = "the runtime, not the plan, determines the order of the operators on a device";
            export.notes.push(note.into());
        }
        Ok(export.also(figures(placed.plan.model.as_ref(), Some(objective))))
    }
}

/// Number of microbatches whose activations a pipeline of one stage keeps.
fn kept_alone(schedule: Schedule, microbatches: u32) -> u32 {
    if schedule == Schedule::GPipe { microbatches } else { 1 }
}

impl Runtime {
    /// How to give the runtime the schedule of the plan.
    fn schedule(&self, placed: &Placed) -> Result<Option<String>> {
        let ObjectiveDocument { schedule, microbatches, .. } = placed.plan.objective;
        let (microbatches, stages) = (microbatches.unwrap_or(1), placed.devices.len());
        if schedule == Schedule::None {
            return Ok(None);
        }
        let planned = schedule.name();
        match &self.schedules {
            Schedules::Own(what) => Ok(Some(format!(
                "the schedule {planned} and its {microbatches} microbatches are not written: {what}"
            ))),
            Schedules::Of { names, usage, rule, refusal } => {
                // On one device all schedules take the same time, but they do not keep the same activations.
                let exact = names.iter().find(|&&(known, _)| known == schedule);
                let lean = |&&(known, _): &&(Schedule, &str)| {
                    stages == 1 && kept_alone(known, microbatches) <= kept_alone(schedule, microbatches)
                };
                let found = exact.or_else(|| names.iter().find(lean));
                let Some(&(known, name)) = found else {
                    return Err(ExportError::Schedule { schedule: planned, rule });
                };
                match refusal(known, microbatches, stages).filter(|_| stages > 1) {
                    Some((rule, help)) => Err(ExportError::Microbatches { microbatches, stages, rule, help }),
                    None => Ok(Some(usage(name, microbatches))),
                }
            }
        }
    }

    /// Notes on weights and constants on several devices: a note for all weights on the same devices, and one for
    /// all constants.
    fn sharing(&self, placed: &Placed) -> Result<Vec<String>> {
        let Some(graph) = placed.graph else {
            let note = "without --model it is not known whether devices share weights";
            return Ok(if placed.devices.len() > 1 { vec![note.into()] } else { Vec::new() });
        };
        let trains = match self.passes {
            Passes::Training => true,
            Passes::Given | Passes::Drawn => graph.has_backward(),
            Passes::Forward => false,
        };
        let mut weights: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut constants: Vec<String> = Vec::new();
        for parameter in shared(placed) {
            let name = parameter.document.name.clone();
            match &self.sharing.trained {
                _ if !parameter.document.trained => constants.push(name),
                Trained::Refused(rule) if trains => return Err(parameter.refused(placed, (rule, UNTIE))),
                Trained::Written if trains => {}
                _ => weights.entry(parameter.holders(placed)).or_default().push(name),
            }
        }
        let of_weight = match &self.sharing.trained {
            Trained::Noted(what) if trains => *what,
            _ => self.sharing.weight,
        };
        let are = |count: usize| if count == 1 { "is" } else { "are" };
        let note = |(devices, names): (String, Vec<String>)| {
            format!("{} {} on {devices}: {of_weight}", listed(&names), are(names.len()))
        };
        let mut notes: Vec<String> = weights.into_iter().map(note).collect();
        if !constants.is_empty() {
            notes.push(format!(
                "{} {} on several devices: {}",
                listed(&constants),
                are(constants.len()),
                self.sharing.constant
            ));
        }
        Ok(notes)
    }

    /// Passes that the runtime does not execute.
    fn passes(&self, placed: &Placed) -> Option<String> {
        let count = placed.operators.iter().filter(|operator| !operator.is_forward()).count();
        (self.passes == Passes::Forward && count > 0).then(|| {
            let name = self.name;
            format!(
                "{name} runs the forward pass alone: {count} operators of the backward pass and the update are left out"
            )
        })
    }
}

/// A note on the options for which the figures of a plan were computed; `None` if there are none.
pub(crate) fn figures(
    options: Option<&ModelOptionsDocument>,
    objective: Option<&ObjectiveDocument>,
) -> Option<String> {
    let mut given: Vec<String> = Vec::new();
    if let Some(options) = options {
        let batch = options.batch.map(|batch| format!("a batch of {batch}"));
        let precision = options.precision.map(|precision| format!("the precision {precision}"));
        let context = options.context.map(|tokens| format!("a key-value cache of {tokens} tokens"));
        let sequences = options.sequences.map(|count| format!("{count} sequences in the key-value cache"));
        let reserve =
            options.memory_reserve.map(|free| format!("{} free on every device", bytes(free as f64)));
        given.extend(batch);
        given.extend(options.dims.iter().map(|(name, size)| format!("{name} = {size}")));
        given.extend([precision, context, sequences, reserve].into_iter().flatten());
    }
    if let Some(objective) = objective {
        let rules = [
            (objective.communication == Communication::Overlap, "transfers that overlap with computation"),
            (
                objective.communication == Communication::Duplex,
                "transfers in both directions that overlap with computation",
            ),
            (objective.training == Training::Separate, "forward and backward passes one after the other"),
            (objective.execution == Execution::ContentionFree, "transfers that do not contend"),
        ];
        given.extend(rules.into_iter().filter(|&(has, _)| has).map(|(_, what)| what.to_owned()));
    }
    let last = given.pop()?;
    let listed = if given.is_empty() { last } else { format!("{} and {last}", given.join(", ")) };
    Some(format!("the figures of the plan are for {listed}"))
}
