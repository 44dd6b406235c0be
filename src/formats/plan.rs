//! `stagewright.plan/1`, and splits of the reference package read as plans.
//!
//! A native plan is read as it is: whether it fits the model, and is worth what it says, is the checker's
//! business. A split lists node ids and nothing else, so it needs the model it was made for.

use stagewright_core::document::{PLAN_SCHEMA, PlanDocument};

use super::error::{At, InputError};
use super::notation::Notation;
use super::reference::split;
use super::text::{Sniff, text};
use super::{Imported, pretty_json};

/// Reads a plan for a model: a native one, or a split where the model came in the reference format.
pub fn import_plan(label: &str, bytes: &[u8], model: &Imported) -> Result<PlanDocument, InputError> {
    let text = text(label, bytes)?;
    if split::detect(&Sniff::of(text)) {
        split::import(label, text, model)
    } else {
        Notation::Json.read_as(label, text, &[PLAN_SCHEMA])
    }
}

/// Reads a native plan without its model.
///
/// # Errors
/// S006 for a split, whose node ids mean nothing without the model, and whatever may be wrong with a native
/// plan.
pub fn import_plan_alone(label: &str, bytes: &[u8]) -> Result<PlanDocument, InputError> {
    let text = text(label, bytes)?;
    if split::detect(&Sniff::of(text)) {
        let help = "give the model in the reference format that the split was made for";
        let message = "this is a split by node ids, which mean nothing without the model";
        return Err(InputError::new("S006", label, At::Whole, message, help));
    }
    Notation::Json.read_as(label, text, &[PLAN_SCHEMA])
}

/// A plan as native JSON.
pub fn write_plan(plan: &PlanDocument) -> String {
    pretty_json(plan)
}
