//! A request: a model with its options, an objective and a solver.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use stagewright_core::document::{
    ClusterDocument, Communication, CostsDocument, Execution, ObjectiveDocument, ObjectiveKind, PinsDocument,
    RecomputeWorkspace, Schedule, SecondGoal, Split, Training,
};
use stagewright_core::objective::Objective;
use stagewright_core::problem::ProblemError;
use stagewright_core::solver::Solver;
use stagewright_costs::Unmeasured;

use super::{Kind, LocalOptions, ServingOptions};
use crate::code::{U001, U013};
use crate::failure::{Failure, Result};
use crate::files::{Input, Opened};
use crate::reading::{self, ModelOptions, Place};

/// The documents that pose a question, before its kind is known.
pub struct Request {
    /// The model: a file or its content, with its label in errors.
    pub model: Opened,
    /// The cluster that the user gave, with its label in errors.
    pub cluster: Option<(String, ClusterDocument)>,
    /// The cluster that a plan keeps, with its label in errors: the default for a question about the plan. Any other
    /// question takes it only if neither the user nor the model has a cluster.
    pub kept_cluster: Option<(String, ClusterDocument)>,
    /// Devices that operators are restricted to.
    pub pins: Option<PinsDocument>,
    /// How the model is read.
    pub options: ModelOptions,
    /// Measurements that price the model, with their labels in errors.
    pub costs: Vec<(String, CostsDocument)>,
    /// The objective and its rules, as far as they are given.
    pub objective: ObjectiveOptions,
    /// The parallelism that a joint plan may use; `None` for plans in which every operator runs on one device.
    pub parallel: Option<ParallelOptions>,
    /// The options of a local plan; `None` for any other.
    pub local: Option<LocalOptions>,
    /// The options of a serving plan; `None` for any other.
    pub serving: Option<ServingOptions>,
    /// Outputs of `llama-bench` that calibrate the machine of a local plan.
    pub benches: Vec<Input>,
    /// Requirements on the plan, and a second goal.
    pub selection: SelectionOptions,
    /// A plan to start from.
    pub start: Option<Input>,
    /// The solver.
    pub solver: SolverChoice,
    /// Names of the options given in addition to those of the model, as in [`options`](super::options).
    pub given: BTreeSet<String>,
    /// Whether what was not measured has the prices that classes state, unless the options name others.
    pub is_stated: bool,
    /// Place of an option in errors and notes.
    pub place: Place,
}

/// The objective and its rules as options. `None` means the default or, if there is a plan, the value that it states.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObjectiveOptions {
    /// The value to minimise.
    pub objective: Option<ObjectiveKind>,
    /// Sets of operators that may share a device.
    pub split: Option<Split>,
    /// Overlap of communication with compute.
    pub communication: Option<Communication>,
    /// Scoring of the passes of a training step.
    pub training: Option<Training>,
    /// Maximum number of calls per accelerator.
    pub calls: Option<u32>,
    /// Execution of a step.
    pub execution: Option<Execution>,
    /// Pipeline schedules: one, or several among which a joint plan may choose.
    pub schedule: Vec<Schedule>,
    /// Number of microbatches of the schedule.
    pub microbatches: Option<u32>,
    /// Maximum number of devices that a stage may be replicated on.
    pub max_replicas: Option<u32>,
}

/// Requirements on a plan beyond the constraints of its problem, and a second goal.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelectionOptions {
    /// Exact number of stages.
    pub stages: Option<u32>,
    /// Maximum number of nodes that a token may pass, in a layer flow.
    pub max_hops: Option<u32>,
    /// Whether every device must have work.
    pub all_devices: bool,
    /// Names or patterns of operators, those of each of which share a stage that holds nothing else.
    pub alone: Vec<String>,
    /// Share by which the value may exceed the best, for a second goal.
    pub within: Option<f64>,
    /// The second goal.
    pub then: Option<SecondGoal>,
}

/// Features that a joint plan may use.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelOptions {
    /// Kinds of parallelism separated by commas, each with an optional degree: `tp=8,dp,pp`.
    pub parallel: String,
    /// Samples of a batch over all copies.
    pub global_batch: Option<u64>,
    /// Samples of a microbatch; `None` for any.
    pub microbatch: Option<u32>,
    /// Stages per device under the schedules interleaved and dualpipe-v; `None` for any number.
    pub chunks: Option<u32>,
    /// Layers of the stack on every stage; `None` for any.
    pub cut: Option<Vec<u32>>,
    /// Runtime that trains the model: a name, or the path of a file.
    pub runtime: Option<String>,
    /// Memory taken by layers that are recomputed, for a file of Piper.
    pub recompute_workspace: Option<RecomputeWorkspace>,
}

