//! The same number of layers per stage.
//!
//! Megatron-LM gives every pipeline stage `num_layers / pipeline_parallel_size` transformer layers, with
//! embeddings on the first stage and the output layer on the last, neither of them counted
//! (`get_num_layers_to_build`; it rejects a number of layers that is not divisible). torchtitan
//! (`generate_llm_fqn_per_model_part`) gives the first stages one more layer if there is a remainder. This
//! rule counts like Megatron and distributes the remainder like torchtitan, which would by default count
//! embeddings and head as one layer each.

use stagewright_core::problem::Problem;

use super::chain::Chain;
use super::{ExpertRule, Placed, accelerators};

/// Equal layers per stage, over all accelerators.
pub static EQUAL_LAYERS: ExpertRule = ExpertRule {
    name: "equal-layers",
    summary: "equal numbers of layers per accelerator (Megatron-LM, torchtitan; baseline)",
    missing_feature: None,
    depends_on_seed: false,
    place,
};

fn place(problem: &Problem, _seed: u64) -> Result<Placed, String> {
    let devices = accelerators(problem)?;
    let chain = Chain::new(problem)?;
    let is_layer: Vec<bool> = chain.segments().iter().map(|segment| segment.is_layer).collect();
    Ok(chain.place(problem, &devices, &stages(&is_layer, devices.len())))
}

/// The stage of each segment. The first `layers mod stages` stages get one more layer; a segment that is not a layer joins
/// the layer before it, or the first layer if there is none.
fn stages(is_layer: &[bool], devices: usize) -> Vec<usize> {
    let layers = is_layer.iter().filter(|&&layer| layer).count();
    let stages = devices.min(layers).max(1);
    let (each, longer) = (layers / stages, layers % stages);
    let stage_of = |layer: usize| {
        let in_longer = longer * (each + 1);
        if layer < in_longer { layer / (each + 1) } else { longer + (layer - in_longer) / each.max(1) }
    };
    let mut seen = 0usize;
    let place = |&layer: &bool| {
        seen += usize::from(layer);
        stage_of(seen.saturating_sub(1))
    };
    is_layer.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::super::support::{Model, names, plan, reason};
    use super::*;

    #[test]
    fn layers_are_counted_and_the_remainder_goes_first() {
        assert_eq!(stages(&[true; 12], 4), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert_eq!(stages(&[true; 10], 4), [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]);
        assert_eq!(stages(&[true; 2], 4), [0, 1]);
        assert_eq!(stages(&[false, true, false, true, false], 2), [0, 0, 0, 1, 1]);
    }

    #[test]
    fn twelve_layers_on_four_devices() {
        let problem = Model::layers(12).on(4);
        let plan = plan(&EQUAL_LAYERS, &problem);
        for device in 0..4 {
            let mut expected: Vec<String> =
                (3 * device..3 * device + 3).map(|layer| format!("layer.{layer}")).collect();
            if device == 0 {
                expected.insert(0, "embedding".into());
            }
            if device == 3 {
                expected.push("head".into());
            }
            assert_eq!(names(&problem, &plan, device), expected);
        }
        // A layer takes 1 s, the embedding 0.5 s and the head 2 s; a transfer 0.125 s.
        assert_eq!(plan.value(), 3.0 + 2.0 + 0.125);
    }

    #[test]
    fn fewer_layers_than_devices_use_as_many_devices() {
        let problem = Model::layers(2).on(4);
        assert_eq!(plan(&EQUAL_LAYERS, &problem).placement.used().len(), 2);
    }

    #[test]
    fn what_does_not_fit_or_has_no_layers_is_said() {
        let mut model = Model::layers(4);
        model.memory = Some(2.0);
        assert!(reason(&EQUAL_LAYERS, &model.on(2)).contains("acc0 needs"));
        model.document.operators.iter_mut().for_each(|operator| operator.layer = None);
        assert!(reason(&EQUAL_LAYERS, &model.on(2)).contains("names no layers"));
    }
}
