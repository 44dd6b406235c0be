//! `compare`: compares solvers, expert rules and given plans side by side.

use std::path::Path;

use stagewright::code::U001;
use stagewright::core::document::OriginDocument;
use stagewright::core::solver::{Observer, Silent};
use stagewright::report::comparison::{Comparison, Contender, facts};
use stagewright::report::wrap;
use stagewright::tasks::{
    self, Contest, Kind, ServingComparison, Session, Task, check_names, comparisons_csv, comparisons_json,
    comparisons_latex, comparisons_table, serving_csv, serving_json, serving_table,
};
use stagewright::text::markdown;

use super::args::CompareArguments;
use super::error::{CliError, Result, place};
use super::exit::Exit;
use super::files::{self, Outputs};
use super::given::Given;
use super::progress::{self, Progress};
use super::resolve::{self, Question, Solving};
use super::{instances, interrupt, origin, output};

/// A model of the comparison.
struct Entry {
    /// Name of the file without its folder and extension.
    name: String,
    task: Box<dyn Task>,
    /// Given plans for the model.
    given: Vec<Contender>,
    /// The best value recorded in the library for an instance.
    recorded: Option<f64>,
}

/// Settings of the comparisons of all models.
struct Rules<'a> {
    arguments: &'a CompareArguments,
    solving: Solving,
    seeds: Vec<u64>,
    origin: OriginDocument,
    verbose: bool,
}

pub(crate) fn run(arguments: &CompareArguments, verbose: bool) -> Result<Exit> {
    let is_data = arguments.json || arguments.csv || arguments.markdown || arguments.latex;
    let outputs = files::outputs(&[
        ("--json, --csv, --markdown or --latex", is_data.then_some(Path::new("-"))),
        ("--html", arguments.html.as_deref()),
    ])?;
    let solving = resolve::solving(&arguments.solve)?;
    let seeds = arguments.seeds.as_deref().map(resolve::seeds).transpose()?.unwrap_or(vec![solving.seed]);
    let rules = Rules { arguments, solving, seeds, origin: origin::origin()?, verbose };
    let given = Given::parse(&arguments.plan, "--plan")?;
    one_standard_input(arguments, &given)?;
    given.fit(&arguments.models.iter().map(|model| stem(model)).collect::<Vec<_>>(), "--plan")?;
    refuse(arguments)?;
    // All inputs are read before the first solve, so that an error in the last input does not waste a solve.
    let entries: Result<Vec<Entry>> =
        arguments.models.iter().map(|model| entry(arguments, model, &given)).collect();
    let entries = entries?;
    let kind = check(arguments, &entries, &given)?;
    if kind == Kind::Serving {
        return ranked(&rules, entries);
    }
    let mut comparisons = Vec::new();
    let mut page = None;
    for entry in entries {
        // After an interrupt too: the given plans of later models are known.
        let (comparison, task) = rules.compare(entry)?;
        comparisons.push(comparison);
        page = arguments.html.as_deref().map(|path| (path, task));
    }
    if is_data || outputs == Outputs::Files {
        show(arguments, kind, &comparisons)?;
    }
    // Written after printing, so that a full disk does not lose the result.
    if let (Some((path, task)), [comparison]) = (page, &comparisons[..]) {
        write_page(path, &*task, comparison, arguments)?;
    }
    // The gap of a rule for joint plans is to a question of its own.
    let is_reached = |comparison: &Comparison| {
        if kind == Kind::Joint {
            return true;
        }
        let gap = comparison.rows.iter().find_map(|row| row.gap);
        rules.solving.gap.is_none_or(|wanted| gap.is_some_and(|gap| gap <= wanted))
    };
    Ok(match comparisons.iter().all(is_reached) {
        // A comparison of placements without any plan is a result as well.
        _ if kind == Kind::Joint && !comparisons.iter().any(Comparison::is_planned) => Exit::NoPlan,
        true => Exit::Done,
        false => Exit::GapNotReached,
    })
}

