//! Export of serving plans to the engines that serve a language model, and to what starts them on a cluster.
//!
//! A plan has replicas of a model, each with a number of copies. It is read once, into [`Serving`], which checks that it does not
//! contradict itself. Targets for one machine after another are shell scripts: copies get servers and devices, larger groups
//! first, which finds a server for each (`placement`). Targets for Kubernetes leave that to its scheduler. Either refuses a
//! replica that an engine cannot run, and notes say what an engine does differently, and what the user adds.
//!
//! | engine | options | targets |
//! | --- | --- | --- |
//! | vLLM | `engines::vllm` | `vllm`, `dynamo`, `llm-d` |
//! | SGLang | `engines::sglang` | `sglang`, `dynamo`, `llm-d` |
//! | TensorRT-LLM | `engines::tensorrt_llm` | `tensorrt-llm`, `dynamo` |
//! | any | | `router-weights` |

mod engines;
mod notes;
mod placement;
mod plan;
mod script;
mod servers;
mod shares;
mod targets;
#[cfg(test)]
mod testing;
mod yaml;

pub use plan::Serving;
pub use targets::SERVING_TARGETS;

use stagewright_core::document::ServingPlanDocument;
use stagewright_formats::nearest::nearest;

use crate::{Export, ExportError, Result};

/// An engine, or a program that starts engines.
#[derive(Debug)]
pub struct ServingTarget {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the output, for display.
    pub summary: &'static str,
    /// Limits of the target: the parts of a plan that it cannot express, in one line.
    pub limits: &'static str,
    /// Writes a plan, or returns the reason why it cannot.
    pub write: fn(&Serving) -> Result<Export>,
}

/// Looks up a target for serving plans by name.
///
/// # Errors
/// If there is no such target (E001, with the most similar name).
pub fn serving_target(name: &str) -> Result<&'static ServingTarget> {
    if let Some(target) = SERVING_TARGETS.iter().find(|target| target.name == name) {
        return Ok(target);
    }
    let known: Vec<&'static str> = SERVING_TARGETS.iter().map(|target| target.name).collect();
    let nearest = nearest(name, known.iter().copied());
    Err(ExportError::UnknownTarget { name: name.to_owned(), nearest, known })
}

/// Writes a serving plan for an engine, with usage notes.
///
/// # Errors
/// If there is no such target (E001), if the document has no replicas or contradicts itself (E002 and E029), or if the engine
/// cannot run it (E016, E023, E035 and E036).
pub fn export_serving_noted(plan: &ServingPlanDocument, target: &str) -> Result<Export> {
    let target = serving_target(target)?;
    (target.write)(&Serving::read(plan)?)
}

/// Writes a serving plan for an engine.
///
/// # Errors
/// If there is no such target (E001), if the document has no replicas or contradicts itself (E002 and E029), or if the engine
/// cannot run it (E016, E023, E035 and E036).
pub fn export_serving(plan: &ServingPlanDocument, target: &str) -> Result<String> {
    export_serving_noted(plan, target).map(|export| export.text)
}

#[cfg(test)]
mod tests;
