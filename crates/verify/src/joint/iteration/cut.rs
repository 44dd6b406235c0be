//! A given cut: the numbers of numbered layers of the stages.
//!
//! The first stage begins with the first layer, and every other with its first numbered layer. The first stage may have
//! no numbered layer: then it ends before the first of them. So may the last: then it begins behind the last of them.

use stagewright_core::document::JointPlanDocument;

use super::model::Model;
use crate::joint::JointViolation;
use crate::joint::placed::Placed;

/// The first layer of every stage, then the number of layers. `is_numbered` lists the layers in their order. `None` if no
/// plan has the cut.
pub(super) fn boundaries(is_numbered: &[bool], cut: &[u32]) -> Option<Vec<usize>> {
    let numbered: Vec<usize> = (0..is_numbered.len()).filter(|&layer| is_numbered[layer]).collect();
    let mut boundaries = Vec::with_capacity(cut.len() + 1);
    let mut before = 0;
    for (stage, &count) in cut.iter().enumerate() {
        let is_last = stage + 1 == cut.len();
        let first = match numbered.get(before) {
            _ if stage == 0 => 0,
            Some(&first) => first,
            None if is_last && count == 0 => numbered.last()? + 1,
            None => return None,
        };
        boundaries.push(first);
        before += count as usize;
    }
    boundaries.push(is_numbered.len());
    // Every numbered layer is in a stage, and no stage is empty.
    (before == numbered.len() && boundaries.is_sorted_by(|left, right| left < right)).then_some(boundaries)
}

/// Checks that the stages have the layers of a given cut.
pub(super) fn check(
    plan: &JointPlanDocument,
    model: &Model,
    layers: &[(&str, Placed)],
    violations: &mut Vec<JointViolation>,
) {
    let Some(cut) = &plan.objective.cut else { return };
    let stages = plan.stages.len();
    if cut.len() != stages {
        let (found, needs) = (stages as u64, format!("{}, as in the given cut", cut.len()));
        violations.push(JointViolation::Degree { stage: None, name: "stages", found, needs });
        return;
    }
    let first = model.first_places();
    let mut order: Vec<usize> = (0..layers.len()).collect();
    order.sort_by_key(|&layer| first[layer]);
    let is_numbered: Vec<bool> = order.iter().map(|&layer| model.layers[layer].is_numbered).collect();
    let Some(boundaries) = boundaries(&is_numbered, cut) else {
        let why = "the layers cannot be cut as given".to_owned();
        violations.push(JointViolation::Stages { why });
        return;
    };
    let stage_of = |place: usize| layers[order[place]].1.stage;
    let wrong = boundaries
        .windows(2)
        .enumerate()
        .find(|(stage, ends)| (ends[0]..ends[1]).any(|place| stage_of(place) != *stage));
    if let Some((stage, _)) = wrong {
        let why = format!("stage {stage} lacks a layer of the given cut");
        violations.push(JointViolation::Stages { why });
    }
}

#[cfg(test)]
mod tests {
    use super::boundaries;

    #[test]
    fn stages_begin_with_numbered_layers() {
        // An embedding, three blocks, a norm, a block and two layers of a head.
        let layers = [false, true, true, true, false, true, false, false];
        let found = |cut: &[u32]| boundaries(&layers, cut);
        assert_eq!(found(&[4]), Some(vec![0, 8]));
        assert_eq!(found(&[2, 2]), Some(vec![0, 3, 8]));
        assert_eq!(found(&[3, 1]), Some(vec![0, 5, 8]));
        assert_eq!(found(&[0, 4]), Some(vec![0, 1, 8]));
        assert_eq!(found(&[4, 0]), Some(vec![0, 6, 8]));
        assert_eq!(found(&[0, 1, 3, 0]), Some(vec![0, 1, 2, 6, 8]));
        for cut in [&[][..], &[3], &[5], &[2, 0, 2], &[0, 0, 4], &[4, 0, 0], &[u32::MAX, u32::MAX]] {
            assert_eq!(found(cut), None, "{cut:?}");
        }
    }

    #[test]
    fn a_stage_without_numbered_layers_needs_others() {
        assert_eq!(boundaries(&[true, true], &[0, 2]), None);
        assert_eq!(boundaries(&[true, true], &[2, 0]), None);
        assert_eq!(boundaries(&[false, false], &[0]), Some(vec![0, 2]));
        assert_eq!(boundaries(&[false, false], &[0, 0]), None);
    }
}