/// Compares serving plans.
fn ranked(rules: &Rules<'_>, entries: Vec<Entry>) -> Result<Exit> {
    let arguments = rules.arguments;
    let mut comparisons = Vec::new();
    for entry in entries {
        let hold =
            |task: &dyn Task, contest: Contest<'_>, session: &mut Session<'_>| task.rank(contest, session);
        comparisons.push(rules.with_contest(entry, hold)?.0);
    }
    if arguments.json {
        output::data(&serving_json(&comparisons)?)?;
    } else if arguments.csv {
        output::data(&serving_csv(&comparisons)?)?;
    } else {
        let (grid, reasons) = serving_table(&comparisons);
        let text = match () {
            () if arguments.latex => grid.latex(comparisons.len() > 1),
            () if arguments.markdown => grid.markdown(),
            () => grid.text(output::width()),
        };
        let reasons = if reasons.is_empty() {
            reasons
        } else {
            format!("\n{}", wrap::lines(&reasons, output::width()))
        };
        output::result(&(text + &reasons))?;
    }
    let is_reached = |gap| comparisons.iter().all(|comparison| comparison.is_within(gap));
    Ok(match rules.solving.gap.is_none_or(is_reached) {
        _ if !comparisons.iter().any(ServingComparison::is_planned) => Exit::NoPlan,
        true => Exit::Done,
        false => Exit::GapNotReached,
    })
}

/// Refuses a page of several models.
fn refuse(arguments: &CompareArguments) -> Result<()> {
    if arguments.html.is_some() && arguments.models.len() > 1 {
        return Err(CliError::new(U001, "an HTML page shows one model")
            .at("--html")
            .help("give one model, or leave --html out"));
    }
    Ok(())
}

/// Checks that all models pose questions of one kind, and that all names are valid. Returns the kind.
fn check(arguments: &CompareArguments, entries: &[Entry], given: &Given) -> Result<Kind> {
    let kind = entries.first().map_or(Kind::Placement, |entry| entry.task.kind());
    if let Some(other) = entries.iter().find(|entry| entry.task.kind() != kind) {
        let cause =
            format!("a {} and a {} are not compared in one table", kind.name(), other.task.kind().name());
        return Err(CliError::new(U001, cause).at(&other.name).help("give models of one kind at a time"));
    }
    let mut entrants = Vec::new();
    for entry in entries {
        entrants.extend(entry.task.entrants(&arguments.solvers, &resolve::choice)?);
    }
    let given: Vec<&str> = given.names().collect();
    check_names(entrants, &given, arguments.baseline.as_deref(), &place())?;
    Ok(kind)
}

/// Reads a model with its given plans, whose options of the model are the defaults.
fn entry(arguments: &CompareArguments, path: &Path, given: &Given) -> Result<Entry> {
    let name = stem(path);
    let question = Question {
        objective: Some(&arguments.objective),
        parallel: Some(&arguments.parallel),
        local: Some(&arguments.local),
        serving: Some(&arguments.serving),
        solve: Some(&arguments.solve),
        given: vec![
            ("solvers", !arguments.solvers.is_empty()),
            ("plan", !arguments.plan.is_empty()),
            ("baseline", arguments.baseline.is_some()),
            ("seeds", arguments.seeds.is_some()),
            ("html", arguments.html.is_some()),
        ],
        ..Question::default()
    };
    let mut opened = resolve::opened(path)?;
    let posed = instances::posed(path, &arguments.around, question.objective, question.parallel)?;
    let (around, question) = question.completed(&arguments.around, posed.as_ref());
    let kind = tasks::kind(&mut opened, None, question.wanted());
    let files = given.files(kind, &name)?;
    let kept = files.kept();
    // The recorded value is for the instance's own options of the model, not for those of a given plan.
    let recorded = posed.as_ref().and_then(|posed| posed.value).filter(|_| kept.options.is_none());
    let request = resolve::request(kind, opened, around, question, kept)?;
    let (task, notes) = tasks::read(kind, request, None)?;
    notes.iter().for_each(|note| output::note(note));
    let given = files.contenders(&name, &*task)?;
    Ok(Entry { name, task, given, recorded })
}

