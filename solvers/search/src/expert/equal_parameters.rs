//! The most even split by parameter bytes.
//!
//! The default of DeepSpeed's `PipelineModule` (`partition_method="parameters"`): contiguous stages of its
//! list of modules that minimise the largest number of parameters. Embeddings and head are modules of the
//! list like the layers. accelerate spreads parameters by another rule, [`super::AccelerateBalanced`].

use stagewright_core::problem::Problem;

use super::block_partition::block_partition;
use super::chain::Chain;
use super::{ExpertRule, Placed, accelerators};

/// Equal parameters per stage, over all accelerators.
pub static EQUAL_PARAMETERS: ExpertRule = ExpertRule {
    name: "equal-parameters",
    summary: "stages of layers with balanced parameters (DeepSpeed; baseline)",
    missing_feature: None,
    depends_on_seed: false,
    place,
};

fn place(problem: &Problem, _seed: u64) -> Result<Placed, String> {
    let devices = accelerators(problem)?;
    let chain = Chain::new(problem)?;
    let weights = chain.weights(|units, unit| units.weight_bytes(unit));
    if weights.iter().all(|&weight| weight == 0.0) {
        return Err("no operator has parameters to distribute".into());
    }
    Ok(chain.place(problem, &devices, &block_partition(&weights, devices.len())))
}

#[cfg(test)]
mod tests {
    use super::super::support::{Model, names, plan, reason};
    use super::*;

    #[test]
    fn a_large_head_has_a_stage_of_its_own() {
        let mut model = Model::layers(4);
        model.operator("head").parameter_bytes = 4.0;
        let problem = model.on(2);
        let plan = plan(&EQUAL_PARAMETERS, &problem);
        assert_eq!(names(&problem, &plan, 1), ["head"]);
    }

    #[test]
    fn equal_layers_are_spread_evenly() {
        let mut model = Model::layers(8);
        model.operator("embedding").parameter_bytes = 0.0;
        model.operator("head").parameter_bytes = 0.0;
        let problem = model.on(4);
        let plan = plan(&EQUAL_PARAMETERS, &problem);
        assert_eq!(names(&problem, &plan, 0), ["embedding", "layer.0", "layer.1"]);
        assert_eq!(names(&problem, &plan, 3), ["layer.6", "layer.7", "head"]);
    }

    #[test]
    fn a_graph_without_parameters_is_said() {
        let mut model = Model::layers(2);
        model.document.operators.iter_mut().for_each(|operator| operator.parameter_bytes = 0.0);
        assert!(reason(&EQUAL_PARAMETERS, &model.on(2)).contains("no operator has parameters"));
    }
}
