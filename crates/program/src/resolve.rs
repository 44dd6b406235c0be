//! Interpretation of arguments: files become documents, and options become an objective and limits.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use stagewright::code::{U001, X001};
use stagewright::core::document::{ClusterDocument, PlanDocument};
use stagewright::core::solver::Limits;
use stagewright::core::uncertainty::Uncertainty;
use stagewright::costs::Unmeasured;
use stagewright::formats::{Imported, import_cluster, import_pins};
use stagewright::reading::{self, Model, ModelOptions};
use stagewright::tasks::placement::Documents;
use stagewright::tasks::{self, Document, Kind, PlanFile, Request, SolverChoice, Task};
use stagewright::{Options, Robustness, clusters, structures};

use super::args::{
    AroundArguments, Given, ImportArguments, LocalArguments, ModelArguments, ObjectiveArguments,
    ParallelArguments, PlanArguments, SelectionArguments, ServingArguments, SolveArguments,
};
use super::error::{CliError, Result, place};
use super::external::{self, External};
use super::files::{Input, Opened, at_most_one_standard, is_standard, kept, open, read};
use super::instances::{self, Posed};
use super::model_options::{Kept, model_options, model_options_around};
use super::{measured, output, quantity};

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

impl Solving {
    /// The settings as options of the library. They have no interrupt: until a solve begins, Ctrl-C ends the program.
    pub(crate) fn options(&self) -> Options {
        let Limits { time, memory, gap, simulations } = self.limits;
        Options::default()
            .time_limit(time)
            .memory_limit(memory)
            .gap(gap)
            .simulations(simulations)
            .seed(self.seed)
            .threads(self.threads)
    }
}

/// The question that a command asks about a model, apart from the model and its surroundings.
#[derive(Default)]
pub(crate) struct Question<'a> {
    pub(crate) objective: Option<&'a ObjectiveArguments>,
    pub(crate) selection: Option<&'a SelectionArguments>,
    pub(crate) parallel: Option<&'a ParallelArguments>,
    pub(crate) local: Option<&'a LocalArguments>,
    pub(crate) serving: Option<&'a ServingArguments>,
    pub(crate) solve: Option<&'a SolveArguments>,
    pub(crate) solver: Option<&'a dyn Fn() -> Result<SolverChoice>>,
    pub(crate) start: Option<&'a Path>,
    /// Further options, named as in `tasks::options`, each with whether it was given.
    pub(crate) given: Vec<(&'static str, bool)>,
    /// Whether what was not measured has the prices that classes state, as in instances, which stay as they were published.
    pub(crate) is_stated: bool,
}

impl<'a> Question<'a> {
    /// The question and the inputs besides the model, with the options that the command has for an instance.
    pub(crate) fn completed(
        self,
        around: &'a AroundArguments,
        posed: Option<&'a Posed>,
    ) -> (&'a AroundArguments, Question<'a>) {
        match posed {
            None => (around, self),
            Some(Posed { around, objective, parallel, .. }) => {
                let (objective, parallel) = (Some(objective), Some(parallel));
                (around, Question { objective, parallel, is_stated: true, ..self })
            }
        }
    }

    /// The kind of plan that is requested, unless it is a placement.
    pub(crate) fn wanted(&self) -> Option<Kind> {
        match () {
            () if self.local.is_some_and(LocalArguments::is_given) => Some(Kind::Local),
            () if self.serving.is_some_and(ServingArguments::is_given) => Some(Kind::Serving),
            () if self.parallel.is_some_and(ParallelArguments::is_given) => Some(Kind::Joint),
            () => None,
        }
    }
}

