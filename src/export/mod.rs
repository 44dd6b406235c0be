//! Plans in the notation of the runtimes that people use.
//!
//! A plan is read once, into [`Placed`], which has every operator exactly once. A target then says the same
//! in its runtime's own words, or refuses: nothing is left out or moved to make a plan fit. What targets
//! share stands in between, by what their runtimes divide:
//!
//! | runtimes divide | module | targets |
//! | --- | --- | --- |
//! | operators | [`placed`] | `openvino`, `onnxruntime`, `dot`, `mermaid` |
//! | modules, anyhow | [`modules`] | `accelerate` |
//! | modules, in the order of the program | [`pipeline`] | `torch-pipelining` |
//! | a sequence of layers | [`sequence`] | `torchgpipe`, `deepspeed`, `pipedream` |
//! | one stack of layers, by counting | [`stack`] | `megatron`, `megatron-layers`, `vllm`, `sglang`, `llama-cpp` |
//! | either of these two | | `torchtitan` |
//!
//! Which layer or module an operator belongs to is read off its path: see [`layers`] and, for built-in workloads and
//! for what is in no module, [`paths`]. Operators of the
//! backward pass and of the update follow their forward operator in every runtime that trains, so a plan has
//! to have them in one place.
//!
//! Each target names the page or the source that its syntax comes from and the version looked at.
//!
//! # Adding a target
//!
//! A file in `targets` with a `static TARGET`, and its row in [`TARGETS`].

pub mod error;
pub mod layers;
mod literal;
pub mod modules;
pub mod paths;
pub mod pipeline;
pub mod placed;
pub mod published;
pub mod sequence;
pub mod stack;
mod targets;

pub use error::{ExportError, Sited};
pub use placed::Placed;
pub use targets::TARGETS;

use crate::nearest::nearest;

/// A runtime, or a notation of one.
#[derive(Debug)]
pub struct Target {
    /// What it is called on a command line.
    pub name: &'static str,
    /// What is written, for people.
    pub summary: &'static str,
    /// What it cannot express, in one line.
    pub limits: &'static str,
    /// Writes a plan, or says why it cannot.
    pub write: fn(&Placed) -> Result<Export, ExportError>,
}

/// A plan in the notation of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The text, ending in a newline.
    pub text: String,
    /// What has to go with it, for people.
    pub notes: Vec<String>,
    /// Whether a runtime runs it, in an order of its own; a drawing is only looked at.
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

    /// A note that there may be.
    fn also(mut self, note: Option<String>) -> Export {
        self.notes.extend(note);
        self
    }
}

/// The target of a name.
///
/// ```
/// use stagewright::export::target;
/// assert_eq!(target("megatron")?.name, "megatron");
/// assert!(target("megatorn").unwrap_err().to_string().ends_with("did you mean `megatron`?"));
/// # Ok::<(), stagewright::export::ExportError>(())
/// ```
///
/// # Errors
/// E001, with the name that is most like it.
pub fn target(name: &str) -> Result<&'static Target, ExportError> {
    if let Some(target) = TARGETS.iter().find(|target| target.name == name) {
        return Ok(target);
    }
    let known: Vec<&'static str> = TARGETS.iter().map(|target| target.name).collect();
    let nearest = nearest(name, known.iter().copied());
    Err(ExportError::UnknownTarget { name: name.to_owned(), nearest, known })
}
