//! What a joint plan is made for: a training graph, or a file of Piper.

use std::collections::BTreeMap;

use stagewright::core::document::{
    ClusterDocument, GraphDocument, JOINT_PLAN_SCHEMA, JointBoundDocument, JointLayerDocument,
    JointObjectiveDocument, JointObjectiveKind, JointPartsDocument, JointPlanDocument, JointStageDocument,
    ModelOptionsDocument, Parallelism, PiperDocument, PlanStatus, RecomputeWorkspace, Schedule,
};
use stagewright::core::solver::{Context, SolveError, Status};
use stagewright::core::tolerance;
use stagewright::formats::piper::{self, configuration_names, layer_names};
use stagewright::formats::{Format, import_piper, is_piper, layers};
use stagewright::joint::{iteration, sample};
use stagewright::reading;
use stagewright::report::joint::JointFigures;

use super::super::args::{ModelArguments, ParallelArguments};
use super::super::error::{CliError, Result};
use super::super::files::{self, Input, at_most_one_standard};
use super::super::interrupt;
use super::super::model_options::ModelOptions;
use super::super::progress::Progress;
use super::super::resolve::{self, Solving};
use super::refuse;

/// Parses a list of kinds of parallelism, each with an optional degree.
pub(super) fn parallel(list: &str) -> Result<BTreeMap<Parallelism, Option<u32>>> {
    let wrong = |cause: String| {
        CliError::new("U001", cause)
            .at("--parallel")
            .help("give a list of tp, dp, pp, ep, zero and recompute, such as tp=8,dp,pp")
    };
    let mut found = BTreeMap::new();
    for item in list.split(',') {
        let (name, degree) = match item.split_once('=') {
            Some((name, degree)) => (name.trim(), Some(degree.trim())),
            None => (item.trim(), None),
        };
        let parallelism = Parallelism::ALL
            .into_iter()
            .find(|parallelism| parallelism.name() == name)
            .ok_or_else(|| match name {
                "" => wrong("an item of the list is empty".into()),
                _ => wrong(format!("`{name}` is no kind of parallelism")),
            })?;
        let degree = match degree {
            None => None,
            Some(text) if parallelism == Parallelism::Recompute => {
                let at = iteration::CONFIGURATIONS.iter().position(|&name| name == text);
                let known = iteration::CONFIGURATIONS.join(", ");
                let at = at.ok_or_else(|| wrong(format!("`{text}` is not one of {known}")))?;
                Some(at as u32)
            }
            Some(text) => {
                let degree: Option<u32> = text.parse().ok();
                Some(degree.ok_or_else(|| wrong(format!("`{text}` is not a degree of {name}")))?)
            }
        };
        if found.insert(parallelism, degree).is_some() {
            return Err(wrong(format!("{name} is listed twice")));
        }
    }
    Ok(found)
}

/// What is planned.
pub(super) enum Problem {
    Layers(Box<Layers>),
    Graph(Box<Graph>),
}

/// A file of Piper, with the devices of the request.
pub(super) struct Layers {
    label: String,
    document: PiperDocument,
    cluster: Option<ClusterDocument>,
    options: Option<ModelOptionsDocument>,
    objective: JointObjectiveDocument,
    problem: sample::Problem,
}

/// A training graph.
#[derive(Clone)]
pub(super) struct Graph {
    label: String,
    graph: GraphDocument,
    pub(super) cluster: ClusterDocument,
    options: Option<ModelOptionsDocument>,
    pub(super) objective: JointObjectiveDocument,
    problem: iteration::Problem,
}

impl Problem {
    pub(super) fn read(
        model: &ModelArguments,
        arguments: &ParallelArguments,
        schedules: &[Schedule],
    ) -> Result<Problem> {
        let parallel = parallel(arguments.parallel.as_deref().unwrap_or_default())?;
        at_most_one_standard(&[Some(&model.model), model.around.cluster.as_deref()])?;
        let given = model.around.import.format.as_deref();
        if given.is_none_or(|format| format == Format::Piper.entry().name)
            && let Some(Input { label, bytes }) = files::peek(&model.model)?
            && (given.is_some() || is_piper(&bytes))
        {
            if !schedules.is_empty() {
                return Err(CliError::new("U013", "--schedule does not apply to a file of Piper")
                    .at("--schedule")
                    .help("leave it out: its plans are for the time per sample of the slowest stage"));
            }
            return Layers::read(&label, &bytes, model, arguments, parallel)
                .map(|layers| Problem::Layers(Box::new(layers)));
        }
        Graph::read(model, arguments, parallel, schedules).map(|graph| Problem::Graph(Box::new(graph)))
    }

