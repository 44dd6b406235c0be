//! Interpretation of arguments: files to documents, options to an objective and limits.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use stagewright::clusters;
use stagewright::core::cluster::Cluster;
use stagewright::core::document::{
    BatchDocument, ClusterDocument, ModelOptionsDocument, ObjectiveDocument, ObjectiveKind, PinsDocument,
    PlanDocument,
};
use stagewright::core::graph::Graph;
use stagewright::core::objective::Objective;
use stagewright::core::problem::{Problem, ProblemError};
use stagewright::core::solver::{Limits, Solver};
use stagewright::core::uncertainty::Uncertainty;
use stagewright::costs::Coverage;
use stagewright::formats::{Imported, PlanFile, import_cluster, import_pins};
use stagewright::nearest::{instead, nearest_three};
use stagewright::{portfolio, reading, registry};

use super::args::{
    AroundArguments, ImportArguments, ModelArguments, ObjectiveArguments, PlanArguments, SolveArguments,
};
use super::error::{CliError, Result};
use super::external::{self, External};
use super::files::{Input, Opened, at_most_one_standard, is_standard, kept, open, read};
use super::model_options::{Kept, ModelOptions, option};
use super::{measured, output, quantity};

/// The documents of a problem, with their labels in errors.
pub(crate) struct Documents {
    /// The model's label.
    pub(crate) label: String,
    /// The model as imported.
    pub(crate) model: Imported,
    /// The cluster's label: the model's if the model carries the cluster.
    pub(crate) cluster_label: String,
    /// The cluster.
    pub(crate) cluster: ClusterDocument,
    /// The pins, if a file was given.
    pub(crate) pins: Option<PinsDocument>,
    /// The import options to store in a plan.
    pub(crate) options: Option<ModelOptionsDocument>,
    /// Where the seconds of the operators come from.
    pub(crate) coverage: Coverage,
}

impl Documents {
    /// The samples and tokens in a batch of the model, if known.
    pub(crate) fn batch(&self) -> Option<BatchDocument> {
        reading::batch(&self.model.graph, self.options.as_ref())
    }
}

/// Settings of a solve.
pub(crate) struct Solving {
    /// Limits of the solve.
    pub(crate) limits: Limits,
    /// The requested gap, if any.
    pub(crate) gap: Option<f64>,
    /// The seed.
    pub(crate) seed: u64,
    /// Worker threads.
    pub(crate) threads: usize,
}

/// A solver with its label.
pub(crate) struct Chosen {
    /// The solver.
    pub(crate) solver: Arc<dyn Solver>,
    /// Name of the solver, with the rule of `auto` that chose it.
    pub(crate) label: String,
}

/// Reads the files of a problem.
pub(crate) fn documents(arguments: &ModelArguments) -> Result<Documents> {
    documents_of(&arguments.model, &arguments.around, None)
}

/// Reads the files of a problem and a plan for it. The plan's options are the defaults.
pub(crate) fn planned(arguments: &ModelArguments, plan: &Path) -> Result<(Documents, PlanDocument, String)> {
    let ModelArguments { model, around } = arguments;
    at_most_one_standard(&[Some(model), around.cluster.as_deref(), around.pins.as_deref(), Some(plan)])?;
    let Input { label, bytes } = read(plan)?;
    let plan = PlanFile::read(&label, &bytes)?;
    let documents = documents_of(model, around, Kept::from_plan(&label, plan.native()))?;
    let plan = plan.for_model(&documents.model, Some(&documents.cluster))?;
    Ok((documents, plan, label))
}

/// Reads the files of the problem of one model, with the options of a plan as defaults.
pub(crate) fn documents_of(
    path: &Path,
    around: &AroundArguments,
    kept: Option<Kept<'_>>,
) -> Result<Documents> {
    let (cluster, pins) = (around.cluster.as_deref(), around.pins.as_deref());
    at_most_one_standard(&[Some(path), cluster, pins])?;
    let options =
        ModelOptions::with_costs(&around.import, around.memory_reserve.as_deref(), &around.costs, kept)?;
    reading::refuse_folder(path)?;
    let (label, mut model) = opened_model(open(path)?, &options)?;
    let (cluster_label, mut cluster) = match cluster {
        Some(path) => cluster_file(path)?,
        None => match model.graph.cluster.take() {
            Some(cluster) => {
                model.graph.cluster = Some(cluster.clone());
                (label.clone(), cluster)
            }
            None => {
                return Err(CliError::new("U002", "no cluster given, and the model contains none")
                    .at(label)
                    .help("give one with --cluster: a file, or a name such as dgx-a100 or 8xa100"));
            }
        },
    };
    let costs = measured::documents(&options.costs())?;
    let mut notes = Vec::new();
    let coverage =
        reading::join(&label, &mut model, &mut cluster, options.document(), costs, &mut notes, option)?;
    output::notes(&notes);
    let pins = match pins {
        Some(path) => {
            let Input { label, bytes } = read(path)?;
            Some(import_pins(&label, &bytes)?)
        }
        None => None,
    };
    Ok(Documents { label, model, cluster_label, cluster, pins, options: options.kept(), coverage })
}