/// Builds the request of a command for an opened model. The options and the cluster stored in a plan are the defaults.
pub(crate) fn request(
    kind: Kind,
    model: Opened,
    around: &AroundArguments,
    question: Question<'_>,
    kept: Kept<'_>,
) -> Result<Request> {
    let options = model_options_around(around, kept)?;
    let objective = question.objective.map(ObjectiveArguments::options).transpose()?.unwrap_or_default();
    let selection = question.selection.map(SelectionArguments::options).transpose()?.unwrap_or_default();
    let parallel = question.parallel.map(ParallelArguments::options).transpose()?.flatten();
    let local = question.local.filter(|local| local.is_given()).map(LocalArguments::options).transpose()?;
    let serving = question.serving.filter(|serving| serving.is_given());
    let serving = serving.map(|serving| serving.options(question.local)).transpose()?;
    let groups = [
        Some(&around.surroundings.0),
        question.objective.map(|given| &given.0),
        question.selection.map(|given| &given.0),
        question.parallel.map(|given| &given.0),
        question.local.map(|given| &given.0),
        question.serving.map(|given| &given.0),
        question.solve.map(|given| &given.0),
    ];
    let mut given: BTreeSet<String> =
        groups.into_iter().flatten().flat_map(Given::names).map(str::to_owned).collect();
    given.extend(question.start.map(|_| "start".to_owned()));
    given.extend(question.given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| (*name).to_owned()));
    // Checked before any other file is read.
    tasks::options::refuse(kind, given.iter().map(String::as_str), &place())?;
    let pins = match around.pins() {
        Some(path) => {
            let Input { label, bytes } = read(path)?;
            Some(import_pins(&label, &bytes)?)
        }
        None => None,
    };
    Ok(Request {
        model,
        cluster: around.cluster().map(cluster_file).transpose()?,
        kept_cluster: kept.cluster.map(|(plan, cluster)| (plan.to_owned(), cluster.clone())),
        pins,
        costs: if kind == Kind::Local { Vec::new() } else { measured::documents(&options.document.costs)? },
        benches: if kind == Kind::Local { measured::files(&options.document.costs)? } else { Vec::new() },
        local,
        serving,
        options,
        objective,
        selection,
        parallel,
        start: question.start.map(read).transpose()?,
        solver: question.solver.map_or(Ok(SolverChoice::None), |solver| solver())?,
        given,
        is_stated: question.is_stated,
        place: place(),
    })
}

/// Opens a model: a file, standard input, an instance of the library, or the folder of a language model.
pub(crate) fn opened(path: &Path) -> Result<Opened> {
    if is_standard(path) || !structures::is_several_files(path) {
        return open(path);
    }
    kept(path)?;
    Ok(Opened::Language(path.to_owned()))
}

/// Reads the question that a command asks about a model.
pub(crate) fn task(arguments: &ModelArguments, question: Question<'_>) -> Result<Box<dyn Task>> {
    let ModelArguments { model, around } = arguments;
    let (cluster, pins) = (around.cluster(), around.pins());
    at_most_one_standard(&[Some(model), cluster, pins, question.start])?;
    let mut opened = opened(model)?;
    let posed = instances::posed(model, around, question.objective, question.parallel)?;
    let (around, question) = question.completed(around, posed.as_ref());
    let kind = tasks::kind(&mut opened, None, question.wanted());
    let (task, notes) = tasks::read(kind, request(kind, opened, around, question, Kept::default())?, None)?;
    notes.iter().for_each(|note| output::note(note));
    Ok(task)
}

/// Reads a plan and its problem, and returns the plan with its label. The options and the cluster stored in the plan are
/// the defaults.
pub(crate) fn planned_task(
    arguments: &ModelArguments,
    plan: &Path,
    question: Question<'_>,
) -> Result<(Box<dyn Task>, Document, String)> {
    let ModelArguments { model, around } = arguments;
    at_most_one_standard(&[Some(model), around.cluster(), around.pins(), Some(plan)])?;
    planned_input(arguments, &read(plan)?, question, true)
}

/// Reads the problem of a plan in memory, and returns the plan with its label. The options and the cluster stored in the
/// plan are the defaults if `is_trusted` is true.
pub(crate) fn planned_input(
    ModelArguments { model, around }: &ModelArguments,
    Input { label, bytes }: &Input,
    question: Question<'_>,
    is_trusted: bool,
) -> Result<(Box<dyn Task>, Document, String)> {
    let mut opened = opened(model)?;
    let kind = tasks::kind(&mut opened, Some(bytes), None);
    let file = PlanFile::read(kind, label, bytes)?;
    let kept = if is_trusted { Kept::of(&file) } else { Kept::default() };
    let request = request(kind, opened, around, question, kept)?;
    let (task, notes) = tasks::read(kind, request, Some(&file))?;
    notes.iter().for_each(|note| output::note(note));
    let document = task.plan(file)?;
    Ok((task, document, label.clone()))
}