    pub(super) fn objective(&self) -> &JointObjectiveDocument {
        match self {
            Problem::Layers(layers) => &layers.objective,
            Problem::Graph(graph) => &graph.objective,
        }
    }

    pub(super) fn options(&self) -> Option<&ModelOptionsDocument> {
        match self {
            Problem::Layers(layers) => layers.options.as_ref(),
            Problem::Graph(graph) => graph.options.as_ref(),
        }
    }

    pub(super) fn figures(&self) -> JointFigures {
        match self {
            Problem::Layers(_) => JointFigures::default(),
            Problem::Graph(graph) => graph.figures(),
        }
    }

    /// Times and bytes of every stage by part, where the model has them.
    pub(super) fn parts(&self, plan: &JointPlanDocument) -> Option<Vec<JointPartsDocument>> {
        match self {
            Problem::Layers(_) => None,
            Problem::Graph(graph) => graph.problem.parts(plan),
        }
    }

    pub(super) fn solve(&self, solving: &Solving, verbose: bool) -> Result<JointPlanDocument> {
        let mut progress = Progress::new(verbose);
        let mut context = Context::new(solving.limits, interrupt::watch(), &mut progress);
        context.seed = solving.seed;
        context.threads = solving.threads;
        match self {
            Problem::Layers(layers) => layers.solve(&mut context),
            Problem::Graph(graph) => graph.solve(&mut context),
        }
    }
}

/// The error of a model, a cluster or a request that no joint plan can be made for.
pub(super) fn refused(label: &str, error: &iteration::ModelError) -> CliError {
    let place = match error {
        iteration::ModelError::Schedules => "--schedule",
        iteration::ModelError::Range { .. } | iteration::ModelError::Combinations { .. } => "--parallel",
        iteration::ModelError::Kind { .. } | iteration::ModelError::Kinds { .. } => "--cluster",
        _ => label,
    };
    CliError::new(error.code(), error.to_string()).at(place).help(error.help())
}

pub(super) fn failed(error: &SolveError) -> CliError {
    CliError::new("X001", error.to_string()).at("--parallel")
}

fn status(status: Status) -> PlanStatus {
    match status {
        Status::Optimal => PlanStatus::Optimal,
        Status::Feasible => PlanStatus::Feasible,
        Status::Infeasible => PlanStatus::Infeasible,
        Status::Unknown => PlanStatus::Unknown,
    }
}

fn bound_document(value: Option<f64>, source: &str) -> JointBoundDocument {
    JointBoundDocument { value_s: value, source: if value.is_some() { source } else { "none" }.into() }
}

impl Layers {
    pub(super) fn read(
        label: &str,
        bytes: &[u8],
        model: &ModelArguments,
        arguments: &ParallelArguments,
        parallel: BTreeMap<Parallelism, Option<u32>>,
    ) -> Result<Layers> {
        let around = &model.around;
        let options = ModelOptions::new(&around.import, around.memory_reserve.as_deref(), None)?;
        options.suit(Format::Piper)?;
        refuse(&[("--costs", !around.costs.is_empty()), ("--microbatch", arguments.microbatch.is_some())])?;
        if let Some((parallelism, _)) = parallel.iter().find(|(_, degree)| degree.is_some()) {
            return Err(CliError::new(
                "U001",
                format!(
                    "a degree of {} is given, but stages of a file of Piper have degrees of their own",
                    parallelism.name()
                ),
            )
            .at("--parallel")
            .help("leave the degree out"));
        }
        let mut document = import_piper(label, bytes)?;
        let cluster = match around.cluster.as_deref().map(resolve::cluster_file).transpose()? {
            None => None,
            Some((_, mut cluster)) => {
                reading::reserve(&mut cluster, options.document());
                on_cluster(&mut document, &cluster)?;
                Some(cluster)
            }
        };
        if let Some(batch) = arguments.global_batch {
            let batch = u32::try_from(batch).ok().filter(|&batch| batch > 0);
            document.microbatches = Some(batch.ok_or_else(|| {
                CliError::new("U001", "the batch must be from 1 to 4294967295").at("--global-batch")
            })?);
        }
        let per_second = piper::per_second(label, options.reading()?.time_unit)?;
        let workspace = arguments.recompute_workspace.unwrap_or_default();
        let terms = sample::Terms {
            workspace,
            tensor: parallel.contains_key(&Parallelism::Tp),
            data: parallel.contains_key(&Parallelism::Dp),
            pipeline: parallel.contains_key(&Parallelism::Pp),
            recompute: parallel.contains_key(&Parallelism::Recompute),
            per_second,
        };
        let problem = sample::Problem::new(&document, terms)
            .map_err(|error| CliError::new(error.code(), error.to_string()).at(label).help(error.help()))?;
        let objective = JointObjectiveDocument {
            kind: JointObjectiveKind::TimePerSample,
            parallel,
            global_batch: document.microbatches.unwrap_or(0).into(),
            microbatch: None,
            schedules: Vec::new(),
            recompute_workspace: workspace,
            value_s: None,
        };
        Ok(Layers { label: label.into(), document, cluster, options: options.kept(), objective, problem })
    }

