//! Errors of exporting a plan to a runtime.
//!
//! `data/errors.md` documents every code.

mod joint;
mod serving;

use stagewright_core::code::Code;
use thiserror::Error;

use crate::code::E::{self, *};
pub use joint::JointError;
pub use serving::ServingError;
use stagewright_formats::clusters::suggestion;
use stagewright_formats::nearest::instead;
use stagewright_report::units::name as shown;

/// Code for a number of microbatches that the runtime's schedule does not run, in an ordinary or a joint plan.
pub(crate) const MICROBATCHES: E = E028;
/// Code for a schedule that the runtime does not have, in an ordinary or a joint plan.
pub(crate) const SCHEDULE: E = E030;

/// Advice for plans that cut layers.
const WHOLE_LAYERS: &str = "plan with --whole-layers, which keeps the operators of every layer together; or give \
                            them one `colocation` in the model, or pin them to one device; a workload at \
                            `--granularity layer` has two operators per layer";

/// An operator with its place in a plan, for error messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sited {
    /// The operator.
    pub operator: String,
    /// Name of the operator's device.
    pub device: String,
    /// Path in the plan, such as `devices[1].ops[3]`.
    pub at: String,
}

/// The result of a step of an export.
pub type Result<T, E = ExportError> = std::result::Result<T, E>;

