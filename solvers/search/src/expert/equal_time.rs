//! The most even split by measured time.
//!
//! Practitioners profile each layer on one accelerator and balance the times: torchgpipe's `balance_by_time`
//! (Kim et al., "torchgpipe: On-the-fly pipeline parallelism for training giant models", 2020) for GPipe.
//! Transfers are ignored. Times are forward plus backward on the first accelerator of the cluster; embeddings
//! and head are modules of the sequence like the layers. An operator that this accelerator cannot run has no
//! time.

use stagewright_core::problem::Problem;

use super::block_partition::block_partition;
use super::chain::Chain;
use super::{ExpertRule, Placed, accelerators};

/// Equal time per stage, over all accelerators.
pub static EQUAL_TIME: ExpertRule = ExpertRule {
    name: "equal-time",
    summary: "stages of layers with balanced compute time (torchgpipe; baseline)",
    missing_feature: None,
    depends_on_seed: false,
    place,
};

fn place(problem: &Problem, _seed: u64) -> Result<Placed, String> {
    let devices = accelerators(problem)?;
    let chain = Chain::new(problem)?;
    let profiled = problem.pool_of(devices[0]);
    let weights = chain.weights(|units, unit| units.seconds(unit, profiled).unwrap_or(0.0));
    if weights.iter().all(|&weight| weight == 0.0) {
        let first = problem.cluster().device_name(devices[0]);
        return Err(format!("{first}, the first accelerator, cannot run any operator that takes time"));
    }
    Ok(chain.place(problem, &devices, &block_partition(&weights, devices.len())))
}

#[cfg(test)]
mod tests {
    use super::super::support::{Model, names, plan, reason};
    use super::*;

    #[test]
    fn a_slow_head_moves_the_cuts() {
        // 0.5 s, six times 1 s, 2 s: the minimum of the largest stage is 3 s.
        let problem = Model::layers(6).on(3);
        let plan = plan(&EQUAL_TIME, &problem);
        assert_eq!(names(&problem, &plan, 0), ["embedding", "layer.0", "layer.1"]);
        assert_eq!(names(&problem, &plan, 1), ["layer.2", "layer.3", "layer.4"]);
        assert_eq!(names(&problem, &plan, 2), ["layer.5", "head"]);
    }
    #[test]
    fn an_accelerator_that_can_run_nothing_is_said() {
        let mut model = Model::layers(2);
        model.document.operators.iter_mut().for_each(|operator| operator.seconds.clear());
        let reason = reason(&EQUAL_TIME, &model.on(2));
        assert_eq!(reason, "acc0, the first accelerator, cannot run any operator that takes time");
    }
}