    pub(super) fn solve(&self, context: &mut Context<'_>) -> Result<JointPlanDocument> {
        let solution = sample::solve(&self.problem, context).map_err(|error| failed(&error))?;
        let names = layer_names(&self.document);
        let stage = |stage: &sample::PlannedStage| {
            let layers = stage.layers.iter().zip(&stage.configurations).map(|(&layer, &index)| {
                let of_layer = &self.document.nodes[layer].configurations;
                let listed = of_layer.iter().find(|(degree, _)| degree.trim().parse() == Ok(stage.tensor));
                let configurations =
                    listed.map(|(_, listed)| configuration_names(listed)).unwrap_or_default();
                JointLayerDocument {
                    layer: names[layer].clone(),
                    configuration: configurations.get(index as usize).cloned().unwrap_or_default(),
                }
            });
            JointStageDocument {
                data: stage.data,
                tensor: stage.tensor,
                in_flight: stage.in_flight,
                seconds: stage.seconds,
                memory_bytes: stage.memory_bytes,
                layers: layers.collect(),
                ..JointStageDocument::default()
            }
        };
        Ok(JointPlanDocument {
            schema: JOINT_PLAN_SCHEMA.into(),
            status: status(solution.status),
            solver: sample::NAME.into(),
            model: self.label.clone(),
            options: self.options.clone(),
            cluster: self.cluster.clone(),
            objective: JointObjectiveDocument { value_s: solution.value, ..self.objective.clone() },
            bound: bound_document(solution.bound, sample::NAME),
            gap: solution.value.zip(solution.bound).map(|(value, bound)| tolerance::gap(value, bound)),
            seconds: context.elapsed().as_secs_f64(),
            stop: solution.stop.map(|reason| reason.name().to_owned()),
            reason: (solution.status == Status::Infeasible)
                .then(|| "no stages fit into the memory of the devices at any degrees".to_owned()),
            execution: None,
            stages: solution.stages.iter().map(stage).collect(),
        })
    }
}

/// Puts the devices of a cluster in place of those of a file of Piper.
fn on_cluster(document: &mut PiperDocument, cluster: &ClusterDocument) -> Result<()> {
    let wrong = |cause: &str| {
        CliError::new("U001", cause)
            .at("--cluster")
            .help("give one kind with a memory and a link, or leave it out")
    };
    let kinds: Vec<_> = cluster.kinds.iter().filter(|kind| !kind.host).collect();
    let [kind] = kinds[..] else {
        return Err(wrong("a file of Piper is planned for devices of one kind"));
    };
    let (Some(memory), Some(link)) = (kind.memory_bytes, kind.link) else {
        return Err(wrong("the kind has no memory or no link"));
    };
    document.max_devices = kind.count;
    document.max_memory_per_device = (memory - kind.reserve_bytes.unwrap_or(0.0)).max(0.0);
    document.bandwidth = link.bandwidth;
    Ok(())
}

