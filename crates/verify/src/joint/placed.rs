//! Place of every layer in the plan.

use std::collections::BTreeMap;

use stagewright_core::document::JointPlanDocument;

use super::JointViolation;

/// The stage of a layer, and the name of its configuration there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) stage: usize,
    pub(super) configuration: &'a str,
}

/// The places of all layers that the plan names, by name. Reports layers that are named more than once, and stages
/// without layers.
pub(super) fn layers<'a>(
    plan: &'a JointPlanDocument,
    violations: &mut Vec<JointViolation>,
) -> BTreeMap<&'a str, Placed<'a>> {
    let mut placed = BTreeMap::new();
    for (index, stage) in plan.stages.iter().enumerate() {
        if stage.layers.is_empty() {
            violations.push(JointViolation::Stages { why: format!("stage {index} has no layers") });
        }
        for layer in &stage.layers {
            let here = Placed { stage: index, configuration: layer.configuration.as_str() };
            if placed.insert(layer.layer.as_str(), here).is_some() {
                let (layer, why) = (layer.layer.clone(), "is in the plan more than once");
                violations.push(JointViolation::Layer { layer, why });
            }
        }
    }
    placed
}
