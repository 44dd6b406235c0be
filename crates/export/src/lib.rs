//! Export of plans to the notations of runtimes.
//!
//! A plan is read once, into [`Placed`], which has every operator exactly once. A target then writes it in the
//! notation of its runtime, or refuses: nothing is left out or moved to make a plan fit. Parts of a plan that
//! the notation lacks, such as its schedule or a weight that several devices hold, are noted by name or refused
//! by `runtime`. Code shared by several targets is organised by the units that their runtimes divide:
//!
//! | runtimes divide | module | targets |
//! | --- | --- | --- |
//! | operators | [`placed`] | `openvino`, `onnxruntime`, `dot`, `mermaid` |
//! | modules, in any way | [`modules`] | `accelerate` |
//! | modules, in the order of the program | [`pipeline`] | `torch-pipelining` |
//! | a sequence of layers | [`sequence`] | `torchgpipe`, `deepspeed`, `pipedream` |
//! | one stack of layers, by counting | [`stack`] | `megatron`, `megatron-layers`, `vllm`, `sglang`, `llama-cpp` |
//! | either of the last two | | `torchtitan` |
//!
//! The layer or module of an operator is derived from its path: see [`layers`] and, for built-in workloads and
//! operators outside of all modules, [`paths`]. Every runtime that trains runs the operators of the backward pass
//! and of the update with their forward operator, so a plan must have them on one device.
//! Each target names the source of its syntax and the version it was written for.
//!
//! Joint plans, which split operators as well, are read and written by [`joint`], plans of a language model on one machine
//! by [`local`], and plans of its replicas on a cluster by [`serving`].
//!
//! # Adding a target
//!
//! Add a file in `targets` with a `static TARGET`, and its row in [`TARGETS`]; CONTRIBUTING.md has the recipe.

pub mod code;
pub mod error;
pub mod joint;
pub mod layers;
mod literal;
pub mod local;
pub mod modules;
pub mod paths;
pub mod pipeline;
pub mod placed;
pub mod published;
mod runtime;
pub mod sequence;
pub mod serving;
pub mod shared;
pub mod stack;
mod targets;

pub use error::{ExportError, Result, Sited};
pub use joint::{JOINT_TARGETS, JointTarget, export_joint, export_joint_noted, joint_target};
pub use local::{LOCAL_TARGETS, LocalTarget, export_local, export_local_noted, local_target};
pub use placed::Placed;
pub use serving::{SERVING_TARGETS, ServingTarget, export_serving, export_serving_noted, serving_target};
pub use targets::TARGETS;

use runtime::Runtime;
use stagewright_formats::nearest::nearest;

/// A runtime, or one of its notations.
#[derive(Debug)]
pub struct Target {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the output, for display.
    pub summary: &'static str,
    /// Limits of the target: the parts of a plan that it cannot express, in one line.
    pub limits: &'static str,
    /// Writes the text of a plan with the notes on it, or returns the reason why it cannot.
    write: fn(&Placed) -> Result<Export>,
    /// Treatment of the parts of a plan that are not in the text.
    runtime: Runtime,
}

impl Target {
    /// Writes a plan in the notation of the runtime, with notes on everything that the text lacks.
    ///
    /// # Errors
    /// If the notation cannot express the plan (E006 to E021), or the runtime does not run its schedule or train a
    /// weight of several devices (E028, E030 and E031).
    pub fn export(&self, placed: &Placed) -> Result<Export> {
        self.complete(placed, (self.write)(placed)?)
    }
}

/// A plan in the notation of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The text, ending in a newline.
    pub text: String,
    /// Usage notes, for display.
    pub notes: Vec<String>,
    /// Whether a runtime executes the plan, in an order of the runtime's own; false for drawings.
    pub runs: bool,
}

impl Export {
    /// A text without notes.
    fn new(text: impl Into<String>) -> Export {
        Export { text: text.into(), notes: Vec::new(), runs: true }
    }

    /// A drawing without notes.
    fn drawing(text: impl Into<String>) -> Export {
        Export { runs: false, ..Export::new(text) }
    }

    fn note(mut self, note: impl Into<String>) -> Export {
        self.notes.push(note.into());
        self
    }

    /// Adds an optional note.
    fn also(mut self, note: Option<String>) -> Export {
        self.notes.extend(note);
        self
    }
}

/// Looks up a target by name.
///
/// ```
/// use stagewright_export::target;
/// assert_eq!(target("megatron")?.name, "megatron");
/// assert!(target("megatorn").unwrap_err().to_string().ends_with("did you mean `megatron`?"));
/// # Ok::<(), stagewright_export::ExportError>(())
/// ```
///
/// # Errors
/// If there is no such target (E001, with the most similar name).
pub fn target(name: &str) -> Result<&'static Target> {
    if let Some(target) = TARGETS.iter().find(|target| target.name == name) {
        return Ok(target);
    }
    let known: Vec<&'static str> = TARGETS.iter().map(|target| target.name).collect();
    let nearest = nearest(name, known.iter().copied());
    Err(ExportError::UnknownTarget { name: name.to_owned(), nearest, known })
}
