//! `plan --parallel`, `bound --parallel`, and `check` of joint plans.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use stagewright::core::document::{
    ClusterDocument, GraphDocument, JOINT_PLAN_SCHEMA, JointBoundDocument, JointLayerDocument,
    JointObjectiveDocument, JointObjectiveKind, JointPartsDocument, JointPlanDocument, JointStageDocument,
    ModelOptionsDocument, Parallelism, PiperDocument, PlanStatus, RecomputeWorkspace, Schedule,
};
use stagewright::core::solver::{Context, SolveError, Status};
use stagewright::core::tolerance;
use stagewright::formats::piper::{self, configuration_names, layer_names};
use stagewright::formats::{
    Format, import_joint_plan, import_piper, is_joint_plan, is_piper, layers, write_joint_plan,
};
use stagewright::joint::{iteration, sample};
use stagewright::report::html::{self, joint::JointPage};
use stagewright::report::joint::JointFigures;
use stagewright_verify::{JointReport, JointVerdict, check_joint, check_joint_layers};

use super::args::{
    AroundArguments, BoundArguments, CheckArguments, ModelArguments, ObjectiveArguments, ParallelArguments,
    PlanArguments,
};
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Input, Outputs, at_most_one_standard};
use super::model_options::{Kept, ModelOptions};
use super::progress::Progress;
use super::resolve::{self, Solving};
use super::{interrupt, measured, output};

mod compare;
mod explain;
mod text;

pub(super) use compare::compare;
pub(super) use explain::explain_if_joint;

/// `plan`.
pub(super) fn plan(arguments: &PlanArguments, verbose: bool) -> Result<Exit> {
    refuse(&[
        ("--start", arguments.start.is_some()),
        ("--robust", arguments.robust.is_some()),
        ("--simulations", arguments.simulations.is_some()),
        ("--checkpoint", arguments.checkpoint.is_some()),
        ("--dot", arguments.dot.is_some()),
        ("--trace", arguments.trace.is_some()),
        ("--convergence", arguments.convergence.is_some()),
        ("--solver", arguments.solver != "auto"),
    ])?;
    refuse_around(&arguments.model.around, &besides_schedules(&arguments.objective))?;
    let is_printed = arguments.out.as_deref().is_some_and(files::is_standard);
    let outputs = files::outputs(&[
        ("--json", arguments.json.then_some(Path::new("-")).filter(|_| !is_printed)),
        ("--out", arguments.out.as_deref()),
        ("--html", arguments.html.as_deref()),
    ])?;
    let solving = resolve::solving(&arguments.solve)?;
    let problem = Problem::read(&arguments.model, &arguments.parallel, &arguments.objective.schedule)?;
    let document = problem.solve(&solving, verbose)?;
    match (arguments.json || is_printed, outputs) {
        (true, _) => output::data(&write_joint_plan(&document))?,
        (false, Outputs::Files) => {
            output::result(&text::plan(&document, problem.figures(), output::width()))?
        }
        (false, Outputs::Standard) => {}
    }
    if let Some(path) = arguments.out.as_deref().filter(|_| !is_printed) {
        files::write(path, &write_joint_plan(&document))?;
    }
    if let Some(path) = &arguments.html {
        let parts = problem.parts(&document);
        let page = JointPage {
            model: &document.model,
            cluster: document.cluster.as_ref().map(|cluster| cluster.name.as_str()),
            document: &document,
            parts: parts.as_deref(),
            figures: problem.figures(),
        };
        files::write_with(path, |file| html::joint::write(&page, file))?;
    }
    Ok(match (document.status, document.gap, solving.gap) {
        (PlanStatus::Infeasible, _, _) => Exit::Infeasible,
        _ if document.stages.is_empty() => Exit::NoPlan,
        (PlanStatus::Feasible, reached, Some(wanted)) if reached.is_none_or(|reached| reached > wanted) => {
            Exit::GapNotReached
        }
        _ => Exit::Done,
    })
}

