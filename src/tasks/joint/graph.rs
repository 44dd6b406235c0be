//! Joint plans of a training graph, which minimise the time of an iteration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    ClusterDocument, GraphDocument, JOINT_PLAN_SCHEMA, JointObjectiveDocument, JointObjectiveKind,
    JointPartsDocument, JointPlanDocument, KindDocument, ModelOptionsDocument, OriginDocument, Parallelism,
    Pass, PlanStatus, RecomputeWorkspace, RuntimeDocument, Schedule, SourcesDocument,
};
use stagewright_core::graph::Graph as CoreGraph;
use stagewright_core::solver::Context;
use stagewright_core::tolerance;
use stagewright_costs::{Coverage, Source, Unmeasured};
use stagewright_formats::{layers, runtimes};
use stagewright_joint::code::J011;
use stagewright_joint::iteration;
use stagewright_report::joint::JointFigures;
use stagewright_report::throughput::joint_throughput;

use super::{bound_document, failed, refused, request_of};
use crate::code::U001;
use crate::failure::{Failure, Result};
use crate::files;
use crate::reading::{self, Place};
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
    /// Sources of the operators' seconds.
    coverage: Coverage,
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
        let runtime = runtime(given.runtime.as_deref(), &place)?;
        let (documents, notes) = Documents::read(request, false, Unmeasured::Stated, runtime.as_ref())?;
        let Documents { label, model, cluster, cluster_label, options, coverage, .. } = documents;
        let graph = model.graph;
        CoreGraph::from_document(graph.clone()).map_err(|error| Failure::graph(&label, &error))?;
        Cluster::from_document(cluster.clone()).map_err(|error| Failure::cluster(&cluster_label, &error))?;
        let objective = JointObjectiveDocument {
            kind: JointObjectiveKind::Iteration,
            parallel,
            global_batch,
            microbatch: given.microbatch,
            schedules,
            chunks: given.chunks,
            cut: given.cut.clone(),
            recompute_workspace: RecomputeWorkspace::Max,
            runtime,
            value_s: None,
        };
        let names = layers::layer_names(&graph);
        let problem = iteration::Problem::new(&graph, &names, &cluster, request_of(&objective))
            .map_err(|error| refused(&label, &error, &place))?;
        Ok((Graph { label, graph, cluster, options, objective, coverage, problem, place }, notes))
    }

    /// FLOP of the model per sample, from which the utilisation is computed.
    pub(super) fn figures(&self) -> JointFigures {
        let passes = self.graph.operators.iter().filter(|operator| operator.pass != Pass::Update);
        let flop: f64 = passes.filter_map(|operator| operator.flop).sum();
        let samples = self.graph.batch.map_or(1.0, |batch| batch.samples.get() as f64);
        JointFigures { flop: flop / samples }
    }

    /// Adds the rate of a plan, and where its figures come from.
    pub(super) fn complete(&self, mut plan: JointPlanDocument) -> JointPlanDocument {
        let (value, execution) = (plan.objective.value_s, plan.execution.as_ref());
        plan.throughput =
            value.and_then(|value| joint_throughput(&plan.objective, execution, value, tokens(&self.graph)));
        plan.sources = sources(&self.problem, &self.graph, &self.cluster, &self.coverage, &plan);
        plan
    }

    /// The objective with additional degrees fixed, and neither context parallelism, groups of shards, states on hosts
    /// nor stages with devices of two kinds unless they are among them.
    pub(super) fn with_degrees(&self, given: &[(Parallelism, Option<u32>)]) -> JointObjectiveDocument {
        let mut objective = self.objective.clone();
        let left_out = [Parallelism::Cp, Parallelism::Shard, Parallelism::Offload, Parallelism::Mixed];
        objective.parallel.retain(|kind, _| !left_out.contains(kind));
        objective.parallel.extend(given.iter().copied());
        if given.contains(&(Parallelism::Pp, Some(1))) {
            // A single stage takes the same time under all schedules, except those with several stages per device.
            objective.schedules = vec![Schedule::OneFOneB];
            (objective.chunks, objective.cut) = (None, None);
        }
        objective
    }

    /// Finds a plan under another objective. One that contradicts itself, the model or the cluster has none, with the
    /// reason.
    ///
    /// # Errors
    /// A defect of the solver (X001).
    pub(super) fn solve_under(
        &self,
        objective: JointObjectiveDocument,
        context: &mut Context<'_>,
    ) -> Result<JointPlanDocument> {
        let names = layers::layer_names(&self.graph);
        match iteration::Problem::new(&self.graph, &names, &self.cluster, request_of(&objective)) {
            Ok(problem) => Graph { problem, objective, ..self.clone() }.solve(context),
            Err(error @ (iteration::ModelError::Range { .. } | iteration::ModelError::Cut(_))) => {
                Ok(self.infeasible(&error.to_string()))
            }
            Err(error) => Ok(self.without_plan(&error.to_string())),
        }
    }

    /// Number of layers of the model's stacks.
    pub(super) fn numbered_layers(&self) -> u32 {
        let names = layers::layer_names(&self.graph).into_iter().flatten();
        let numbered: BTreeSet<String> =
            names.filter_map(|(name, is_numbered)| is_numbered.then_some(name)).collect();
        u32::try_from(numbered.len()).unwrap_or(u32::MAX)
    }

    /// Number of devices that are no hosts.
    pub(super) fn devices(&self) -> u32 {
        let kinds = self.cluster.kinds.iter().filter(|kind| !kind.host);
        kinds.fold(0, |sum, kind| sum.saturating_add(kind.count))
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
        Ok(self.complete(JointPlanDocument { objective, ..plan }))
    }

    /// The document that there can be no plan, with the reason.
    pub(super) fn infeasible(&self, reason: &str) -> JointPlanDocument {
        JointPlanDocument { status: PlanStatus::Infeasible, ..self.without_plan(reason) }
    }

    /// The document that no plan was found, with the reason.
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
            origin: Some(OriginDocument::of_library()),
            stop: None,
            reason: Some(reason.to_owned()),
            throughput: None,
            sources: None,
            execution: None,
            stages: Vec::new(),
        }
    }
}

