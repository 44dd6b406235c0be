//! `stagewright.plan/1`, and splits of the reference package read as plans.
//!
//! A native plan is read unchecked: the checker decides whether it fits the model and has the value that it
//! claims. A split lists node ids and nothing else, so it needs the model that it was made for.

use stagewright_core::document::{PLAN_SCHEMA, PlanDocument};

use super::error::{At, InputError, Result};
use super::notation::Notation;
use super::reference::split;
use super::text::{Sniff, text};
use super::{Imported, pretty_json};

/// A file that describes a plan, read before its model.
#[derive(Debug)]
pub enum PlanFile<'a> {
    /// A native plan.
    Native(Box<PlanDocument>),
    /// A split by the node ids of a model in the reference format.
    Split {
        /// Label in errors.
        label: &'a str,
        /// Contents of the file.
        text: &'a str,
    },
}

impl<'a> PlanFile<'a> {
    /// Reads a native plan, or recognises a split.
    ///
    /// # Errors
    /// If the text or a native plan is invalid.
    pub fn read(label: &'a str, bytes: &'a [u8]) -> Result<PlanFile<'a>> {
        let text = text(label, bytes)?;
        match split::detect(&Sniff::new(text)) {
            true => Ok(PlanFile::Split { label, text }),
            false => Ok(PlanFile::Native(Box::new(Notation::Json.read_as(label, text, &[PLAN_SCHEMA])?))),
        }
    }

    /// The plan, if it can be read without its model.
    pub fn native(&self) -> Option<&PlanDocument> {
        match self {
            PlanFile::Native(plan) => Some(plan),
            PlanFile::Split { .. } => None,
        }
    }

    /// Returns the plan for a model.
    ///
    /// # Errors
    /// If a split is invalid, for example because the model did not come in the reference format.
    pub fn for_model(self, model: &Imported) -> Result<PlanDocument> {
        match self {
            PlanFile::Native(plan) => Ok(*plan),
            PlanFile::Split { label, text } => split::import(label, text, model),
        }
    }
}

/// Reads a plan for a model: a native one, or a split if the model came in the reference format.
pub fn import_plan(label: &str, bytes: &[u8], model: &Imported) -> Result<PlanDocument> {
    PlanFile::read(label, bytes)?.for_model(model)
}

/// Reads a native plan without its model.
///
/// # Errors
/// If the file is a split, whose node ids mean nothing without the model (S006), or if a native plan is invalid.
pub fn import_plan_alone(label: &str, bytes: &[u8]) -> Result<PlanDocument> {
    match PlanFile::read(label, bytes)? {
        PlanFile::Native(plan) => Ok(*plan),
        PlanFile::Split { label, .. } => {
            let help = "give the model in the reference format that the split was made for";
            let message = "the split lists node ids, which need the model";
            Err(InputError::new("S006", label, At::Whole, message, help))
        }
    }
}

/// Writes a plan as native JSON.
pub fn write_plan(plan: &PlanDocument) -> String {
    pretty_json(plan)
}