/// Reason why a plan cannot be exported to a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// No target has this name.
    #[error("unknown target `{}`{}", shown(.name), suggestion(.nearest))]
    UnknownTarget {
        /// The name.
        name: String,
        /// The most similar target name.
        nearest: Option<String>,
        /// The known targets.
        known: Vec<&'static str>,
    },
    /// The plan places no operators.
    #[error("the document has no plan: its status is {status}")]
    NoPlan {
        /// The status of the document.
        status: &'static str,
    },
    /// The model does not have this operator.
    #[error("the model has no operator `{}`", shown(&.0.operator))]
    UnknownOperator(Sited),
    /// Some operators have no device.
    #[error("{count} operators of the model are not placed, the first is `{}`", shown(.first))]
    NotPlaced {
        /// The first operator without a device.
        first: String,
        /// Number of operators without a device.
        count: usize,
    },
    /// An operator is on two devices, or twice on one.
    #[error("operator `{}` is placed twice", shown(&.0.operator))]
    PlacedTwice(Sited),
    /// The target needs information that only the model has.
    #[error("`{target}` needs the model: {why}")]
    NeedsModel {
        /// The target.
        target: &'static str,
        /// The information that the plan lacks.
        why: &'static str,
    },
    /// The runtime does not support data-parallel stages.
    #[error("{} stands for {count} devices, but {runtime} has no replicated stages in this notation", shown(.device))]
    Replicas {
        /// The runtime.
        runtime: &'static str,
        /// The device.
        device: String,
        /// Number of devices that run the device's stage.
        count: u32,
        /// Path in the plan.
        at: String,
    },
    /// A device of a latency plan has more than one call.
    #[error("{} has {count} calls, but {runtime} runs each device once per step", shown(.device))]
    Calls {
        /// The runtime.
        runtime: &'static str,
        /// The device.
        device: String,
        /// Number of the device's calls.
        count: usize,
        /// Path in the plan.
        at: String,
    },
    /// The devices have no pipeline order.
    #[error("the devices of the plan have no pipeline order, but {runtime} runs only pipelines")]
    NoOrder {
        /// The runtime.
        runtime: &'static str,
    },
    /// A tensor contradicts the pipeline order.
    #[error(
        "`{}` on {} reads `{}` on {}, a later stage, but {runtime} runs only pipelines",
        shown(&.reader.operator), shown(&.reader.device), shown(&.producer.operator), shown(&.producer.device)
    )]
    Backwards {
        /// The runtime.
        runtime: &'static str,
        /// The producer of the tensor.
        producer: Box<Sited>,
        /// The operator that reads the tensor.
        reader: Box<Sited>,
    },
    /// A layer is on two devices.
    #[error(
        "the plan cuts inside `{}`: `{}` is on {}, `{}` on {}",
        shown(.layer), shown(&.left.operator), shown(&.left.device), shown(&.right.operator), shown(&.right.device)
    )]
    Cut {
        /// The layer or module.
        layer: String,
        /// An operator of the layer or module on one device.
        left: Box<Sited>,
        /// An operator of the layer or module on another device.
        right: Box<Sited>,
    },
    /// A backward or update operator is not on the device of its forward operator.
    #[error(
        "`{}` is on {} and its forward operator `{}` on {}, but the runtime runs both on one device",
        shown(&.operator.operator), shown(&.operator.device), shown(&.forward.operator), shown(&.forward.device)
    )]
    Apart {
        /// The backward or update operator.
        operator: Box<Sited>,
        /// Forward operator of the backward or update operator.
        forward: Box<Sited>,
    },
    /// A backward or update operator has no forward operator.
    #[error("`{}` is a backward or update operator without a known forward operator", shown(&.0.operator))]
    Orphan(Sited),
    /// An operator belongs to no part of a module that is on several devices.
    #[error(
        "`{}` on {} is in no submodule of `{}`, which is on several devices, {why}",
        shown(&.operator.operator), shown(&.operator.device), shown(.module)
    )]
    Loose {
        /// The module.
        module: String,
        /// The operator.
        operator: Sited,
        /// Why the operator might run elsewhere.
        why: &'static str,
    },
    /// An operator belongs to no module.
    #[error(
        "`{}` on {} is in no module, and its inputs and readers are on other devices",
        shown(&.0.operator), shown(&.0.device)
    )]
    NoModule(Sited),
    /// The model has no single stack of layers that can be counted.
    #[error("{runtime} counts the layers of one stack, but {why}")]
    NoStack {
        /// The runtime.
        runtime: &'static str,
        /// The reason.
        why: String,
    },
    /// A layer is in a stage where the runtime does not run it.
    #[error("`{}` is on {}, stage {stage} of {stages}, but {rule}", shown(&.operator.operator), shown(&.operator.device))]
    Misplaced {
        /// The operator.
        operator: Box<Sited>,
        /// Stage of the operator, counted from 1.
        stage: usize,
        /// Number of stages.
        stages: usize,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// The plan uses devices that the runtime does not have.
    #[error("the plan uses {what}, but {rule}")]
    Devices {
        /// The devices.
        what: String,
        /// The runtime's rule.
        rule: &'static str,
    },
    /// The runtime does not accept these numbers of layers per stage.
    #[error("the stages have {} layers, but {rule}", separated(.counts))]
    Counts {
        /// Layers of each stage.
        counts: Vec<usize>,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// Layers read from one another in a cycle.
    #[error("{} form a cycle, so they cannot run in sequence", listed_up_to(.layers, 4))]
    Ring {
        /// The layers, each read by the next and the last by the first.
        layers: Vec<String>,
        /// The first operator of the first layer.
        first: Box<Sited>,
    },
    /// A layer reads a layer other than the previous one.
    #[error(
        "`{}` reads `{}` of `{}` and comes after `{}`: {runtime} passes each layer the output of the previous one",
        shown(.layer), shown(.tensor), shown(.producer), shown(.before)
    )]
    Skip {
        /// The runtime.
        runtime: &'static str,
        /// The tensor.
        tensor: Box<str>,
        /// The layer that produces the tensor.
        producer: Box<str>,
        /// The layer that reads the tensor.
        layer: Box<str>,
        /// The previous layer.
        before: Box<str>,
        /// The operator that reads the tensor.
        reader: Box<Sited>,
    },
    /// A layer does not read the previous one.
    #[error(
        "`{}` does not read `{}`, the previous layer: {runtime} passes each layer the output of the previous one",
        shown(.layer), shown(.before)
    )]
    Start {
        /// The runtime.
        runtime: &'static str,
        /// The layer.
        layer: String,
        /// The previous layer.
        before: String,
        /// The first operator of the layer.
        first: Box<Sited>,
    },
    /// The runtime cannot address a module by its name.
    #[error("`{}` is a module that {runtime} cannot address: {why}", shown(.module))]
    Name {
        /// The runtime.
        runtime: &'static str,
        /// The module.
        module: String,
        /// The reason.
        why: &'static str,
    },
    /// The runtime does not have the schedule.
    #[error("the plan has the schedule {schedule}, but {rule}")]
    Schedule {
        /// Name of the schedule.
        schedule: &'static str,
        /// The runtime's rule.
        rule: &'static str,
    },
    /// The schedule of the runtime needs a different number of microbatches.
    #[error("the plan has {microbatches} microbatches in {stages} stages, but {rule}")]
    Microbatches {
        /// Microbatches of an iteration.
        microbatches: u32,
        /// Number of stages.
        stages: usize,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
    },
    /// The runtime does not train copies of one weight on several devices.
    #[error("`{}` is a weight on {devices}, but {rule}", shown(.weight))]
    Shared {
        /// The weight.
        weight: String,
        /// The devices that hold the weight, for display.
        devices: String,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
        /// Path of a reader in the plan.
        at: String,
    },
    /// The runtime lacks an option of llama.cpp that a local plan has.
    #[error("the plan has {what}, but {rule}")]
    Setting {
        /// The option, with its value.
        what: String,
        /// The runtime's rule.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
        /// Path in the plan.
        at: &'static str,
    },
    /// The runtime cannot execute a joint plan.
    #[error(transparent)]
    Joint(#[from] JointError),
    /// The engine cannot run a serving plan.
    #[error(transparent)]
    Serving(#[from] ServingError),
}

impl ExportError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            ExportError::UnknownTarget { .. } => E001,
            ExportError::NoPlan { .. } => E002,
            ExportError::UnknownOperator(_) => E003,
            ExportError::NotPlaced { .. } => E004,
            ExportError::PlacedTwice(_) => E005,
            ExportError::NeedsModel { .. } => E006,
            ExportError::Replicas { .. } => E007,
            ExportError::Calls { .. } => E008,
            ExportError::NoOrder { .. } | ExportError::Backwards { .. } => E009,
            ExportError::Cut { .. } => E010,
            ExportError::Apart { .. } => E011,
            ExportError::Orphan(_) => E012,
            ExportError::Loose { .. } => E013,
            ExportError::NoStack { .. } => E014,
            ExportError::Misplaced { .. } => E015,
            ExportError::Devices { .. } => E016,
            ExportError::Counts { .. } => E017,
            ExportError::Name { .. } => E018,
            ExportError::Ring { .. } => E019,
            ExportError::Skip { .. } | ExportError::Start { .. } => E020,
            ExportError::NoModule(_) => E021,
            ExportError::Microbatches { .. } => MICROBATCHES,
            ExportError::Schedule { .. } => SCHEDULE,
            ExportError::Shared { .. } => E031,
            ExportError::Setting { .. } => E032,
            ExportError::Joint(error) => return error.code(),
            ExportError::Serving(error) => return error.code(),
        }
        .into()
    }

    /// Path of the offending entry of the plan, such as `devices[1].ops[3]`; `None` if there is no single entry.
    pub fn place(&self) -> Option<&str> {
        match self {
            ExportError::UnknownOperator(sited)
            | ExportError::PlacedTwice(sited)
            | ExportError::Orphan(sited)
            | ExportError::NoModule(sited)
            | ExportError::Loose { operator: sited, .. } => Some(&sited.at),
            ExportError::Backwards { reader: sited, .. }
            | ExportError::Cut { right: sited, .. }
            | ExportError::Apart { operator: sited, .. }
            | ExportError::Misplaced { operator: sited, .. }
            | ExportError::Ring { first: sited, .. }
            | ExportError::Skip { reader: sited, .. }
            | ExportError::Start { first: sited, .. } => Some(&sited.at),
            ExportError::Replicas { at, .. }
            | ExportError::Calls { at, .. }
            | ExportError::Shared { at, .. } => Some(at),
            ExportError::Setting { at, .. } => Some(at),
            ExportError::Schedule { .. } => Some("objective.schedule"),
            ExportError::Microbatches { .. } => Some("objective.microbatches"),
            ExportError::NoPlan { .. } => Some("status"),
            ExportError::NoOrder { .. } => Some("devices[0].stage"),
            ExportError::Joint(error) => error.place(),
            ExportError::Serving(error) => Some(error.place()),
            _ => None,
        }
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> String {
        match self {
            ExportError::UnknownTarget { name, known, .. } => {
                format!("{}; `stagewright export --list` describes each", instead(name, known.iter().copied()))
            }
            ExportError::NoPlan { .. } => "give a document with a plan, as `plan --out` writes it".into(),
            ExportError::UnknownOperator(_) | ExportError::NotPlaced { .. } => {
                "give the model that the plan was made for; `check` lists every mismatch".into()
            }
            ExportError::PlacedTwice(_) => "keep one of the two; `check` lists every violation".into(),
            ExportError::NeedsModel { .. } => "give the model that the plan was made for with --model".into(),
            ExportError::Replicas { .. } => {
                "plan with --max-replicas 1, or export to pipedream, which supports replicas".into()
            }
            ExportError::Calls { .. } => {
                "plan with --calls 1 or for throughput, or export to dot to view the plan".into()
            }
            ExportError::NoOrder { .. } => {
                "plan for throughput with --split contiguous; for a split of the reference package give --model".into()
            }
            ExportError::Backwards { .. } => "plan for throughput with --split contiguous".into(),
            ExportError::Cut { .. } => WHOLE_LAYERS.into(),
            ExportError::Apart { .. } => {
                "give both one `colocation` in the model, as the importers and workloads do, and plan again".into()
            }
            ExportError::Orphan(_) => {
                "give it the `colocation` or the `layer` of its forward operator in the model".into()
            }
            ExportError::Loose { .. } => {
                "give the operators of the module one `colocation` in the model and plan again".into()
            }
            ExportError::NoModule(_) => {
                "pin it to the device of its inputs with --pins, or give it the `layer` of the module that runs it in \
                 the model"
                    .into()
            }
            ExportError::NoStack { .. } => {
                "name operators by paths with one numbered stack, such as model.layers.3.mlp, or choose a target that \
                 lists modules, such as accelerate"
                    .into()
            }
            ExportError::Devices { .. } => "plan on a cluster of devices that the runtime has".into(),
            ExportError::Misplaced { help, .. }
            | ExportError::Counts { help, .. }
            | ExportError::Microbatches { help, .. }
            | ExportError::Setting { help, .. }
            | ExportError::Shared { help, .. } => (*help).into(),
            ExportError::Schedule { .. } => {
                "plan with a schedule that the runtime has, or without --schedule; the page docs/runtimes.md lists them"
                    .into()
            }
            ExportError::Ring { .. } => {
                "give the operators between them a `layer` of their own in the model, or export to accelerate, which \
                 has no order of modules"
                    .into()
            }
            ExportError::Skip { .. } | ExportError::Start { .. } => {
                "export to torch-pipelining, pipedream or accelerate, whose models may branch".into()
            }
            ExportError::Name { .. } => "rename the module, or choose a target that lists operators".into(),
            ExportError::Joint(error) => error.help().into(),
            ExportError::Serving(error) => error.help().into(),
        }
    }
}

/// A plan that contradicts itself at a path.
pub(crate) fn inconsistent(why: String, place: impl Into<String>) -> ExportError {
    JointError::Inconsistent { why, at: place.into() }.into()
}

/// Lists all names.
pub(super) fn listed(names: &[String]) -> String {
    listed_up_to(names, names.len())
}

/// Lists the first names in full, and the number of the others.
pub(super) fn listed_up_to(names: &[String], limit: usize) -> String {
    let mut shown: Vec<String> = names.iter().take(limit).map(|name| format!("`{}`", shown(name))).collect();
    if names.len() > limit {
        shown.push(format!("{} more", names.len() - limit));
    }
    match shown.pop() {
        Some(last) if shown.is_empty() => last,
        Some(last) => format!("{} and {last}", shown.join(", ")),
        None => String::new(),
    }
}

/// Numbers, separated by commas.
fn separated(counts: &[usize]) -> String {
    counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