/// Reads a model. A large file is loaded only as far as its format needs.
pub(crate) fn model(
    path: &Path,
    arguments: &ImportArguments,
    kept: Option<Kept<'_>>,
) -> Result<(String, Imported)> {
    let options = ModelOptions::new(arguments, None, kept)?;
    reading::refuse_folder(path)?;
    opened_model(open(path)?, &options)
}

/// Reads a model from an open input.
pub(crate) fn opened_model(opened: Opened, options: &ModelOptions) -> Result<(String, Imported)> {
    let (label, mut model) = reading::import(opened, &options.reading()?)?;
    options.suit(model.format)?;
    let mut notes = Vec::new();
    reading::finish(&label, &mut model, options.document(), &mut notes);
    output::notes(&notes);
    Ok((label, model))
}

/// Returns the cluster of a file, name or shorthand, with its label in errors.
pub(crate) fn cluster_file(path: &Path) -> Result<(String, ClusterDocument)> {
    if let Some(name) = name_of_no_file(path) {
        let cluster = clusters::find(name).map_err(|error| CliError::from(error).at("--cluster"))?;
        return Ok((name.into(), cluster));
    }
    let Input { label, bytes } = read(path)?;
    let cluster = import_cluster(&label, &bytes)?;
    Ok((label, cluster))
}

/// Returns the built-in cluster of an input that is not a file. An invalid shorthand is an error; any other unknown
/// name may be a missing file.
pub(crate) fn built_in_cluster(path: &Path) -> Result<Option<(String, ClusterDocument)>> {
    let Some(name) = name_of_no_file(path) else { return Ok(None) };
    match clusters::find(name) {
        Ok(cluster) => Ok(Some((name.into(), cluster))),
        Err(error) if clusters::is_counted(name) => Err(CliError::from(error).at("IN")),
        Err(_) => Ok(None),
    }
}

/// The argument as a name, if it is not a file and does not look like a path.
fn name_of_no_file(path: &Path) -> Option<&str> {
    let name = path.to_str().filter(|text| !text.contains(['/', '\\', '.']))?;
    let readable = is_standard(path) || (path.exists() && !path.is_dir());
    (!readable).then_some(name)
}

/// Builds the problem of the documents under an objective.
pub(crate) fn problem(documents: Documents, objective: Objective) -> Result<Problem> {
    let Parts { label, graph, cluster, pins } = parts(documents)?;
    let names = Pinnable::new(&graph, &cluster, &pins);
    Problem::new(graph, cluster, objective, pins).map_err(|error| names.refused(&label, &error))
}

/// Names that pins may use, for suggestions in errors; empty if there are no pins.
struct Pinnable {
    operators: Vec<String>,
    places: Vec<String>,
}

impl Pinnable {
    fn new(graph: &Graph, cluster: &Cluster, pins: &PinsDocument) -> Pinnable {
        if pins.0.is_empty() {
            return Pinnable { operators: Vec::new(), places: Vec::new() };
        }
        let kinds = &cluster.document().kinds;
        let kinds = kinds.iter().flat_map(|kind| [kind.name.clone(), kind.class.clone()]);
        let devices = cluster.devices().map(|device| cluster.device_name(device));
        Pinnable {
            operators: graph.operators().map(|op| graph.operator(op).name.clone()).collect(),
            places: kinds.chain(devices).collect(),
        }
    }

    /// The error, with the nearest names if a name is unknown.
    fn refused(&self, label: &str, error: &ProblemError) -> CliError {
        let plain = CliError::problem(label, error);
        let (name, known) = match error {
            ProblemError::UnknownPinnedOperator { name } => (name, &self.operators),
            ProblemError::UnknownPinTarget { target, .. } => (target, &self.places),
            _ => return plain,
        };
        let told = nearest_three(name, known.iter().map(String::as_str)).join(", ");
        plain.help(format!("{}; the nearest names are {told}", error.help()))
    }
}