/// Reads the files of a placement problem and a plan for it. The options and the cluster stored in the plan are the
/// defaults.
pub(crate) fn planned(arguments: &ModelArguments, plan: &Path) -> Result<(Documents, PlanDocument, String)> {
    let ModelArguments { model, around } = arguments;
    at_most_one_standard(&[Some(model), around.cluster(), around.pins(), Some(plan)])?;
    let Input { label, bytes } = read(plan)?;
    let file = PlanFile::read(Kind::Placement, &label, &bytes)?;
    let documents = documents_of(model, around, Some(Kept::of(&file)), false)?;
    let plan = placed(file, &documents.model, Some(&documents.cluster))?;
    Ok((documents, plan, label))
}

/// The placement that a file gives for a model.
pub(crate) fn placed(
    file: PlanFile<'_>,
    model: &Imported,
    cluster: Option<&ClusterDocument>,
) -> Result<PlanDocument> {
    match file {
        PlanFile::Placement { file, .. } => Ok(file.for_model(model, cluster)?),
        PlanFile::Whole(label, _) => Err(CliError::new(X001, "the plan is no placement").at(label)),
    }
}

/// Reads the files of a problem for one model, or for the plan that stores the given defaults. With `is_stated`, what was not
/// measured has the prices that classes state, unless others are asked for.
pub(crate) fn documents_of(
    path: &Path,
    around: &AroundArguments,
    kept: Option<Kept<'_>>,
    is_stated: bool,
) -> Result<Documents> {
    at_most_one_standard(&[Some(path), around.cluster(), around.pins()])?;
    let is_planned = kept.is_some();
    let kept = kept.unwrap_or_default();
    let question = Question { is_stated, ..Question::default() };
    let request = request(Kind::Placement, opened(path)?, around, question, kept)?;
    let unnamed = request.unnamed(is_planned);
    let (documents, notes) = Documents::read(request, is_planned, unnamed, None)?;
    output::notes(&notes);
    Ok(documents)
}

/// Reads a model. A large file is loaded only as far as its format needs.
pub(crate) fn model(path: &Path, arguments: &ImportArguments, kept: Kept<'_>) -> Result<(String, Imported)> {
    let options = model_options(arguments, kept)?;
    opened_model(opened(path)?, &options)
}

/// Reads a model from an open input.
pub(crate) fn opened_model(opened: Opened, options: &ModelOptions) -> Result<(String, Imported)> {
    let mut notes = Vec::new();
    let Model { label, imported, .. } = reading::model(opened, options, &mut notes)?;
    output::notes(&notes);
    Ok((label, imported))
}

/// The choice that `--solver` makes: `auto`, a name, or `exec:COMMAND` for a solver in another program.
pub(crate) fn choice(name: &str) -> Result<SolverChoice> {
    if name == "auto" {
        return Ok(SolverChoice::Auto);
    }
    let Some(command) = name.strip_prefix(external::PREFIX) else {
        return Ok(SolverChoice::Named(name.into()));
    };
    let solver = External::parse(command)?;
    solver.files().try_for_each(|file| kept(&file))?;
    Ok(SolverChoice::Own(Arc::new(solver), name.into()))
}

/// Returns the cluster for a file, name or shorthand given to `--cluster`, with its label for errors.
pub(crate) fn cluster_file(path: &Path) -> Result<(String, ClusterDocument)> {
    cluster_at(path, "--cluster")
}

/// Returns the cluster for a file, name or shorthand given to an argument, with its label for errors.
pub(crate) fn cluster_at(path: &Path, argument: &str) -> Result<(String, ClusterDocument)> {
    if let Some(name) = name_of_no_file(path) {
        let cluster = clusters::find(name).map_err(|error| CliError::from(error).at(argument))?;
        return Ok((name.into(), cluster));
    }
    let Input { label, bytes } = read(path)?;
    let cluster = import_cluster(&label, &bytes)?;
    Ok((label, cluster))
}

/// Returns the built-in cluster for an argument that is not a file. An invalid shorthand is an error; any other unknown
/// name returns `None`, because it may be a missing file.
pub(crate) fn built_in_cluster(path: &Path) -> Result<Option<(String, ClusterDocument)>> {
    let Some(name) = name_of_no_file(path) else { return Ok(None) };
    match clusters::find(name) {
        Ok(cluster) => Ok(Some((name.into(), cluster))),
        Err(error) if clusters::is_counted(name) => Err(CliError::from(error).at("IN")),
        Err(_) => Ok(None),
    }
}

