//! A joint plan for an iteration, as read from its document.

use std::borrow::Cow;
use std::collections::BTreeMap;

use stagewright_core::document::{
    ContextExchange, JointExecutionDocument, JointObjectiveKind, JointPlanDocument, JointStageDocument,
    ModelOptionsDocument, Schedule,
};
use stagewright_formats::layers::{Numbered, layers_of};
use stagewright_report::units::name as shown;

use crate::error::JointError;
use crate::{ExportError, Result};

/// A joint plan for an iteration. Every stage has layers, and the numbers of its document agree.
#[derive(Debug)]
pub struct Joint<'a> {
    /// Samples of a batch, over all copies.
    pub global_batch: u64,
    /// Options for which the figures of the plan were computed.
    pub options: Option<&'a ModelOptionsDocument>,
    /// Settings common to all stages.
    pub execution: &'a JointExecutionDocument,
    /// Schedule of the microbatches. On one device, zero-bubble and zero-bubble-2p run like 1F1B and are read as 1F1B.
    pub schedule: Schedule,
    /// Devices of a pipeline, p: tensor- and context-parallel groups of one copy. Stage k is on device k mod p.
    pub devices: usize,
    /// The stages in the order of the forward pass; never empty.
    pub stages: Vec<Stage<'a>>,
}

/// A stage.
#[derive(Debug)]
pub struct Stage<'a> {
    /// Kind of the stage's devices.
    pub kind: Option<&'a str>,
    /// Copies on each of two kinds, instead of one kind.
    pub mixed: &'a BTreeMap<String, u32>,
    /// Degree of tensor parallelism.
    pub tensor: u32,
    /// Layers of the stage; never empty.
    pub layers: Vec<Layer<'a>>,
}

/// A layer.
#[derive(Debug)]
pub struct Layer<'a> {
    /// Name of the layer.
    pub name: &'a str,
    /// Position of the layer in a stack, if it has one.
    pub number: Option<Numbered>,
    /// The part of the layer that is recomputed.
    pub recompute: Recompute,
    /// Path in the plan.
    pub at: String,
}

/// Configuration of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing is recomputed.
    None,
    /// Everything but products is recomputed.
    Selective,
    /// The whole layer is recomputed.
    Full,
    /// Nothing is recomputed, and what the backward pass needs is in the host's memory.
    Offload,
}

impl Recompute {
    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Recompute::None => "none",
            Recompute::Selective => "selective",
            Recompute::Full => "full",
            Recompute::Offload => "offload",
        }
    }

    fn of(name: &str) -> Option<Recompute> {
        [Recompute::None, Recompute::Selective, Recompute::Full, Recompute::Offload]
            .into_iter()
            .find(|known| known.name() == name)
    }
}

