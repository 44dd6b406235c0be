//! Joint plans.

use stagewright_core::document::{JOINT_PLAN_SCHEMA, JointPlanDocument};

use super::cluster::check_kept;
use super::error::Result;
use super::notation::Notation;
use super::pretty_json;
use super::text::text;

/// Recognises a joint plan: it names its schema.
pub fn is_joint_plan(bytes: &[u8]) -> bool {
    bytes.windows(JOINT_PLAN_SCHEMA.len()).any(|window| window == JOINT_PLAN_SCHEMA.as_bytes())
}

/// Reads a joint plan.
///
/// # Errors
/// If the text is not a joint plan, or the cluster that the plan keeps is invalid.
pub fn import_joint_plan(label: &str, bytes: &[u8]) -> Result<JointPlanDocument> {
    let plan: JointPlanDocument = Notation::Json.read_as(label, text(label, bytes)?, &[JOINT_PLAN_SCHEMA])?;
    check_kept(label, plan.cluster.as_ref())?;
    Ok(plan)
}

/// Formats a joint plan as JSON.
pub fn write_joint_plan(plan: &JointPlanDocument) -> String {
    pretty_json(plan)
}
