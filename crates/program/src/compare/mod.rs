//! `compare`: compares solvers, expert rules and given plans side by side.

mod solved;

use std::path::Path;
use std::sync::atomic::Ordering;

use serde::Serialize;
use stagewright::bounds;
use stagewright::code::{U001, U007, X001};
use stagewright::core::objective::Objective;
use stagewright::core::problem::Problem;
use stagewright::core::solver::{BOUNDS_SHARE, Observer, Silent, Stop};
use stagewright::nearest::instead;
use stagewright::placement::placement;
use stagewright::report::comparison::{self, Comparison};
use stagewright::report::html::{self, Page};
use stagewright::report::step::Step;
use stagewright::tasks::joint::rules;
use stagewright::tasks::placement::{Parts, cluster_name, model_name, step_problem};
use stagewright::tasks::{Kind, Session};
use stagewright::text::markdown;

use super::args::CompareArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Outputs};
use super::given::Given;
use super::progress::Progress;
use super::resolve::Question;
use super::{interrupt, output, resolve};
use solved::Entrant;
pub(super) use solved::groups;

/// The output of `--json`.
#[derive(Serialize)]
struct Comparisons<'a> {
    schema: &'static str,
    models: &'a [Comparison],
}

const SCHEMA: &str = "stagewright.comparison/1";

pub(crate) fn run(arguments: &CompareArguments, verbose: bool) -> Result<Exit> {
    if arguments.parallel.is_given() {
        return joint(arguments, verbose);
    }
    let is_data = arguments.json || arguments.csv || arguments.markdown;
    let outputs = files::outputs(&[
        ("--json, --csv or --markdown", is_data.then_some(Path::new("-"))),
        ("--html", arguments.html.as_deref()),
    ])?;
    let objective = resolve::objective(&arguments.objective)?;
    let solving = resolve::solving(&arguments.solve)?;
    let entrants = solved::entrants(&arguments.solvers, &objective)?;
    let given = Given::parse(&arguments.plan, "--plan")?;
    one_standard_input(arguments, &given)?;
    given.fit(&arguments.models.iter().map(|model| stem(model)).collect::<Vec<_>>(), "--plan")?;
    refuse(arguments, entrants.is_empty())?;
    let baseline = baseline(arguments, &entrants, &given)?;
    // All inputs are read before the first solve, so that an error in the last input does not waste a solve.
    let mut grounds = Vec::new();
    for model in &arguments.models {
        let name = stem(model);
        let files = given.files(&name)?;
        let documents = resolve::documents_of(model, &arguments.around, files.kept())?;
        let contenders = files.contenders(&name, &documents, &objective)?;
        grounds.push((name, documents.cluster.clone(), contenders, documents.parts()?));
    }
    let interrupt = interrupt::watch();
    let mut comparisons = Vec::new();
    let mut page = None;
    for (model, cluster, mut contenders, parts) in grounds {
        let problems = problems(&parts, objective, &entrants)?;
        let time = solving.limits.time.map(|limit| limit.mul_f64(BOUNDS_SHARE) / problems.len() as u32);
        // Computed before the first solve, so that no solver's time includes them.
        let proved = problems.iter().map(|problem| {
            let bound = bounds::strongest(problem, &Stop::new(time, interrupt.clone()));
            (problem.objective().to_document(None), bound.value)
        });
        let proved: Vec<_> = proved.collect();
        for entrant in &entrants {
            if interrupt.load(Ordering::Relaxed) {
                break;
            }
            if verbose || arguments.models.len() > 1 {
                output::note(&format!("{model}: {}", entrant.name));
            }
            let of_entrant = problems.iter().find(|problem| *problem.objective() == entrant.objective);
            let Some(problem) = of_entrant else { continue };
            contenders.push(entrant.solve(problem, &solving, verbose)?);
            if interrupt.load(Ordering::Relaxed) {
                output::note(&format!(
                    "interrupted: {} was cut short on {model}, and nothing after it was solved",
                    entrant.name
                ));
            }
        }
        comparisons.push(Comparison::new(&model, &cluster, contenders, &proved, baseline.as_deref()));
        if let Some(path) = &arguments.html {
            page = Some((path, parts));
        }
    }
    if is_data || outputs == Outputs::Files {
        show(arguments, &comparisons)?;
    }
    // Written after printing, so that a full disk does not lose the result.
    if let (Some((path, parts)), [comparison]) = (page, &comparisons[..]) {
        write_page(path, parts, comparison, arguments, objective)?;
    }
    let reached = |comparison: &Comparison| {
        let gap = comparison.rows.iter().find_map(|row| row.gap);
        solving.gap.is_none_or(|wanted| gap.is_some_and(|gap| gap <= wanted))
    };
    Ok(if comparisons.iter().all(reached) { Exit::Done } else { Exit::GapNotReached })
}

