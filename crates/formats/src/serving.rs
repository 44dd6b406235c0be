//! Serving plans.

use stagewright_core::document::{SERVING_PLAN_SCHEMA, ServingPlanDocument};

use super::cluster::check_kept;
use super::error::Result;
use super::notation::Notation;
use super::pretty_json;
use super::text::text;

/// Reads a serving plan.
///
/// # Errors
/// If the text is not a serving plan, or the cluster that the plan keeps is invalid.
pub fn import_serving_plan(label: &str, bytes: &[u8]) -> Result<ServingPlanDocument> {
    let plan: ServingPlanDocument =
        Notation::Json.read_as(label, text(label, bytes)?, &[SERVING_PLAN_SCHEMA])?;
    check_kept(label, Some(&plan.cluster))?;
    Ok(plan)
}

/// Formats a serving plan as JSON.
pub fn write_serving_plan(plan: &ServingPlanDocument) -> String {
    pretty_json(plan)
}
