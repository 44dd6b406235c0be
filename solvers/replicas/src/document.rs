//! Plan documents.

use stagewright_core::document::{
    ClusterDocument, OriginDocument, PlanStatus, ReplicaDocument, SERVING_PLAN_SCHEMA, ServingBoundDocument,
    ServingGoal, ServingPlanDocument, ServingRole,
};
use stagewright_core::tolerance::OPTIMAL_RELATIVE;
use stagewright_serving::Problem;

use crate::solution::{Chosen, NAME, Plan, Solution};

impl Solution {
    /// The answer to a problem on a cluster as a plan document. `took` is the time of the solve in seconds.
    pub fn document(&self, problem: &Problem, cluster: &ClusterDocument, took: f64) -> ServingPlanDocument {
        let status = PlanStatus::from(self.status);
        let bound = ServingBoundDocument {
            value: Some(self.bound).filter(|bound| bound.is_finite()),
            source: self.source().into(),
            certificate: self.certificate.clone(),
        };
        let document = planned(NAME, problem, cluster, (self.plan.as_ref(), status, bound), took);
        ServingPlanDocument { stop: self.stop.map(|reason| reason.name().to_owned()), ..document }
    }
}

/// The document of a plan or of none.
pub fn planned(
    solver: &str,
    problem: &Problem,
    cluster: &ClusterDocument,
    (plan, status, bound): (Option<&Plan>, PlanStatus, ServingBoundDocument),
    took: f64,
) -> ServingPlanDocument {
    let question = problem.question.clone();
    let value = plan.map(|plan| plan.value);
    let generated: f64 = question.classes.iter().map(|class| class.share * class.output as f64).sum();
    let replicas: Vec<ReplicaDocument> = plan
        .map_or_else(Vec::new, |plan| plan.replicas.iter().map(|chosen| replica(problem, chosen)).collect());
    let devices = |replica: &ReplicaDocument| {
        let stages = replica.stages.iter().map(|stage| stage.tensor * stage.data);
        replica.count * stages.sum::<u64>()
    };
    ServingPlanDocument {
        schema: SERVING_PLAN_SCHEMA.into(),
        status,
        solver: solver.into(),
        model: problem.model.name.clone(),
        options: None,
        cluster: cluster.clone(),
        gap: value.zip(bound.value).map(|(value, bound)| gap(question.goal, value, bound)),
        value,
        bound,
        requests_per_s: plan.map(|plan| plan.rate),
        tokens_per_s: plan.map(|plan| plan.rate * generated),
        devices: plan.map(|_| replicas.iter().map(devices).sum()),
        moved_bytes: plan.filter(|_| question.start.is_some()).map(moved_bytes),
        seconds: took,
        origin: Some(OriginDocument::of_library()),
        stop: None,
        reason: None,
        replicas,
        question,
    }
}

fn moved_bytes(plan: &Plan) -> f64 {
    plan.replicas.iter().map(|chosen| chosen.count as f64 * chosen.column.moved_bytes).sum()
}

fn replica(problem: &Problem, Chosen { column, count }: &Chosen) -> ReplicaDocument {
    let (role, class) = (column.role, column.class);
    let offer = &column.offer;
    ReplicaDocument {
        role,
        class: class as u32,
        count: *count,
        kept: if column.kept.is_some() { *count } else { 0 },
        stages: column.stages(problem),
        batch: if role == ServingRole::Prefill { 0 } else { column.batch },
        requests_per_s: offer.rate,
        ttft_s: offer.ttft,
        tpot_s: offer.tpot,
        utilisation: offer.utilisation,
        cache_tokens: column.cache_tokens,
    }
}

/// Distance of value and bound, as a share of the larger; 0 if that is rounding, and infinite if either is. Values with a price of
/// weights may be negative.
pub(crate) fn gap(goal: ServingGoal, value: f64, bound: f64) -> f64 {
    let (larger, smaller) = if goal.is_maximised() { (bound, value) } else { (value, bound) };
    if larger.is_infinite() || smaller.is_infinite() {
        return f64::INFINITY;
    }
    let gap = (larger - smaller) / larger.abs().max(smaller.abs());
    if gap <= 2.0 * OPTIMAL_RELATIVE || gap.is_nan() { 0.0 } else { gap }
}