/// Refuses a comparison that nothing takes part in, and a page of several models.
fn refuse(arguments: &CompareArguments, is_without_solvers: bool) -> Result<()> {
    if is_without_solvers && arguments.plan.is_empty() {
        return Err(CliError::new(U001, "nothing takes part")
            .at("--solvers")
            .help("give a solver or a --plan"));
    }
    if arguments.html.is_some() && arguments.models.len() > 1 {
        return Err(CliError::new(U001, "an HTML page shows one model")
            .at("--html")
            .help("give one model, or leave --html out"));
    }
    Ok(())
}

/// Compares the best joint plan with those of expert rules.
fn joint(arguments: &CompareArguments, verbose: bool) -> Result<Exit> {
    let [model] = &arguments.models[..] else {
        return Err(CliError::new(U001, "joint plans are compared for one model at a time")
            .at("MODEL")
            .help("give one model"));
    };
    let options = resolve::solving(&arguments.solve)?.options();
    let question = Question {
        objective: Some(&arguments.objective),
        parallel: Some(&arguments.parallel),
        given: vec![
            ("solvers", !arguments.solvers.is_empty()),
            ("plan", !arguments.plan.is_empty()),
            ("baseline", arguments.baseline.is_some()),
            ("html", arguments.html.is_some()),
        ],
        ..Question::default()
    };
    files::at_most_one_standard(&[Some(model), arguments.around.cluster()])?;
    let request = resolve::request(Kind::Joint, resolve::opened(model)?, &arguments.around, question, None)?;
    let note = &mut |line: &str| output::note(line);
    let observer = &mut Silent;
    let mut session = Session::new(options.interrupt(interrupt::watch()), observer, note);
    let progress = || -> Box<dyn Observer> { Box::new(Progress::new(verbose, Kind::Joint)) };
    let comparison = rules::Comparison::new(request, &mut session, &progress)?;
    match (arguments.json, arguments.csv, arguments.markdown) {
        (true, _, _) => output::data(&comparison.json()?)?,
        (_, true, _) => output::data(&comparison.csv())?,
        (_, _, true) => output::data(&comparison.table().markdown())?,
        _ => output::result(&comparison.table().text(output::width()))?,
    }
    Ok(if comparison.is_planned() { Exit::Done } else { Exit::NoPlan })
}

/// Rejects more than one input from standard input.
fn one_standard_input(arguments: &CompareArguments, given: &Given) -> Result<()> {
    let around = [arguments.around.cluster(), arguments.around.pins()];
    let models = arguments.models.iter().map(|model| Some(model.as_path()));
    let paths: Vec<Option<&Path>> = models.chain(around).chain(given.paths().map(Some)).collect();
    files::at_most_one_standard(&paths)
}

/// The problems of the comparison: that of given plans, and those of entrants with another split.
fn problems(parts: &Parts, objective: Objective, entrants: &[Entrant]) -> Result<Vec<Problem>> {
    let Parts { label, graph, cluster, pins } = parts;
    let mut objectives = vec![objective];
    for entrant in entrants {
        if !objectives.contains(&entrant.objective) {
            objectives.push(entrant.objective);
        }
    }
    let problem = |objective| Problem::pinned(graph.clone(), cluster.clone(), objective, pins.clone());
    objectives
        .into_iter()
        .map(|objective| problem(objective).map_err(|error| CliError::problem(label, &error)))
        .collect()
}