/// The argument as the name of a built-in cluster, if it is not a file and does not look like a path.
fn name_of_no_file(path: &Path) -> Option<&str> {
    // A shorthand may have a fraction, as in `2xrtx-3060:1.5GiB`.
    let is_name = |text: &str| !text.contains(['/', '\\', '.']) || clusters::find(text).is_ok();
    let name = path.to_str().filter(|text| is_name(text))?;
    let readable = is_standard(path) || (path.exists() && !path.is_dir());
    (!readable).then_some(name)
}

/// Maximum number of worker threads: more than any machine has processors for one solve, yet few enough to start
/// quickly.
pub(crate) const MAX_THREADS: usize = 512;

/// Maximum number of seeds that are given as a count.
const MAX_SEEDS: u64 = 1000;

/// Refuses an option whose count is beyond any sensible value.
pub(crate) fn count(option: &str, count: u64, range: RangeInclusive<u64>) -> Result<()> {
    if range.contains(&count) {
        return Ok(());
    }
    let cause = format!("{option} is {count}, expected {} to {}", range.start(), range.end());
    Err(CliError::new(U001, cause).at(option).help("correct the number"))
}

/// The number of worker threads: as requested, or else one per processor.
pub(crate) fn threads(asked: Option<usize>) -> Result<usize> {
    match asked {
        Some(0) => Err(CliError::new(U001, "0 threads, expected at least 1").at("--threads")),
        Some(threads) if threads > MAX_THREADS => Err(CliError::new(
            U001,
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
    let wrong = |option: &'static str| move |cause: String| CliError::new(U001, cause).at(option);
    let gap = arguments.0.text("gap").map(quantity::share).transpose().map_err(wrong("--gap"))?;
    let limit = |name: &str| arguments.0.text(name).unwrap_or("none");
    Ok(Solving {
        limits: Limits {
            time: quantity::time(limit("time_limit")).map_err(wrong("--time-limit"))?,
            memory: quantity::size(limit("memory_limit")).map_err(wrong("--memory-limit"))?,
            gap: gap.unwrap_or(0.0),
            simulations: None,
        },
        gap,
        seed: arguments.0.number("seed").unwrap_or(0),
        threads: threads(arguments.threads())?,
    })
}

/// Parses seeds: a list, or the number of the first ones from 0.
pub(crate) fn seeds(text: &str) -> Result<Vec<u64>> {
    let wrong = |cause: String| {
        Err(CliError::new(U001, cause)
            .at("--seeds")
            .help("give a number of seeds, such as 3, or a list: 0,1,2"))
    };
    let Ok(given) = text.split(',').map(|seed| seed.trim().parse()).collect::<Result<Vec<u64>, _>>() else {
        return wrong(format!("`{text}` is neither a number nor a list of seeds"));
    };
    let seeds = match given[..] {
        [count] if count <= MAX_SEEDS => (0..count).collect(),
        [count] => return wrong(format!("{count} seeds, expected at most {MAX_SEEDS}")),
        _ => given,
    };
    let is_twice = |(index, seed): (usize, &u64)| seeds[..index].contains(seed);
    match seeds[..] {
        [] => wrong("no seed".into()),
        _ if seeds.iter().enumerate().any(is_twice) => wrong(format!("`{text}` has a seed twice")),
        _ => Ok(seeds),
    }
}

/// The cost uncertainty against which the plan should be robust, if any.
pub(crate) fn robustness(arguments: &PlanArguments) -> Result<Option<Robustness>> {
    let Some(text) = &arguments.robust else { return Ok(None) };
    let budget = arguments.robust_budget.unwrap_or(1);
    count("--robust-budget", budget.into(), 1..=u32::MAX.into())?;
    if text == Unmeasured::LEARNED {
        return Ok(Some(Robustness::Learned { budget }));
    }
    let deviation = deviation("--robust", text)?;
    Ok(Some(Robustness::Given(Uncertainty { deviation, budget })))
}

/// Parses the share by which costs are off, from the value of an option.
pub(crate) fn deviation(option: &'static str, text: &str) -> Result<f64> {
    match quantity::share(text) {
        Ok(share) if share < 1.0 => Ok(share),
        Ok(_) => Err("costs cannot be off by all that they are".into()),
        Err(cause) => Err(cause),
    }
    .map_err(|cause: String| CliError::new(U001, cause).at(option).help("give a share below 1, such as 10%"))
}