impl<'a> Joint<'a> {
    /// Reads a document.
    ///
    /// # Errors
    /// If it has no plan (E002), is for the time per sample (E022), or its numbers disagree (E029).
    pub fn read(document: &'a JointPlanDocument) -> Result<Joint<'a>> {
        if document.objective.kind == JointObjectiveKind::TimePerSample {
            return Err(JointError::PerSample.into());
        }
        let Some(execution) = document.execution.as_ref().filter(|_| !document.stages.is_empty()) else {
            return Err(ExportError::NoPlan { status: document.status.name() });
        };
        check(execution, document.objective.global_batch)?;
        let devices = devices(execution, &document.stages)?;
        let names: Vec<Cow<str>> = document
            .stages
            .iter()
            .flat_map(|stage| &stage.layers)
            .map(|layer| Cow::Borrowed(layer.layer.as_str()))
            .collect();
        let mut numbers = layers_of(&names).into_iter().map(|found| found.number);
        let stages = document
            .stages
            .iter()
            .enumerate()
            .map(|(stage, read)| Stage::read(stage, read, execution, &mut numbers))
            .collect::<Result<_>>()?;
        let schedule = if devices == 1 { Schedule::OneFOneB } else { execution.schedule };
        let global_batch = document.objective.global_batch;
        Ok(Joint { global_batch, options: document.options.as_ref(), execution, schedule, devices, stages })
    }

    /// The degree of tensor parallelism.
    ///
    /// # Errors
    /// If stages have different degrees (E023).
    pub fn tensor(&self, runtime: &'static str) -> Result<u32> {
        let first = self.stages[0].tensor;
        match self.stages.iter().position(|stage| stage.tensor != first) {
            None => Ok(first),
            Some(stage) => Err(JointError::Degrees {
                runtime,
                what: "tensor",
                stage: stage + 1,
                found: self.stages[stage].tensor,
                first,
                at: format!("stages[{stage}].tensor"),
            }
            .into()),
        }
    }

    /// Copies of a state: tensor-parallel groups with the same parameters.
    pub fn copies(&self) -> u64 {
        copies(self.execution)
    }

    /// The stage of ZeRO; 0 if there is only one copy.
    pub fn zero(&self) -> u32 {
        if self.copies() == 1 { 0 } else { self.execution.zero }
    }

    /// Degree of context parallelism with its exchange, if there is any.
    pub fn context(&self) -> Option<(u32, ContextExchange)> {
        self.execution.exchange.map(|exchange| (self.execution.context, exchange))
    }

    /// Refuses context parallelism.
    ///
    /// # Errors
    /// If the plan has any (E033).
    pub fn no_context(&self, rule: &'static str, help: &'static str) -> Result<()> {
        match self.context() {
            None => Ok(()),
            Some((context, exchange)) => {
                Err(JointError::Context { context, exchange: exchange.name(), rule, help }.into())
            }
        }
    }

    /// Refuses states of the optimizer on the host.
    ///
    /// # Errors
    /// If the plan has them there (E034).
    pub fn no_offload(&self, rule: &'static str, help: &'static str) -> Result<()> {
        match self.execution.offload {
            true => Err(JointError::Offload { rule, help }.into()),
            false => Ok(()),
        }
    }

    /// The error for groups of copies that a runtime cannot divide states over.
    pub fn groups(&self, shards: u32, rule: &'static str, help: &'static str) -> ExportError {
        JointError::Groups { shards, copies: self.copies(), rule, help }.into()
    }

    /// All layers, each with its stage.
    pub fn layers(&self) -> impl Iterator<Item = (usize, &Layer<'a>)> {
        self.stages
            .iter()
            .enumerate()
            .flat_map(|(index, stage)| stage.layers.iter().map(move |layer| (index, layer)))
    }
}

impl<'a> Stage<'a> {
    fn read(
        stage: usize,
        read: &'a JointStageDocument,
        execution: &JointExecutionDocument,
        numbers: &mut impl Iterator<Item = Option<Numbered>>,
    ) -> Result<Stage<'a>> {
        let number = stage + 1;
        if read.data != execution.data {
            let why = format!("stage {number} has {} copies and the execution {}", read.data, execution.data);
            return inconsistent(why, format!("stages[{stage}].data"));
        }
        if read.tensor == 0 {
            return inconsistent(
                format!("stage {number} has tensor parallelism 0"),
                format!("stages[{stage}].tensor"),
            );
        }
        if read.layers.is_empty() {
            return inconsistent(format!("stage {number} has no layers"), format!("stages[{stage}].layers"));
        }
        let on_kinds = read.mixed.values().fold(0u64, |sum, &copies| sum.saturating_add(copies.into()));
        let are_on_both = read.mixed.len() == 2 && read.mixed.values().all(|&copies| copies > 0);
        let is_mixed = read.kind.is_none() && are_on_both && on_kinds == u64::from(read.data);
        if !read.mixed.is_empty() && !is_mixed {
            let why = format!("stage {number} has not its {} copies on two kinds of devices", read.data);
            return inconsistent(why, format!("stages[{stage}].mixed"));
        }
        let mut layers = Vec::with_capacity(read.layers.len());
        for ((index, layer), number) in read.layers.iter().enumerate().zip(numbers) {
            let place = format!("stages[{stage}].layers[{index}]");
            let Some(recompute) = Recompute::of(&layer.configuration) else {
                let why = format!(
                    "`{}` has the configuration `{}`, and a plan for an iteration only `none`, `selective` or `full`",
                    shown(&layer.layer),
                    shown(&layer.configuration)
                );
                return inconsistent(why, place);
            };
            layers.push(Layer { name: &layer.layer, number, recompute, at: place });
        }
        Ok(Stage { kind: read.kind.as_deref(), mixed: &read.mixed, tensor: read.tensor, layers })
    }
}

/// Copies of a state.
fn copies(execution: &JointExecutionDocument) -> u64 {
    u64::from(execution.data) * u64::from(execution.context)
}