/// Writes an HTML page of the best plan, with the comparison.
fn write_page(
    path: &Path,
    parts: Parts,
    comparison: &Comparison,
    arguments: &CompareArguments,
    objective: Objective,
) -> Result<()> {
    let best = comparison.rows.iter().find(|row| row.is_as_good_as(comparison.best()));
    let Some((row, plan)) = best.and_then(|row| Some((row, row.plan.as_ref()?))) else {
        output::note("there is no plan, so no page was written");
        return Ok(());
    };
    let Parts { label, graph, cluster, pins } = parts;
    let objective = objective.with_split(row.split.unwrap_or(objective.rules().split));
    let problem = Parts { label: label.clone(), graph, cluster, pins }.problem(objective)?;
    let placement = placement(&problem, plan).map_err(|error| CliError::placement(&row.name, &error))?;
    let of_step = step_problem(&problem, &label)?;
    let played = placement.as_step(problem.graph(), objective.kind());
    let step = Step::new(&of_step, &played);
    let typed = arguments.around.cluster().map(|path| path.display().to_string());
    let page = Page {
        model: model_name(&problem, &label),
        cluster: cluster_name(&problem, typed.as_deref()),
        problem: &problem,
        document: plan,
        placement: Some(&placement),
        step: Some(&step),
        convergence: None,
        comparison: Some(comparison),
    };
    files::write_with(path, |file| html::write(&page, file))
}

/// The row that speed-ups are relative to: the requested one, otherwise `one-device` under any split, if it takes part.
fn baseline(arguments: &CompareArguments, entrants: &[Entrant], given: &Given) -> Result<Option<String>> {
    const USUAL: &str = "one-device";
    let mut names: Vec<&str> = entrants.iter().map(|entrant| entrant.name.as_str()).collect();
    if let Some(twice) = given.names().find(|name| names.contains(name)) {
        return Err(CliError::new(U001, format!("`{twice}` is the name of both a solver and a plan"))
            .at("--plan")
            .help("give the plan another name: --plan NAME=FILE"));
    }
    names.extend(given.names());
    let Some(asked) = &arguments.baseline else {
        let usual = names.iter().find(|name| name.split('@').next() == Some(USUAL));
        return Ok(usual.map(|&name| name.to_owned()));
    };
    if names.contains(&asked.as_str()) {
        return Ok(Some(asked.clone()));
    }
    Err(CliError::new(U007, format!("`{asked}` is not part of the comparison"))
        .at("--baseline")
        .help(instead(asked, names.into_iter())))
}

/// Prints the comparisons in the requested notation.
fn show(arguments: &CompareArguments, comparisons: &[Comparison]) -> Result<()> {
    if arguments.json {
        return output::data(&output::json(&Comparisons { schema: SCHEMA, models: comparisons })?);
    }
    if arguments.csv {
        let csv = comparison::csv(comparisons);
        return output::data(
            &csv.map_err(|error| CliError::new(X001, format!("cannot write CSV: {error}")))?,
        );
    }
    let (grid, reasons) = match comparisons {
        [one] => (comparison::contenders(one), comparison::reasons(one)),
        several => (comparison::models(several), String::new()),
    };
    let table = if arguments.markdown { grid.markdown() } else { grid.text(output::width()) };
    let lines = reasons
        .lines()
        .map(|line| if arguments.markdown { format!("- {}\n", markdown(line)) } else { format!("{line}\n") });
    let lines: String = lines.collect();
    output::result(&if lines.is_empty() { table } else { format!("{table}\n{lines}") })
}

/// A file's name without folder and extension.
fn stem(path: &Path) -> String {
    match files::is_standard(path) {
        true => "model".into(),
        false => path.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned()),
    }
}