/// The parts of a problem except its objective.
pub(crate) struct Parts {
    /// The model's label.
    pub(crate) label: String,
    pub(crate) graph: Graph,
    pub(crate) cluster: Cluster,
    pub(crate) pins: PinsDocument,
}

/// Validates each document.
pub(crate) fn parts(documents: Documents) -> Result<Parts> {
    let Documents { label, model, cluster_label, cluster, pins, .. } = documents;
    let graph = Graph::from_document(model.graph).map_err(|error| CliError::graph(&label, &error))?;
    let path = if cluster_label == label { format!("{label}: cluster") } else { cluster_label };
    let cluster = Cluster::from_document(cluster).map_err(|error| CliError::cluster(&path, &error))?;
    Ok(Parts { label, graph, cluster, pins: pins.unwrap_or_default() })
}

/// The objective of the options, over the defaults.
pub(crate) fn objective(arguments: &ObjectiveArguments) -> Result<Objective> {
    let mut document = Objective::default().to_document(None);
    override_objective(&mut document, arguments)?;
    if let Some(note) = reading::without_split(&mut document, arguments.split.is_some(), option) {
        output::note(&note);
    }
    objective_of(&document)
}

/// Whether two documents ask for the same, their values aside. What does not read the split has none.
pub(crate) fn same_objective(one: &ObjectiveDocument, other: &ObjectiveDocument) -> bool {
    match (Objective::from_document(one), Objective::from_document(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => ObjectiveDocument { value_s: other.value_s, ..one.clone() } == *other,
    }
}

/// The objective of a document.
pub(crate) fn objective_of(document: &ObjectiveDocument) -> Result<Objective> {
    Objective::from_document(document).map_err(|error| {
        let error = ProblemError::from(error);
        CliError::new(error.code(), error.to_string()).help("correct the options of the objective")
    })
}

/// Overrides an objective with the options of the command line.
pub(crate) fn override_objective(
    document: &mut ObjectiveDocument,
    arguments: &ObjectiveArguments,
) -> Result<()> {
    document.kind = arguments.objective.unwrap_or(document.kind);
    document.split = arguments.split.unwrap_or(document.split);
    document.communication = arguments.communication.unwrap_or(document.communication);
    document.training = arguments.training.unwrap_or(document.training);
    document.execution = arguments.execution.unwrap_or(document.execution);
    document.schedule = match arguments.schedule[..] {
        [] => document.schedule,
        [schedule] => schedule,
        _ => {
            return Err(CliError::new(
                "U001",
                "several schedules are given, but only a joint plan chooses one",
            )
            .at("--schedule")
            .help("give one, or --parallel"));
        }
    };
    document.microbatches = arguments.microbatches.or(document.microbatches);
    document.max_replicas = arguments.max_replicas.or(document.max_replicas);
    if let Some(calls) = arguments.calls {
        let why = match (calls, document.kind) {
            (0, _) => "--calls is 0",
            (_, ObjectiveKind::Latency) => "",
            _ => "--calls is only for --objective latency",
        };
        if !why.is_empty() {
            return Err(CliError::new("U001", why).at("--calls").help("leave it out"));
        }
        document.calls = Some(calls);
    }
    Ok(())
}

/// Maximum number of worker threads: more than the processors of any machine for one solve, and few enough to start
/// quickly.
pub(crate) const MAX_THREADS: usize = 512;

/// Refuses a count of an option beyond what makes sense.
pub(crate) fn count(option: &str, count: u64, range: RangeInclusive<u64>) -> Result<()> {
    if range.contains(&count) {
        return Ok(());
    }
    let cause = format!("{option} is {count}, expected {} to {}", range.start(), range.end());
    Err(CliError::new("U001", cause).at(option).help("correct the number"))
}

/// The number of worker threads: as requested, else one per processor.
pub(crate) fn threads(asked: Option<usize>) -> Result<usize> {
    match asked {
        Some(0) => Err(CliError::new("U001", "0 threads, expected at least 1").at("--threads")),
        Some(threads) if threads > MAX_THREADS => Err(CliError::new(
            "U001",
            format!(
                "{threads} threads are too many: they take longer to start than they \
                save"
            ),
        )
        .at("--threads")
        .help(format!("give at most {MAX_THREADS}"))),
        Some(threads) => Ok(threads),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// Parses limits, seed and threads.
pub(crate) fn solving(arguments: &SolveArguments) -> Result<Solving> {
    let wrong = |option: &'static str| move |cause: String| CliError::new("U001", cause).at(option);
    let gap = arguments.gap.as_deref().map(quantity::share).transpose().map_err(wrong("--gap"))?;
    let threads = threads(arguments.threads)?;
    Ok(Solving {
        limits: Limits {
            time: quantity::time(&arguments.time_limit).map_err(wrong("--time-limit"))?,
            memory: quantity::size(&arguments.memory_limit).map_err(wrong("--memory-limit"))?,
            gap: gap.unwrap_or(0.0),
            simulations: None,
        },
        gap,
        seed: arguments.seed,
        threads,
    })
}

/// Rejects a limit on simulations for a solver that does not count them.
pub(crate) fn counts(chosen: &Chosen, solving: &Solving) -> Result<()> {
    if solving.limits.simulations.is_none() || chosen.solver.capabilities().counts_simulations {
        return Ok(());
    }
    let solvers = registry::SOLVERS.iter().map(|entry| entry.solver);
    let counting: Vec<&str> = solvers
        .filter(|solver| solver.capabilities().counts_simulations)
        .map(|solver| solver.name())
        .collect();
    Err(CliError::new("U001", format!("`{}` does not count simulations", chosen.solver.name()))
        .at("--simulations")
        .help(format!("leave it out, or use one of {}", counting.join(", "))))
}

/// How wrong the costs may be that a plan is made for, if it is to be robust.
pub(crate) fn uncertainty(arguments: &PlanArguments, objective: &Objective) -> Result<Option<Uncertainty>> {
    let Some(text) = &arguments.robust else { return Ok(None) };
    let deviation = deviation("--robust", text)?;
    let budget = arguments.robust_budget.unwrap_or(1);
    count("--robust-budget", budget.into(), 1..=u32::MAX.into())?;
    if let Some(what) = Uncertainty::unsupported(objective) {
        return Err(CliError::new("U004", format!("--robust does not support {what}"))
            .at("--robust")
            .help("leave it out; `explain` shows how sensitive any plan is to its costs"));
    }
    Ok(Some(Uncertainty { deviation, budget }))
}

/// The share of an option by which costs are off.
pub(crate) fn deviation(option: &'static str, text: &str) -> Result<f64> {
    match quantity::share(text) {
        Ok(share) if share < 1.0 => Ok(share),
        Ok(_) => Err("costs cannot be off by all that they are".into()),
        Err(cause) => Err(cause),
    }
    .map_err(|cause: String| {
        CliError::new("U001", cause).at(option).help("give a share below 1, such as 10%")
    })
}

/// Returns the solver of a name, or the choice of `auto`.
pub(crate) fn solver(name: &str, objective: &Objective) -> Result<Chosen> {
    if name == "auto" {
        let choice = portfolio::auto(objective).map_err(|error| {
            CliError::new("U004", error.to_string()).at("--solver auto").help(
                "use throughput with a contiguous split, which is solved exactly, with or without a schedule",
            )
        })?;
        let label = format!("{} (auto: {})", choice.solver.name(), choice.rule);
        return Ok(Chosen { solver: Arc::new(choice.solver), label });
    }
    if let Some(command) = name.strip_prefix(external::PREFIX) {
        let solver = External::parse(command)?;
        solver.files().try_for_each(|file| kept(&file))?;
        return Ok(Chosen { solver: Arc::new(solver), label: name.into() });
    }
    let known = registry::SOLVERS.iter().map(|entry| entry.solver.name());
    let ablation = name.strip_prefix(registry::ABLATION).and_then(registry::ablation);
    let solver = ablation.or_else(|| registry::named(name)).ok_or_else(|| {
        CliError::new("U003", format!("unknown solver `{name}`"))
            .at("--solver")
            .help(format!("{}; auto chooses one", instead(name, known)))
    })?;
    match solver.unsupported(objective) {
        None => Ok(Chosen { solver: Arc::new(solver), label: name.into() }),
        Some(what) => {
            let supporting = registry::supporting(objective);
            let help = match supporting.as_slice() {
                [] => "no solver supports it yet".into(),
                supporting => format!("solvers that support it: {}", supporting.join(", ")),
            };
            Err(CliError::new("U004", format!("solver `{name}` does not support {what}"))
                .at("--solver")
                .help(help))
        }
    }
}