/// Checks the numbers that all stages share.
fn check(execution: &JointExecutionDocument, global_batch: u64) -> Result<()> {
    let JointExecutionDocument {
        microbatch,
        microbatches,
        data,
        context,
        exchange,
        expert,
        zero,
        shards,
        ..
    } = *execution;
    let batch = [microbatch, microbatches, data]
        .into_iter()
        .try_fold(1u64, |product, factor| product.checked_mul(factor.into()));
    if batch != Some(global_batch) || global_batch == 0 {
        let why = format!(
            "{microbatches} microbatches of {microbatch} samples in {data} copies are not the batch of {global_batch}"
        );
        return inconsistent(why, "execution".into());
    }
    if context == 0 || (context > 1) != exchange.is_some() {
        let exchange = exchange.map_or("no exchange of tokens", ContextExchange::name);
        let why = format!("context parallelism {context} has {exchange}");
        return inconsistent(why, "execution.context".into());
    }
    let copies = copies(execution);
    if expert == 0 || !copies.is_multiple_of(expert.into()) {
        let why = format!("expert parallelism {expert} does not divide {copies} copies");
        return inconsistent(why, "execution.expert".into());
    }
    if zero > 3 {
        return inconsistent(format!("there is no ZeRO {zero}"), "execution.zero".into());
    }
    if let Some(shards) = shards {
        let are_groups = shards > 1 && u64::from(shards) < copies && copies.is_multiple_of(shards.into());
        if !are_groups || zero == 0 || expert > 1 {
            let why = format!(
                "groups of {shards} divide states as ZeRO {zero}, with {copies} copies and expert parallelism {expert}"
            );
            return inconsistent(why, "execution.shards".into());
        }
    }
    Ok(())
}

/// Checks schedule and chunks, and counts the devices of a pipeline.
fn devices(execution: &JointExecutionDocument, stages: &[JointStageDocument]) -> Result<usize> {
    let JointExecutionDocument { microbatches, schedule, chunks, .. } = *execution;
    let count = stages.len();
    match schedule {
        Schedule::None | Schedule::GPipe => {
            let why = "its schedule is none of 1f1b, interleaved, zero-bubble, zero-bubble-2p and dualpipe-v"
                .into();
            inconsistent(why, "execution.schedule".into())
        }
        Schedule::OneFOneB | Schedule::ZeroBubble | Schedule::ZeroBubbleTwice if chunks == 1 => Ok(count),
        Schedule::OneFOneB | Schedule::ZeroBubble | Schedule::ZeroBubbleTwice => {
            let why = format!("a device has {chunks} stages, and has one under {}", schedule.name());
            inconsistent(why, "execution.chunks".into())
        }
        Schedule::Interleaved | Schedule::DualPipeV => {
            let devices = count / (chunks as usize).max(1);
            let is_folded = schedule == Schedule::DualPipeV;
            if is_folded && (chunks != 2 || devices < 2 || devices * 2 != count) {
                let why = format!(
                    "under dualpipe-v each of at least two devices has two stages, and the plan has {count} stages, {chunks} on \
                     a device"
                );
                return inconsistent(why, "execution.chunks".into());
            }
            if is_folded && (microbatches as usize) < count {
                let why = format!(
                    "dualpipe-v needs at least as many microbatches as stages, {count}, and there are {microbatches}"
                );
                return inconsistent(why, "execution.microbatches".into());
            }
            if chunks < 2 || devices < 2 || devices * chunks as usize != count {
                let why = format!(
                    "at least two stages are interleaved on each of at least two devices, and the plan has {count} stages, \
                     {chunks} on a device"
                );
                return inconsistent(why, "execution.chunks".into());
            }
            if !is_folded && !(microbatches as usize).is_multiple_of(devices) {
                let why = format!(
                    "interleaved stages run rounds of {devices} microbatches, one for every device, and there are \
                     {microbatches}"
                );
                return inconsistent(why, "execution.microbatches".into());
            }
            for (index, stage) in stages.iter().enumerate().skip(devices) {
                let device = schedule.device(index, devices);
                let first = &stages[device];
                let field = match (stage.kind == first.kind, stage.tensor == first.tensor) {
                    (false, _) => "kind",
                    (_, false) => "tensor",
                    _ => continue,
                };
                let why = format!(
                    "stages {} and {} are on one device, and differ in `{field}`",
                    device + 1,
                    index + 1
                );
                return inconsistent(why, format!("stages[{index}].{field}"));
            }
            Ok(devices)
        }
    }
}

fn inconsistent<T>(why: String, place: String) -> Result<T> {
    Err(JointError::Inconsistent { why, at: place }.into())
}
