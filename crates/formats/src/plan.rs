//! `stagewright.plan/1`, and other notations of plans: splits of the reference package and placements without claims.
//!
//! A native plan is read unchecked, except for the cluster that it keeps: the checker decides whether it fits the model and has
//! the value that it claims. A split lists node ids and nothing else, so it needs the model that it was made for.

use stagewright_core::document::{ClusterDocument, PLAN_SCHEMA, PlanDocument};

use super::assignment::{self, Form};
use super::cluster::check_kept;
use super::error::{At, InputError, Result};
use super::notation::Notation;
use super::reference::split;
use super::text::{Sniff, text};
use super::{Imported, pretty_json};
use crate::code::S006;

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
    /// A device for every operator.
    Assignment {
        /// Label in errors.
        label: &'a str,
        /// Contents of the file.
        text: &'a str,
        /// How the assignment is written.
        form: Form,
    },
}

impl<'a> PlanFile<'a> {
    /// Reads a native plan, or recognises a split or an assignment.
    ///
    /// # Errors
    /// If the text, a native plan or the cluster that it keeps is invalid.
    pub fn read(label: &'a str, bytes: &'a [u8]) -> Result<PlanFile<'a>> {
        let text = text(label, bytes)?;
        let sniff = Sniff::new(text);
        if split::detect(&sniff) {
            return Ok(PlanFile::Split { label, text });
        }
        match assignment::detect(text, &sniff) {
            Some(form) => Ok(PlanFile::Assignment { label, text, form }),
            None => {
                let plan: Box<PlanDocument> = Notation::Json.read_as(label, text, &[PLAN_SCHEMA])?;
                check_kept(label, plan.cluster.as_ref())?;
                Ok(PlanFile::Native(plan))
            }
        }
    }

    /// The plan, if it can be read without its model.
    pub fn native(&self) -> Option<&PlanDocument> {
        match self {
            PlanFile::Native(plan) => Some(plan),
            PlanFile::Split { .. } | PlanFile::Assignment { .. } => None,
        }
    }

    /// Returns the plan without its model.
    ///
    /// # Errors
    /// If the file is a split or an assignment, which needs the model (S006).
    pub fn alone(self) -> Result<PlanDocument> {
        match self {
            PlanFile::Native(plan) => Ok(*plan),
            PlanFile::Split { label, .. } => {
                let help = "give the model in the reference format that the split was made for";
                let message = "the split lists node ids, which need the model";
                Err(InputError::new(S006, label, At::Whole, message, help))
            }
            PlanFile::Assignment { label, .. } => {
                let help = "give the model that it is for";
                let message = "a list of devices and operators, which needs the model";
                Err(InputError::new(S006, label, At::Whole, message, help))
            }
        }
    }

    /// Returns the plan for a model; devices that are given by number are those of the cluster.
    ///
    /// # Errors
    /// If a split or an assignment is invalid, for example because the model did not come in the reference format.
    pub fn for_model(self, model: &Imported, cluster: Option<&ClusterDocument>) -> Result<PlanDocument> {
        match self {
            PlanFile::Native(plan) => Ok(*plan),
            PlanFile::Split { label, text } => split::import(label, text, model),
            PlanFile::Assignment { label, text, form } => {
                assignment::import(label, text, form, model, cluster)
            }
        }
    }
}

/// Reads a plan for a model: a native one, a split if the model came in the reference format, or an assignment.
pub fn import_plan(label: &str, bytes: &[u8], model: &Imported) -> Result<PlanDocument> {
    PlanFile::read(label, bytes)?.for_model(model, None)
}

/// Reads a native plan without its model.
///
/// # Errors
/// If the file is a split or an assignment, which needs the model (S006), or if a native plan is invalid.
pub fn import_plan_alone(label: &str, bytes: &[u8]) -> Result<PlanDocument> {
    PlanFile::read(label, bytes)?.alone()
}

/// Writes a plan as native JSON.
pub fn write_plan(plan: &PlanDocument) -> String {
    pretty_json(plan)
}
