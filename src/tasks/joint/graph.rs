//! Joint plans of a training graph, which minimise the time of an iteration.

use std::collections::BTreeMap;

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    ClusterDocument, GraphDocument, JOINT_PLAN_SCHEMA, JointObjectiveDocument, JointObjectiveKind,
    JointPartsDocument, JointPlanDocument, ModelOptionsDocument, Parallelism, Pass, PlanStatus,
    RecomputeWorkspace, Schedule,
};
use stagewright_core::graph::Graph as CoreGraph;
use stagewright_core::solver::Context;
use stagewright_core::tolerance;
use stagewright_formats::layers;
use stagewright_joint::iteration;
use stagewright_report::joint::JointFigures;

use super::{bound_document, failed, refused, request_of};
use crate::code::U001;
use crate::failure::{Failure, Result};
use crate::reading::Place;
use crate::tasks::options::no_effect;
use crate::tasks::placement::Documents;
use crate::tasks::{ParallelOptions, Request};

/// A training graph, with its devices and the parallelism to use.
#[derive(Clone)]
pub(super) struct Graph {
    label: String,
    pub(super) graph: GraphDocument,
    pub(super) cluster: ClusterDocument,
    pub(super) options: Option<ModelOptionsDocument>,
    pub(super) objective: JointObjectiveDocument,
    problem: iteration::Problem,
    place: Place,
}

impl Graph {
    /// Reads a training graph as a question, with notes on its options and prices.
    ///
    /// # Errors
    /// No batch (U001), documents that are not valid, or a model that cannot have a joint plan.
    pub(super) fn read(
        request: Request,
        given: &ParallelOptions,
        parallel: BTreeMap<Parallelism, Option<u32>>,
    ) -> Result<(Graph, Vec<String>)> {
        let place = request.place.clone();
        let Some(global_batch) = given.global_batch else {
            let option = place("global_batch");
            let help = format!("give the samples of a batch over all copies, such as {option} 1024");
            return Err(Failure::new(U001, "the size of the batch is not given").at(option).help(help));
        };
        if given.recompute_workspace.is_some() {
            return Err(no_effect("recompute_workspace", "a joint plan", &place));
        }
        let mut schedules = request.objective.schedule.clone();
        schedules.sort_unstable();
        schedules.dedup();
        if schedules.is_empty() {
            schedules.push(Schedule::OneFOneB);
        }
        let (documents, notes) = Documents::read(request)?;
        let Documents { label, model, cluster, cluster_label, options, .. } = documents;
        let graph = model.graph;
        CoreGraph::from_document(graph.clone()).map_err(|error| Failure::graph(&label, &error))?;
        Cluster::from_document(cluster.clone()).map_err(|error| Failure::cluster(&cluster_label, &error))?;
        let objective = JointObjectiveDocument {
            kind: JointObjectiveKind::Iteration,
            parallel,
            global_batch,
            microbatch: given.microbatch,
            schedules,
            recompute_workspace: RecomputeWorkspace::Max,
            value_s: None,
        };
        let names = layers::layer_names(&graph);
        let problem = iteration::Problem::new(&graph, &names, &cluster, request_of(&objective))
            .map_err(|error| refused(&label, &error, &place))?;
        Ok((Graph { label, graph, cluster, options, objective, problem, place }, notes))
    }

    /// FLOP and tokens of the model per sample, from which rates are computed.
    pub(super) fn figures(&self) -> JointFigures {
        let passes = self.graph.operators.iter().filter(|operator| operator.pass != Pass::Update);
        let flop: f64 = passes.filter_map(|operator| operator.flop).sum();
        let samples = self.graph.batch.map_or(1.0, |batch| batch.samples.get() as f64);
        let tokens = self.graph.batch.and_then(|batch| batch.tokens).map(|tokens| tokens.get() as f64);
        JointFigures { flop: flop / samples, tokens }
    }

    /// The question with additional degrees fixed.
    ///
    /// # Errors
    /// A model that has no joint plan with these degrees.
    pub(super) fn with_degrees(&self, given: &[(Parallelism, Option<u32>)]) -> Result<Graph> {
        let mut objective = self.objective.clone();
        objective.parallel.extend(given.iter().copied());
        if given.contains(&(Parallelism::Pp, Some(1))) {
            // A single stage takes the same time under all schedules, except that it cannot be interleaved.
            objective.schedules = vec![Schedule::OneFOneB];
        }
        let names = layers::layer_names(&self.graph);
        let problem = iteration::Problem::new(&self.graph, &names, &self.cluster, request_of(&objective))
            .map_err(|error| {
                Failure::new(error.code(), error.to_string()).at(&self.label).help(error.help())
            })?;
        Ok(Graph { problem, objective, ..self.clone() })
    }

    /// Times and bytes of every stage of a plan, broken down by part.
    pub(super) fn parts(&self, plan: &JointPlanDocument) -> Option<Vec<JointPartsDocument>> {
        self.problem.parts(plan)
    }

    /// Finds a plan.
    ///
    /// # Errors
    /// A defect of the solver (X001).
    pub(super) fn solve(&self, context: &mut Context<'_>) -> Result<JointPlanDocument> {
        let solution =
            iteration::solve(&self.problem, context).map_err(|error| failed(&error, &self.place))?;
        let plan = JointPlanDocument {
            status: solution.status.into(),
            bound: bound_document(solution.bound, iteration::NAME),
            gap: solution.value.zip(solution.bound).map(|(value, bound)| tolerance::gap(value, bound)),
            seconds: context.elapsed().as_secs_f64(),
            stop: solution.stop.map(|reason| reason.name().to_owned()),
            reason: solution.reason,
            execution: solution.execution,
            stages: solution.stages,
            ..self.without_plan("")
        };
        let objective = JointObjectiveDocument { value_s: solution.value, ..plan.objective };
        Ok(JointPlanDocument { objective, ..plan })
    }

    /// The document that there is no plan, with the reason.
    pub(super) fn without_plan(&self, reason: &str) -> JointPlanDocument {
        JointPlanDocument {
            schema: JOINT_PLAN_SCHEMA.into(),
            status: PlanStatus::Unknown,
            solver: iteration::NAME.into(),
            model: match self.graph.name.as_str() {
                "" => self.label.clone(),
                name => name.into(),
            },
            options: self.options.clone(),
            cluster: Some(self.cluster.clone()),
            objective: self.objective.clone(),
            bound: bound_document(None, iteration::NAME),
            gap: None,
            seconds: 0.0,
            stop: None,
            reason: Some(reason.to_owned()),
            execution: None,
            stages: Vec::new(),
        }
    }
}