impl Graph {
    pub(super) fn read(
        model: &ModelArguments,
        arguments: &ParallelArguments,
        parallel: BTreeMap<Parallelism, Option<u32>>,
        schedules: &[Schedule],
    ) -> Result<Graph> {
        let Some(global_batch) = arguments.global_batch else {
            return Err(CliError::new("U001", "the size of the batch is not given")
                .at("--global-batch")
                .help("give the samples of a batch over all copies, such as --global-batch 1024"));
        };
        refuse(&[("--recompute-workspace", arguments.recompute_workspace.is_some())])?;
        let documents = resolve::documents(model)?;
        let (label, graph, cluster) = (documents.label, documents.model.graph, documents.cluster);
        stagewright::core::graph::Graph::from_document(graph.clone())
            .map_err(|error| CliError::graph(&label, &error))?;
        stagewright::core::cluster::Cluster::from_document(cluster.clone())
            .map_err(|error| CliError::cluster(&documents.cluster_label, &error))?;
        let mut schedules = schedules.to_vec();
        schedules.sort_unstable();
        schedules.dedup();
        if schedules.is_empty() {
            schedules.push(Schedule::OneFOneB);
        }
        let request = iteration::Request {
            parallel: parallel.clone(),
            global_batch,
            microbatch: arguments.microbatch,
            schedules: schedules.clone(),
        };
        let problem = iteration::Problem::new(&graph, &layers::layer_names(&graph), &cluster, request)
            .map_err(|error| refused(&label, &error))?;
        let objective = JointObjectiveDocument {
            kind: JointObjectiveKind::Iteration,
            parallel,
            global_batch,
            microbatch: arguments.microbatch,
            schedules,
            recompute_workspace: RecomputeWorkspace::Max,
            value_s: None,
        };
        Ok(Graph { label, graph, cluster, options: documents.options, objective, problem })
    }

    pub(super) fn figures(&self) -> JointFigures {
        use stagewright::core::document::Pass;
        let passes = self.graph.operators.iter().filter(|operator| operator.pass != Pass::Update);
        let flop: f64 = passes.filter_map(|operator| operator.flop).sum();
        let samples = self.graph.batch.map_or(1.0, |batch| batch.samples.get() as f64);
        let tokens = self.graph.batch.and_then(|batch| batch.tokens).map(|tokens| tokens.get() as f64);
        JointFigures { flop: flop / samples, tokens }
    }

    /// The best plan with some degrees given.
    pub(super) fn planned(
        &self,
        given: &[(Parallelism, Option<u32>)],
        solving: &Solving,
        verbose: bool,
    ) -> Result<JointPlanDocument> {
        let mut objective = self.objective.clone();
        objective.parallel.extend(given.iter().copied());
        if given.contains(&(Parallelism::Pp, Some(1))) {
            // One stage is the same under all schedules, but is not interleaved.
            objective.schedules = vec![Schedule::OneFOneB];
        }
        let request = iteration::Request {
            parallel: objective.parallel.clone(),
            global_batch: objective.global_batch,
            microbatch: objective.microbatch,
            schedules: objective.schedules.clone(),
        };
        let names = layers::layer_names(&self.graph);
        let problem =
            iteration::Problem::new(&self.graph, &names, &self.cluster, request).map_err(|error| {
                CliError::new(error.code(), error.to_string()).at(&self.label).help(error.help())
            })?;
        let changed = Graph { problem, objective, ..self.clone() };
        Problem::Graph(Box::new(changed)).solve(solving, verbose)
    }

    pub(super) fn solve(&self, context: &mut Context<'_>) -> Result<JointPlanDocument> {
        let solution = iteration::solve(&self.problem, context).map_err(|error| failed(&error))?;
        Ok(JointPlanDocument {
            schema: JOINT_PLAN_SCHEMA.into(),
            status: status(solution.status),
            solver: iteration::NAME.into(),
            model: match self.graph.name.as_str() {
                "" => self.label.clone(),
                name => name.into(),
            },
            options: self.options.clone(),
            cluster: Some(self.cluster.clone()),
            objective: JointObjectiveDocument { value_s: solution.value, ..self.objective.clone() },
            bound: bound_document(solution.bound, iteration::NAME),
            gap: solution.value.zip(solution.bound).map(|(value, bound)| tolerance::gap(value, bound)),
            seconds: context.elapsed().as_secs_f64(),
            stop: solution.stop.map(|reason| reason.name().to_owned()),
            reason: solution.reason,
            execution: solution.execution,
            stages: solution.stages,
        })
    }
}
