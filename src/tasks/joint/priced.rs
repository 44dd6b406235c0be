//! A joint plan of a training graph with its problem, and what the cost model says of it.

use stagewright_core::document::{
    ClusterDocument, GraphDocument, JointPartsDocument, JointPlanDocument, Parallelism,
};
use stagewright_core::tolerance;
use stagewright_costs::training::Part;
use stagewright_formats::layers;
use stagewright_joint::iteration;
use stagewright_report::joint::{pipeline_devices, stages_of};
use stagewright_report::throughput::joint_throughput;

use super::graph::{sources, tokens};
use super::measured::Predicted;
use super::{Joined, Joint, refused, request_of};
use crate::code::U008;
use crate::failure::{Failure, Result};

/// A plan with its problem.
pub(super) struct Priced {
    /// The plan, on the cluster for which it is priced.
    pub(super) plan: JointPlanDocument,
    pub(super) graph: GraphDocument,
    pub(super) cluster: ClusterDocument,
    pub(super) problem: iteration::Problem,
    /// Times and bytes of every stage by part.
    pub(super) parts: Vec<JointPartsDocument>,
    pub(super) value: f64,
    pub(super) notes: Vec<String>,
    /// Layers of the operators, as `layers::layer_names` gives them.
    names: Vec<Option<(String, bool)>>,
    model: String,
}

impl Priced {
    /// Prices a plan.
    ///
    /// # Errors
    /// If the plan has no value, has no parts, or does not belong to the model and its cluster (U008).
    pub(super) fn new(task: &Joint, mut plan: JointPlanDocument, label: &str) -> Result<Priced> {
        let Some((model, imported)) = task.planned_graph() else {
            let help =
                "plan a training graph; `check` lists the times and the memory of the stages of this plan";
            return Err(nothing("the plan is for a file of Piper, whose times have no parts", help, label));
        };
        let Some(value) = plan.objective.value_s else {
            return Err(nothing("the plan has no value to explain", VIOLATIONS, label));
        };
        let Joined { graph, cluster, coverage, notes } = task.joined(imported, &plan, label)?;
        let names = layers::layer_names(&graph);
        let problem = iteration::Problem::new(&graph, &names, &cluster, request_of(&plan.objective))
            .map_err(|error| refused(model, &error, task.place()))?;
        if !has_the_batch(&plan) {
            return Err(not_of_model(label));
        }
        let parts = problem.parts(&plan).ok_or_else(|| not_of_model(label))?;
        // Shares of memory refer to the devices of this cluster.
        plan.cluster = Some(cluster.clone());
        plan.sources = sources(&problem, &graph, &cluster, &coverage, &plan);
        plan.throughput = joint_throughput(&plan.objective, plan.execution.as_ref(), value, tokens(&graph));
        Ok(Priced { plan, graph, cluster, problem, parts, value, notes, names, model: model.to_owned() })
    }

    /// The problem on another cluster.
    pub(super) fn problem_on(&self, task: &Joint, cluster: &ClusterDocument) -> Result<iteration::Problem> {
        let mut request = request_of(&self.plan.objective);
        // Without exactly two kinds, no stage can be on two.
        if cluster.kinds.iter().filter(|kind| !kind.host && kind.count > 0).count() != 2 {
            request.parallel.remove(&Parallelism::Mixed);
        }
        iteration::Problem::new(&self.graph, &self.names, cluster, request)
            .map_err(|error| refused(&self.model, &error, task.place()))
    }

    fn microbatches(&self) -> f64 {
        self.plan.execution.as_ref().map_or(0.0, |execution| f64::from(execution.microbatches))
    }

    /// Seconds for which a device works, by the position of its first stage.
    fn busy(&self, device: usize) -> f64 {
        let stages = stages_of(&self.plan, device).map(|stage| &self.plan.stages[stage]);
        stages.map(|stage| self.microbatches() * stage.seconds + stage.update_s.unwrap_or(0.0)).sum()
    }

    /// The device that works longest, by the position of its first stage.
    pub(super) fn slowest(&self) -> usize {
        let devices = pipeline_devices(&self.plan).min(self.plan.stages.len());
        (0..devices).max_by(|&a, &b| self.busy(a).total_cmp(&self.busy(b))).unwrap_or(0)
    }

    /// Seconds of an iteration outside its passes, reductions and updates.
    pub(super) fn outside(&self) -> f64 {
        self.plan.objective.runtime.as_ref().map_or(0.0, |runtime| runtime.iteration_s)
    }

    /// Seconds for which the slowest device waits.
    pub(super) fn bubble(&self) -> f64 {
        let idle = self.value - self.busy(self.slowest()) - self.outside();
        // What rounding leaves is no idle time.
        if idle > self.value * tolerance::VALUE_RELATIVE { idle } else { 0.0 }
    }

    /// Seconds of an iteration by part, and bytes.
    ///
    /// # Errors
    /// If the plan does not belong to the model and its cluster (U008).
    pub(super) fn predicted(&self, label: &str) -> Result<Predicted> {
        let wrong = || not_of_model(label);
        let after = self.problem.after_passes(&self.plan).ok_or_else(wrong)?;
        let price = self.problem.price(&self.plan).ok_or_else(wrong)?;
        let own = || stages_of(&self.plan, self.slowest());
        let of_passes = |part: fn(&JointPartsDocument) -> f64| -> f64 {
            own().map(|stage| self.microbatches() * part(&self.parts[stage])).sum()
        };
        let of_part = |part: Part| match part {
            Part::Compute => of_passes(|parts| parts.compute_s + parts.recompute_s),
            Part::Tensor => of_passes(|parts| parts.tensor_s),
            Part::Exchanges => of_passes(|parts| parts.expert_s + parts.context_s),
            Part::CopiesInPasses => of_passes(|parts| parts.zero_s),
            Part::Host => of_passes(|parts| parts.host_s),
            Part::Transfers => of_passes(|parts| parts.transfer_s),
            Part::Bubble => self.bubble(),
            Part::Copies => own().map(|stage| after[stage].0).sum(),
            Part::Update => own().map(|stage| after[stage].1).sum(),
            Part::Outside => self.outside(),
        };
        let reserve = self.plan.objective.runtime.as_ref().map_or(0.0, |runtime| runtime.reserve_bytes);
        Ok(Predicted {
            seconds: self.value,
            parts: Part::ALL.map(of_part),
            bytes: price.memory_bytes + reserve,
            tokens: tokens(&self.graph),
        })
    }
}

/// Whether the microbatches of all copies are the batch, which limits the work of a price.
fn has_the_batch(plan: &JointPlanDocument) -> bool {
    plan.execution.as_ref().is_some_and(|execution| {
        let samples = u128::from(execution.microbatch) * u128::from(execution.microbatches);
        samples * u128::from(execution.data) == u128::from(plan.objective.global_batch)
    })
}

const VIOLATIONS: &str = "`check` lists every violation";

fn nothing(cause: &str, help: &str, label: &str) -> Failure {
    Failure::new(U008, cause).at(label).help(help)
}

fn not_of_model(label: &str) -> Failure {
    nothing("the plan is not one of the model and its cluster", VIOLATIONS, label)
}
