//! The best distinct placements found so far.

use stagewright_core::cluster::DeviceId;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Plan, Solution};

use super::{Labelled, MAX_PLANS, WORSE};

/// The best distinct placements of a problem so far, and the best bound.
pub(super) struct Best<'p> {
    problem: &'p Problem,
    /// Distinct plans, the best first, each with its canonical devices.
    plans: Vec<(Vec<DeviceId>, Labelled)>,
    bound: f64,
}

impl<'p> Best<'p> {
    pub(super) fn new(problem: &'p Problem) -> Best<'p> {
        Best { problem, plans: Vec::new(), bound: 0.0 }
    }

    pub(super) fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// Adds a solver's plan and bound for this problem.
    pub(super) fn take(&mut self, solution: Solution) {
        self.bound = self.bound.max(solution.bound.value);
        if let Some(plan) = solution.plan {
            self.take_plan(plan);
        }
    }

    /// Adds a plan. The best of the plans with equal canonical devices is kept; ties go to the first.
    pub(super) fn take_plan(&mut self, plan: Plan) {
        let devices = renamed(self.problem, &plan.placement);
        let value = plan.value();
        if let Some(index) = self.plans.iter().position(|(known, _)| *known == devices) {
            if self.plans[index].1.value <= value {
                return;
            }
            self.plans.remove(index);
        }
        let index = self.plans.partition_point(|(_, known)| known.value <= value);
        self.plans.insert(index, (devices, Labelled { value, placement: plan.placement }));
        let limit = self.plans[0].1.value * (1.0 + WORSE);
        self.plans.retain(|(_, known)| known.value <= limit);
        self.plans.truncate(MAX_PLANS);
    }

    /// Whether a placement of value `value` is close enough to the best.
    pub(super) fn counts(&self, value: f64) -> bool {
        self.plans.first().is_none_or(|(_, best)| value <= best.value * (1.0 + WORSE))
    }

    /// The best placement so far.
    pub(super) fn placement(&self) -> Option<&Placement> {
        self.plans.first().map(|(_, best)| &best.placement)
    }

    /// Whether there are as many placements as a label holds.
    pub(super) fn is_full(&self) -> bool {
        self.plans.len() == MAX_PLANS
    }

    /// The placements, the best first, and the bound.
    pub(super) fn finish(self) -> (Vec<Labelled>, f64) {
        (self.plans.into_iter().map(|(_, plan)| plan).collect(), self.bound)
    }
}

/// The canonical device of every operator: the devices of a pool are renamed in the order in which operators use them.
/// Placements that differ only by a permutation of identical devices become equal.
pub(super) fn renamed(problem: &Problem, placement: &Placement) -> Vec<DeviceId> {
    let mut names: Vec<Option<DeviceId>> = vec![None; problem.cluster().device_count()];
    let mut used = vec![0; problem.pools().len()];
    let name = |op| {
        let device = placement.device_of(op);
        *names[device.index()].get_or_insert_with(|| {
            let pool = problem.pool_of(device);
            used[pool] += 1;
            problem.pools()[pool].devices[used[pool] - 1]
        })
    };
    problem.graph().operators().map(name).collect()
}

#[cfg(test)]
mod tests {
    use stagewright_core::cluster::Cluster;
    use stagewright_core::graph::Graph;

    use super::super::super::recipe::Target;
    use super::*;

    /// Three operators without tensors on two identical devices and a third.
    fn problem() -> Problem {
        let graph = r#"{"schema": "stagewright.graph/1", "operators": [
            {"name": "a", "seconds": {"gpu": 1.0, "cpu": 1.0}}, {"name": "b", "seconds": {"gpu": 1.0, "cpu": 1.01}},
            {"name": "c", "seconds": {"gpu": 1.0, "cpu": 1.05}}]}"#;
        let cluster = r#"{"schema": "stagewright.cluster/1", "kinds": [
            {"name": "gpu", "class": "gpu", "count": 2}, {"name": "cpu", "class": "cpu", "count": 1}]}"#;
        let graph = Graph::from_document(
            serde_json::from_str::<stagewright_core::document::GraphDocument>(graph).unwrap(),
        );
        let cluster = Cluster::from_document(
            serde_json::from_str::<stagewright_core::document::ClusterDocument>(cluster).unwrap(),
        );
        Problem::new(graph.unwrap(), cluster.unwrap(), Target::Makespan.objective()).unwrap()
    }

    fn placed(devices: [u32; 3]) -> Placement {
        Placement::new(devices.map(DeviceId).to_vec())
    }

    #[test]
    fn names_of_identical_devices_make_no_difference() {
        let problem = problem();
        let renamed = |devices| {
            renamed(&problem, &placed(devices)).into_iter().map(|device| device.0).collect::<Vec<_>>()
        };
        assert_eq!(renamed([1, 0, 2]), [0, 1, 2]);
        assert_eq!(renamed([1, 1, 1]), [0, 0, 0]);
        assert_eq!(renamed([2, 1, 0]), [2, 0, 1]);
        assert_ne!(renamed([2, 0, 1]), renamed([0, 2, 1]));
    }

    #[test]
    fn the_best_that_differ_are_kept_in_order_and_within_the_threshold() {
        let problem = problem();
        let mut best = Best::new(&problem);
        let mut take = |devices| best.take_plan(Plan::try_new(&problem, placed(devices)).unwrap());
        // 1.05 s, 2 s, 1 s, the same with renamed devices, 1.01 s.
        for devices in [[0, 1, 2], [0, 0, 1], [2, 1, 0], [2, 0, 1], [0, 2, 1]] {
            take(devices);
        }
        let (plans, bound) = best.finish();
        let values: Vec<f64> = plans.iter().map(|plan| plan.value).collect();
        assert_eq!((values, bound), (vec![1.0, 1.01], 0.0));
        assert_eq!(plans[0].placement, placed([2, 1, 0]));
    }
}
