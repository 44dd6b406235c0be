//! Plan documents of serving plans.

use stagewright_core::document::{
    OriginDocument, PlanStatus, ReplicaDocument, SERVING_PLAN_SCHEMA, ServingBoundDocument, ServingGoal,
    ServingPlanDocument, ServingRole,
};
use stagewright_core::tolerance;
use stagewright_replicas::{Chosen, NAME, Plan, Solution};

use super::question::Serving;

impl Serving {
    /// The document of an answer.
    pub(super) fn document(&self, solution: &Solution, took: f64) -> ServingPlanDocument {
        let status = PlanStatus::from(solution.status);
        let bound = ServingBoundDocument {
            value: Some(solution.bound).filter(|bound| bound.is_finite()),
            source: solution.source().into(),
            certificate: Some(solution.certificate.clone()),
        };
        let document = self.planned(NAME, solution.plan.as_ref(), status, bound, took);
        ServingPlanDocument { stop: solution.stop.map(|reason| reason.name().to_owned()), ..document }
    }

    /// The document of a plan or of none.
    pub(super) fn planned(
        &self,
        solver: &str,
        plan: Option<&Plan>,
        status: PlanStatus,
        bound: ServingBoundDocument,
        took: f64,
    ) -> ServingPlanDocument {
        let question = self.problem.question.clone();
        let value = plan.map(|plan| plan.value);
        let generated: f64 = question.classes.iter().map(|class| class.share * class.output as f64).sum();
        let replicas: Vec<ReplicaDocument> = plan
            .map_or_else(Vec::new, |plan| plan.replicas.iter().map(|chosen| self.replica(chosen)).collect());
        let devices = |replica: &ReplicaDocument| {
            let stages = replica.stages.iter().map(|stage| stage.tensor * stage.data);
            replica.count * stages.sum::<u64>()
        };
        ServingPlanDocument {
            schema: SERVING_PLAN_SCHEMA.into(),
            status,
            solver: solver.into(),
            model: self.problem.model.name.clone(),
            options: self.options.clone(),
            cluster: self.cluster.clone(),
            gap: value.zip(bound.value).map(|(value, bound)| gap(question.goal, value, bound)),
            value,
            bound,
            requests_per_s: plan.map(|plan| plan.rate),
            tokens_per_s: plan.map(|plan| plan.rate * generated),
            devices: plan.map(|_| replicas.iter().map(devices).sum()),
            seconds: took,
            origin: Some(OriginDocument::of_library()),
            stop: None,
            reason: None,
            replicas,
            question,
        }
    }

    fn replica(&self, Chosen { column, count }: &Chosen) -> ReplicaDocument {
        let (role, class) = (column.role, column.class);
        let offer = &column.offer;
        ReplicaDocument {
            role,
            class: class as u32,
            count: *count,
            stages: column.stages(&self.problem),
            batch: if role == ServingRole::Prefill { 0 } else { column.batch },
            requests_per_s: offer.rate,
            ttft_s: offer.ttft,
            tpot_s: offer.tpot,
            utilisation: offer.utilisation,
            cache_tokens: column.cache_tokens,
        }
    }
}

/// Distance of value and bound, as a share of the larger.
pub(super) fn gap(goal: ServingGoal, value: f64, bound: f64) -> f64 {
    if goal.is_maximised() { tolerance::gap(bound, value) } else { tolerance::gap(value, bound) }
}