/// `bound`.
pub(super) fn bound(arguments: &BoundArguments, verbose: bool) -> Result<Exit> {
    refuse(&[("--solver", arguments.solver.is_some())])?;
    refuse_around(&arguments.model.around, &besides_schedules(&arguments.objective))?;
    let solving = resolve::solving(&arguments.solve)?;
    let problem = Problem::read(&arguments.model, &arguments.parallel, &arguments.objective.schedule)?;
    let document = problem.solve(&solving, verbose)?;
    if document.status == PlanStatus::Infeasible {
        output::note("infeasible: there is no plan to bound; `plan` explains why");
    }
    let bounds = Bounds { bounds: [&document.bound], strongest: &document.bound };
    match arguments.json {
        true => output::data(&output::json(&bounds)?)?,
        false => output::result(&text::bound(&document, output::width()))?,
    }
    Ok(match document.status {
        PlanStatus::Infeasible => Exit::Infeasible,
        _ if document.bound.value_s.is_none() => Exit::NoPlan,
        _ => Exit::Done,
    })
}

/// The output of `bound --json`.
#[derive(Serialize)]
struct Bounds<'b> {
    bounds: [&'b JointBoundDocument; 1],
    strongest: &'b JointBoundDocument,
}

/// Checks a plan if it is a joint plan.
pub(super) fn check_if_joint(arguments: &CheckArguments) -> Result<Option<Exit>> {
    let Some((label, plan)) = read_plan(&arguments.plan)? else { return Ok(None) };
    at_most_one_standard(&[Some(&arguments.model.model), Some(&arguments.plan)])?;
    refuse_around(&arguments.model.around, &arguments.objective)?;
    let kept = plan.options.as_ref().map(|options| Kept { label: &label, options });
    let around = &arguments.model.around;
    let options =
        ModelOptions::with_costs(&around.import, around.memory_reserve.as_deref(), &around.costs, kept)?;
    let wrong = |error: stagewright_verify::CheckError| {
        CliError::new(&format!("V:{}", error.code()), error.to_string())
            .at(format!("{}, {label}", arguments.model.model.display()))
            .help("correct the named document; the plan itself was not checked")
    };
    let cluster =
        around.cluster.as_deref().map(resolve::cluster_file).transpose()?.map(|(_, cluster)| cluster);
    let report = match plan.objective.kind {
        JointObjectiveKind::TimePerSample => {
            let Input { label, bytes } = files::read(&arguments.model.model)?;
            let document = import_piper(&label, &bytes)?;
            let plan = match cluster {
                Some(cluster) => JointPlanDocument { cluster: Some(cluster), ..plan.clone() },
                None => plan.clone(),
            };
            check_joint_layers(&document, &plan).map_err(wrong)?
        }
        JointObjectiveKind::Iteration => {
            let (_, mut model) = resolve::opened_model(files::open(&arguments.model.model)?, &options)?;
            let Some(mut cluster) = cluster.or_else(|| plan.cluster.clone()) else {
                return Err(CliError::new("U002", "no cluster given, and the plan contains none")
                    .at(&label)
                    .help("give one with --cluster"));
            };
            measured::on(&mut model, &mut cluster, &options.costs())?;
            check_joint(&model.graph, &cluster, &plan).map_err(wrong)?
        }
    };
    match arguments.json {
        true => output::data(&output::json(&Summary::new(&report))?)?,
        false => output::result(&text::checked(&plan, &report, output::width()))?,
    }
    Ok(Some(if report.holds() { Exit::Done } else { Exit::Violation }))
}

/// Reads a plan, with its label, if it is a joint plan; else the plan can still be read.
pub(super) fn read_plan(path: &Path) -> Result<Option<(String, JointPlanDocument)>> {
    match files::peek(path)? {
        Some(Input { label, bytes }) if is_joint_plan(&bytes) => {
            let plan = import_joint_plan(&label, &bytes)?;
            Ok(Some((label, plan)))
        }
        _ => Ok(None),
    }
}

/// The output of `check --json`.
#[derive(Serialize)]
struct Summary {
    holds: bool,
    value_s: Option<f64>,
    bound: &'static str,
    violations: Vec<String>,
}

