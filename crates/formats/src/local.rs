//! Local plans.

use stagewright_core::document::{LOCAL_PLAN_SCHEMA, LocalPlanDocument};

use super::cluster::check_kept;
use super::error::Result;
use super::notation::Notation;
use super::pretty_json;
use super::text::text;

/// Reads a local plan.
///
/// # Errors
/// If the text is not a local plan, or the cluster that the plan keeps is invalid.
pub fn import_local_plan(label: &str, bytes: &[u8]) -> Result<LocalPlanDocument> {
    let plan: LocalPlanDocument = Notation::Json.read_as(label, text(label, bytes)?, &[LOCAL_PLAN_SCHEMA])?;
    check_kept(label, Some(&plan.cluster))?;
    Ok(plan)
}

/// Formats a local plan as JSON.
pub fn write_local_plan(plan: &LocalPlanDocument) -> String {
    pretty_json(plan)
}