/// The choice of a solver for a question.
#[derive(Clone)]
pub enum SolverChoice {
    /// No solver, for bounds that need none.
    None,
    /// The solver that suits the question.
    Auto,
    /// A solver of the registry.
    Named(String),
    /// A solver supplied by the caller, with its label in the plan.
    Own(Arc<dyn Solver>, String),
}

impl ObjectiveOptions {
    /// The objective that results from overriding the defaults, with a note if a given split has no effect.
    ///
    /// # Errors
    /// Rules that exclude each other (U001, P-codes).
    pub fn objective(&self, place: &Place) -> Result<(Objective, Option<String>)> {
        let mut document = Objective::default().to_document(None);
        self.override_document(&mut document, place)?;
        let note = reading::without_split(&mut document, self.split.is_some(), |name| place(name));
        Ok((objective_of(&document)?, note))
    }

    /// Overrides the rules of an objective with those that were given.
    ///
    /// # Errors
    /// More than one schedule, or calls for an objective without calls (U001).
    pub fn override_document(&self, document: &mut ObjectiveDocument, place: &Place) -> Result<()> {
        document.kind = self.objective.unwrap_or(document.kind);
        document.split = self.split.unwrap_or(document.split);
        document.communication = self.communication.unwrap_or(document.communication);
        document.training = self.training.unwrap_or(document.training);
        document.execution = self.execution.unwrap_or(document.execution);
        document.schedule = match self.schedule[..] {
            [] => document.schedule,
            [schedule] => schedule,
            _ => {
                let cause = "several schedules are given, but only a joint plan chooses one";
                let help = format!("give one, or {}", place("parallel"));
                return Err(Failure::new(U001, cause).at(place("schedule")).help(help));
            }
        };
        document.microbatches = self.microbatches.or(document.microbatches);
        document.max_replicas = self.max_replicas.or(document.max_replicas);
        if let Some(calls) = self.calls {
            let option = place("calls");
            let why = match (calls, document.kind) {
                (0, _) => format!("{option} is 0"),
                (_, ObjectiveKind::Latency) => String::new(),
                _ => format!("{option} is only for {} latency", place("objective")),
            };
            if !why.is_empty() {
                return Err(Failure::new(U001, why).at(option).help("leave it out"));
            }
            document.calls = Some(calls);
        }
        Ok(())
    }
}

/// The objective of a document.
///
/// # Errors
/// Rules that exclude each other.
pub fn objective_of(document: &ObjectiveDocument) -> Result<Objective> {
    Objective::from_document(document).map_err(|error| {
        let error = ProblemError::from(error);
        Failure::new(error.code(), error.to_string()).help("correct the options of the objective")
    })
}

/// Whether two documents have the same objective, values aside. Rules that an objective ignores do not count.
pub fn is_same_objective(first: &ObjectiveDocument, second: &ObjectiveDocument) -> bool {
    match (Objective::from_document(first), Objective::from_document(second)) {
        (Ok(first), Ok(second)) => first == second,
        _ => ObjectiveDocument { value_s: second.value_s, ..first.clone() } == *second,
    }
}

impl Request {
    /// Refuses options that have no effect on questions of a kind.
    ///
    /// # Errors
    /// The first such option (U013).
    pub(super) fn refuse_for(&self, kind: Kind) -> Result<()> {
        super::options::refuse(kind, self.given.iter().map(String::as_str), &self.place)?;
        let costs = &self.options.document.costs;
        if let (true, Some(word)) =
            (kind != Kind::Placement, costs.iter().find(|word| Unmeasured::named(word).is_some()))
        {
            let option = (self.place)("costs");
            let cause = format!("{word} costs price placements, not a {}", kind.name());
            return Err(Failure::new(U013, cause).at(option).help("leave it out, or give a file"));
        }
        Ok(())
    }

    /// The prices of what was not measured in a placement whose options name none: learned ones for a question, and those that it
    /// was made with for a plan, unless other measurements are given.
    pub fn unnamed(&self, is_planned: bool) -> Unmeasured<'static> {
        match self.is_stated || is_planned && !self.given.contains("costs") {
            true => Unmeasured::Stated,
            false => Unmeasured::learned(),
        }
    }
}