impl Rules<'_> {
    /// Compares the contenders on a model, and returns its task as well.
    fn compare(&self, entry: Entry) -> Result<(Comparison, Box<dyn Task>)> {
        self.with_contest(entry, |task, contest, session| task.compare(contest, session))
    }

    /// Calls a function with the contest on a model, and returns the task of the model as well.
    fn with_contest<T>(
        &self,
        entry: Entry,
        hold: impl FnOnce(
            &dyn Task,
            Contest<'_>,
            &mut Session<'_>,
        ) -> std::result::Result<T, stagewright::failure::Failure>,
    ) -> Result<(T, Box<dyn Task>)> {
        let Rules { arguments, verbose, .. } = *self;
        let Entry { name, task, given, recorded } = entry;
        let observer = |contender: &str, seed: u64| -> Box<dyn Observer> {
            if verbose || arguments.models.len() > 1 || self.seeds.len() > 1 {
                let seed = if self.seeds.len() > 1 { format!(", seed {seed}") } else { String::new() };
                progress::line(verbose, &format!("{name}: {contender}{seed}"));
            }
            Box::new(Progress::new(verbose, task.kind()))
        };
        let contest = Contest {
            model: &name,
            solvers: &arguments.solvers,
            choice: &resolve::choice,
            given,
            baseline: arguments.baseline.as_deref(),
            seeds: &self.seeds,
            recorded_s: recorded,
            origin: self.origin.clone(),
            observer: &observer,
        };
        let note = &mut |line: &str| output::note(line);
        let mut silent = Silent;
        let options = self.solving.options().interrupt(interrupt::watch());
        let held = hold(&*task, contest, &mut Session::new(options, &mut silent, note))?;
        Ok((held, task))
    }
}

/// Rejects more than one input from standard input.
fn one_standard_input(arguments: &CompareArguments, given: &Given) -> Result<()> {
    let around = [arguments.around.cluster(), arguments.around.pins()];
    let models = arguments.models.iter().map(|model| Some(model.as_path()));
    let paths: Vec<Option<&Path>> = models.chain(around).chain(given.paths().map(Some)).collect();
    files::at_most_one_standard(&paths)
}

/// Writes an HTML page of the best plan, with the comparison.
fn write_page(
    path: &Path,
    task: &dyn Task,
    comparison: &Comparison,
    arguments: &CompareArguments,
) -> Result<()> {
    if comparison.leader().is_none() {
        output::note("there is no plan, so no page was written");
        return Ok(());
    }
    let cluster = arguments.around.cluster().map(|path| path.display().to_string());
    files::write_fallibly(path, |file| task.page(comparison, cluster.as_deref(), file))
}

/// Prints the comparisons in the requested notation.
fn show(arguments: &CompareArguments, kind: Kind, comparisons: &[Comparison]) -> Result<()> {
    if arguments.json {
        return output::data(&comparisons_json(kind, comparisons)?);
    }
    if arguments.csv {
        return output::data(&comparisons_csv(comparisons)?);
    }
    if arguments.latex {
        return output::data(&comparisons_latex(comparisons));
    }
    let (grid, reasons) = comparisons_table(comparisons);
    let facts = facts(comparisons);
    if arguments.markdown {
        let facts = facts.iter().map(|(name, fact)| format!("{name}: {fact}"));
        let lines = reasons.lines().map(str::to_owned).chain(facts);
        let lines: String = lines.map(|line| format!("- {}\n", markdown(&line))).collect();
        return output::result(&format!("{}\n{lines}", grid.markdown()));
    }
    let width = output::width();
    let reasons = if reasons.is_empty() { reasons } else { wrap::lines(&reasons, width) + "\n" };
    output::result(&format!("{}\n{reasons}{}", grid.text(width), wrap::facts(facts, width)))
}

/// A model's name: that of its file without folder and extension, or that of its folder if the file is a configuration.
fn stem(path: &Path) -> String {
    let is_config = path.file_name().is_some_and(|name| name == "config.json");
    let folder = if path.is_dir() { Some(path) } else { path.parent().filter(|_| is_config) };
    let name = match folder.and_then(Path::file_name) {
        _ if files::is_standard(path) => None,
        Some(folder) => Some(folder),
        None => path.file_stem(),
    };
    name.map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned())
}