impl Summary {
    fn new(report: &JointReport) -> Summary {
        Summary {
            holds: report.holds(),
            value_s: report.value_s,
            bound: verdict(&report.bound),
            violations: report.violations.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Name of a verdict in JSON.
fn verdict(verdict: &JointVerdict) -> &'static str {
    match verdict {
        JointVerdict::NoClaim => "no-claim",
        JointVerdict::NotVerified => "not-verified",
        JointVerdict::Refuted => "refuted",
        _ => "verified",
    }
}

/// Refuses options that were given.
fn refuse(options: &[(&str, bool)]) -> Result<()> {
    match options.iter().find(|option| option.1) {
        Some((option, _)) => Err(CliError::new("U013", format!("{option} does not apply to a joint plan"))
            .at(*option)
            .help("leave it out")),
        None => Ok(()),
    }
}

/// The options of the objective without the schedules, which a joint plan has.
fn besides_schedules(objective: &ObjectiveArguments) -> ObjectiveArguments {
    ObjectiveArguments { schedule: Vec::new(), ..objective.clone() }
}

fn refuse_around(around: &AroundArguments, objective: &ObjectiveArguments) -> Result<()> {
    refuse(&[("--pins", around.pins.is_some())])?;
    refuse(&objective.given())
}

/// Parses a list of kinds of parallelism, each with an optional degree.
fn parallel(list: &str) -> Result<BTreeMap<Parallelism, Option<u32>>> {
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
enum Problem {
    Layers(Box<Layers>),
    Graph(Box<Graph>),
}

/// A file of Piper, with the devices of the request.
struct Layers {
    label: String,
    document: PiperDocument,
    cluster: Option<ClusterDocument>,
    options: Option<ModelOptionsDocument>,
    objective: JointObjectiveDocument,
    problem: sample::Problem,
}

/// A training graph.
#[derive(Clone)]
struct Graph {
    label: String,
    graph: GraphDocument,
    cluster: ClusterDocument,
    options: Option<ModelOptionsDocument>,
    objective: JointObjectiveDocument,
    problem: iteration::Problem,
}

impl Problem {
    fn read(
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

    fn figures(&self) -> JointFigures {
        match self {
            Problem::Layers(_) => JointFigures::default(),
            Problem::Graph(graph) => graph.figures(),
        }
    }

    /// Times and bytes of every stage by part, where the model has them.
    fn parts(&self, plan: &JointPlanDocument) -> Option<Vec<JointPartsDocument>> {
        match self {
            Problem::Layers(_) => None,
            Problem::Graph(graph) => graph.problem.parts(plan),
        }
    }

    fn solve(&self, solving: &Solving, verbose: bool) -> Result<JointPlanDocument> {
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
fn refused(label: &str, error: &iteration::ModelError) -> CliError {
    let place = match error {
        iteration::ModelError::Schedules => "--schedule",
        iteration::ModelError::Range { .. } | iteration::ModelError::Combinations { .. } => "--parallel",
        iteration::ModelError::Kind { .. } | iteration::ModelError::Kinds { .. } => "--cluster",
        _ => label,
    };
    CliError::new(error.code(), error.to_string()).at(place).help(error.help())
}

fn failed(error: &SolveError) -> CliError {
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
    fn read(
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
                options.reserve(&mut cluster);
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

    fn solve(&self, context: &mut Context<'_>) -> Result<JointPlanDocument> {
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
    fn read(
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

    fn figures(&self) -> JointFigures {
        use stagewright::core::document::Pass;
        let passes = self.graph.operators.iter().filter(|operator| operator.pass != Pass::Update);
        let flop: f64 = passes.filter_map(|operator| operator.flop).sum();
        let samples = self.graph.batch.map_or(1.0, |batch| batch.samples.get() as f64);
        let tokens = self.graph.batch.and_then(|batch| batch.tokens).map(|tokens| tokens.get() as f64);
        JointFigures { flop: flop / samples, tokens }
    }

    /// The best plan with some degrees given.
    fn planned(
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

    fn solve(&self, context: &mut Context<'_>) -> Result<JointPlanDocument> {
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