/// The runtime of a name or a file; `None` if it is the ideal one.
///
/// # Errors
/// An unknown name (J011), or a file without the constants of a runtime.
fn runtime(given: Option<&str>, place: &Place) -> Result<Option<RuntimeDocument>> {
    let name = given.unwrap_or(runtimes::DEFAULT);
    if name == runtimes::IDEAL {
        return Ok(None);
    }
    if let Some(runtime) = runtimes::runtime(name) {
        return Ok(Some(runtime.clone()));
    }
    if name.contains(['.', '/', '\\']) || Path::new(name).is_file() {
        let bytes = files::whole(Path::new(name), name)?;
        return Ok(Some(runtimes::import_runtime(name, &bytes)?));
    }
    let known = runtimes::runtimes().iter().map(|runtime| runtime.name.as_str());
    let known: Vec<&str> = known.chain([runtimes::IDEAL]).collect();
    Err(Failure::new(J011, format!("there is no runtime `{name}`"))
        .at(place("runtime"))
        .help(format!("give one of {}, or a file", known.join(", "))))
}

/// Tokens of a sample of a model, if known.
pub(super) fn tokens(graph: &GraphDocument) -> Option<f64> {
    graph.batch.and_then(|batch| batch.tokens).map(|tokens| tokens.get() as f64)
}

/// Where the seconds of a plan's operators come from; `None` without a plan for the problem.
pub(super) fn sources(
    problem: &iteration::Problem,
    graph: &GraphDocument,
    cluster: &ClusterDocument,
    coverage: &Coverage,
    plan: &JointPlanDocument,
) -> Option<SourcesDocument> {
    // Closed forms of kernels have no part in joint plans: what is not measured is estimated.
    let (mut cluster, mut coverage) = (cluster.clone(), coverage.clone());
    cluster.classes.values_mut().for_each(|class| class.fits.clear());
    for (class, sources) in &mut coverage.operators {
        for (source, operator) in sources.iter_mut().zip(&graph.operators) {
            if *source == Some(Source::Fitted) && !operator.seconds.contains_key(class) {
                *source = Some(Source::Guessed);
            }
        }
    }
    let mut layers = problem.layers().into_iter();
    let mut operators = Vec::new();
    for stage in &plan.stages {
        // Each operator counts once on every kind of its stage.
        let is_of_stage = |kind: &&KindDocument| {
            Some(&kind.name) == stage.kind.as_ref() || stage.mixed.contains_key(&kind.name)
        };
        let kinds: Vec<&KindDocument> = cluster.kinds.iter().filter(is_of_stage).collect();
        if kinds.is_empty() {
            return None;
        }
        for listed in &stage.layers {
            let (_, of_layer) = layers.next().filter(|(name, _)| *name == listed.layer)?;
            let on_kinds = of_layer
                .into_iter()
                .flat_map(|operator| kinds.iter().map(move |kind| (operator, kind.class.as_str())));
            operators.extend(on_kinds);
        }
    }
    reading::sources_on(graph, &cluster, operators, &coverage)
}
