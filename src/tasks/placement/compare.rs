//! Solvers of placements, expert rules and given plans side by side.

use std::io::{self, Write};
use std::time::Instant;

use stagewright_core::code::Code;
use stagewright_core::document::{ObjectiveKind, Schedule, Split};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{BOUNDS_SHARE, Context, Stop};
use stagewright_formats::{Imported, PlanFile as PlacementFile};
use stagewright_report::comparison::{Comparison, Contender, Entry, Known, Planned, Question, Setting};
use stagewright_report::document::Provenance;
use stagewright_report::html::{self, Page};
use stagewright_report::step::Step;
use stagewright_report::throughput::throughput;

use super::{Asked, Chosen, Placement, cluster_name, judge, model_name, step_problem};
use crate::bounds;
use crate::code::{U001, U004};
use crate::failure::{Failure, Result};
use crate::placement::placement;
use crate::reading::Place;
use crate::registry::{self, Role, SOLVERS};
use crate::tasks::compare::{Contest, Entered, Entrant, Solve, is_without_solvers};
use crate::tasks::{COMMAND, Session, SolverChoice};

/// Solver that speed-ups are relative to, if it takes part and no other baseline is asked for.
const USUAL: &str = "one-device";

/// The groups of solvers, each with the roles of its members.
const GROUPS: [(&str, &[Role]); 5] = [
    ("exact", &[Role::Exact]),
    ("search", &[Role::Search]),
    ("baselines", &[Role::Baseline]),
    ("learned", &[Role::Learned]),
    ("all", &[Role::Exact, Role::Search, Role::Baseline]),
];

/// Names of the groups of solvers that a comparison takes.
pub fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(name, _)| *name)
}

/// A solver with its own split.
#[derive(Debug)]
struct Named {
    /// Name in the list.
    name: String,
    /// Name of the solver; the error for a group of which no solver supports the objective.
    solver: Result<String>,
    objective: Objective,
    /// Whether the solver is a member of a listed group.
    is_member: bool,
}

/// Compares contenders. Bounds that need no solver are computed before the first solve, so that no solver's time includes
/// them.
///
/// # Errors
/// As [`Task::compare`](crate::tasks::Task::compare) says.
pub(super) fn compare(
    task: &Placement,
    contest: Contest<'_>,
    session: &mut Session<'_>,
) -> Result<Comparison> {
    let asked = task.asked()?;
    let named = named(contest.solvers, asked.problem.objective(), &task.place)?;
    let mut chosen = Vec::with_capacity(named.len());
    for entrant in &named {
        chosen.push(entrant.chosen(contest.choice, &task.place)?);
    }
    let supported = named.iter().zip(&chosen).filter(|(_, chosen)| chosen.is_ok());
    let problems = problems(asked, supported.map(|(entrant, _)| entrant.objective))
        .map_err(|error| Failure::problem(&task.label, &error))?;
    let mut entrants = Vec::with_capacity(named.len());
    for (entrant, chosen) in named.iter().zip(chosen) {
        let depends_on_seed =
            chosen.as_ref().is_ok_and(|chosen| chosen.solver.capabilities().depends_on_seed);
        let problem = problems.iter().find(|problem| *problem.objective() == entrant.objective);
        let solve = match (chosen, problem) {
            (Err(refusal), _) => Err(refusal),
            (Ok(_), None) => continue,
            (Ok(chosen), Some(problem)) => {
                let solve =
                    move |context: &mut Context<'_>| solved(asked, problem, &chosen, context, &task.place);
                Ok(Box::new(solve) as Box<Solve<'_>>)
            }
        };
        entrants.push(Entrant { name: entrant.name.clone(), solve, depends_on_seed });
    }
    let model = contest.model.to_owned();
    let baseline = contest.baseline(&entrants, Some(USUAL));
    let settings = &session.options.settings;
    let share = settings.limits.time.map(|limit| limit.mul_f64(BOUNDS_SHARE) / problems.len() as u32);
    let proved = problems.iter().map(|problem| {
        let bound = bounds::strongest(problem, &Stop::new(share, settings.interrupt.clone()));
        (problem.objective().to_document(None), bound.value)
    });
    let proved: Vec<_> = proved.collect();
    let cluster = asked.problem.cluster().document();
    let setting = contest.setting(Some(cluster), asked.options.as_ref());
    let question = asked.problem.objective().to_document(None);
    let known =
        Known { question: Question::Placement(&question), bounds: &proved, recorded_s: contest.recorded_s };
    let contenders = contest.solve(entrants, session)?;
    let compared = Comparison::new(&model, Some(cluster), contenders, &known, baseline.as_deref())
        .with_rates(|_, value| throughput(&question, value, asked.batch, asked.problem.graph().document()));
    let sources = match compared.leader() {
        Some((_, Planned::Placement(plan))) => asked.sources(plan),
        _ => None,
    };
    Ok(Comparison { setting: Setting { sources, ..setting }, ..compared })
}

/// The solvers of a list.
///
/// # Errors
/// As [`Task::entrants`](crate::tasks::Task::entrants) says.
pub(super) fn entrants(
    task: &Placement,
    list: &[String],
    choice: &dyn Fn(&str) -> Result<SolverChoice>,
) -> Result<Vec<Entered>> {
    let named = named(list, task.asked()?.problem.objective(), &task.place)?;
    let entered = named.into_iter().map(|entrant| {
        let refusal = entrant.chosen(choice, &task.place)?.err();
        Ok(Entered { name: entrant.name, refusal })
    });
    entered.collect()
}

impl Named {
    /// The solver, or the error of one that does not support the objective (U004).
    fn chosen(&self, choice: &dyn Fn(&str) -> Result<SolverChoice>, place: &Place) -> Result<Result<Chosen>> {
        let solver = match &self.solver {
            Ok(solver) => solver,
            Err(refusal) => return Ok(Err(refusal.clone())),
        };
        let chosen = Chosen::new(&choice(solver)?, &self.objective, place)
            .map_err(|error| if self.is_member { error } else { error.at(place("solvers")) });
        match chosen {
            Err(refusal) if refusal.code() == Code::from(U004) => Ok(Err(refusal)),
            chosen => chosen.map(Ok),
        }
    }
}

/// The plan of a solver.
fn solved(
    asked: &Asked,
    problem: &Problem,
    chosen: &Chosen,
    context: &mut Context<'_>,
    place: &Place,
) -> Result<Planned> {
    let started = Instant::now();
    let seed = context.seed();
    let solution = chosen.solve_in(problem, context, place)?;
    let provenance =
        Provenance { solver: chosen.label.clone(), seconds: started.elapsed().as_secs_f64(), seed };
    Ok(Planned::Placement(Box::new(asked.document(problem, &solution, provenance))))
}

/// A given plan, evaluated by the independent checker under the rules of the question.
///
/// # Errors
/// A file that is no plan for the model, or documents that cannot be checked.
pub(super) fn given(asked: &Asked, name: &str, label: &str, file: PlacementFile<'_>) -> Result<Contender> {
    let problem = &asked.problem;
    let (graph, cluster) = (problem.graph().document(), problem.cluster().document());
    let imported = Imported { graph: graph.clone(), format: asked.format, ids: asked.ids.clone() };
    let plan = file.for_model(&imported, Some(cluster))?;
    let judged = judge(plan, graph, cluster, Some(problem.pins()), problem.objective());
    let (mut plan, breaks) = judged.map_err(|error| {
        Failure::new(error.code(), error.to_string()).at(label).help("correct the plan, or leave it out")
    })?;
    plan.model.clone_from(&asked.options);
    Ok(Contender { name: name.to_owned(), entry: Entry::Given(Planned::Placement(Box::new(plan)), breaks) })
}

/// Writes a page of the best plan, with the comparison; nothing if there is no plan.
///
/// # Errors
/// A plan whose step is not a valid problem; the inner error is that of the writer.
pub(super) fn page(
    task: &Placement,
    comparison: &Comparison,
    cluster: Option<&str>,
    out: &mut dyn Write,
) -> Result<io::Result<()>> {
    let Some((row, Planned::Placement(plan))) = comparison.leader() else { return Ok(Ok(())) };
    let asked = task.asked()?;
    let objective = asked.problem.objective();
    let objective = objective.with_split(row.split.unwrap_or(objective.rules().split));
    let problem =
        asked.problem.with_objective(objective).map_err(|error| Failure::problem(&task.label, &error))?;
    let placement = placement(&problem, plan).map_err(|error| Failure::placement(&row.name, &error))?;
    let of_step = step_problem(&problem, &task.label)?;
    let played = placement.as_step(problem.graph(), objective.kind());
    let step = Step::new(&of_step, &played);
    let page = Page {
        model: model_name(&problem, &task.label),
        cluster: cluster_name(&problem, cluster),
        problem: &problem,
        document: plan,
        placement: Some(&placement),
        step: Some(&step),
        convergence: None,
        comparison: Some(comparison),
    };
    Ok(html::write(&page, out))
}

/// The problem itself, for given plans, and those of entrants with another split.
fn problems(
    asked: &Asked,
    objectives: impl Iterator<Item = Objective>,
) -> Result<Vec<Problem>, stagewright_core::problem::ProblemError> {
    let mut problems = vec![asked.problem.clone()];
    for objective in objectives {
        if !problems.iter().any(|problem| *problem.objective() == objective) {
            problems.push(asked.problem.with_objective(objective)?);
        }
    }
    Ok(problems)
}

/// The solvers of a list. An entry is `auto`, the name of a solver, or a group of them (`exact`, `search`, `baselines`,
/// `learned`, `all`), and may have its own split rule: `bnp@free`. A group stands for its members that support the objective.
fn named(list: &[String], objective: &Objective, place: &Place) -> Result<Vec<Named>> {
    if is_without_solvers(list) {
        return Ok(Vec::new());
    }
    let usual;
    let list = match list {
        [] => {
            usual = self::usual(objective);
            &usual[..]
        }
        list => list,
    };
    let mut named: Vec<Named> = Vec::new();
    for entry in list {
        // The `@` is kept, so that a member of a group is named as if it were listed alone. In a command, `@` is part
        // of the command.
        let split_from = entry.find('@').filter(|_| !entry.starts_with(COMMAND));
        let (name, suffix) = entry.split_at(split_from.unwrap_or(entry.len()));
        let split = match suffix.strip_prefix('@') {
            Some(split) => split_named(entry, split, objective, place)?,
            None => objective.rules().split,
        };
        let objective = objective.with_split(split);
        let (names, is_member) = members(name, &objective);
        if names.is_empty() {
            let supporting = registry::supporting(&objective).join(", ");
            let cause = format!("no solver of the group `{name}` supports the objective");
            let refusal = Failure::new(U004, cause)
                .at(place("solvers"))
                .help(format!("use some of {supporting}, or another objective"));
            named.push(Named { name: entry.clone(), solver: Err(refusal), objective, is_member });
        }
        for solver in names {
            let name = format!("{solver}{suffix}");
            if !named.iter().any(|entrant| entrant.name == name) {
                named.push(Named { name, solver: Ok(solver.to_owned()), objective, is_member });
            }
        }
    }
    Ok(named)
}

/// `auto` and the baselines, for throughput of a split that is not free and has no schedule also `auto@free`.
fn usual(objective: &Objective) -> Vec<String> {
    let mut list = vec!["auto".to_owned()];
    let is_free = objective.kind() != ObjectiveKind::Throughput || objective.rules().split == Split::Free;
    if !is_free && objective.rules().schedule == Schedule::None {
        list.push("auto@free".into());
    }
    list.push("baselines".into());
    list
}

/// Returns the solvers of a group that support an objective, or the single name; and whether it is a group.
fn members<'a>(name: &'a str, objective: &Objective) -> (Vec<&'a str>, bool) {
    let of_roles = |roles: &[Role]| {
        let supporting = SOLVERS
            .iter()
            .filter(|entry| roles.contains(&entry.role) && entry.solver.unsupported(objective).is_none());
        supporting.map(|entry| entry.solver.name()).collect()
    };
    match GROUPS.iter().find(|(group, _)| *group == name) {
        Some((_, roles)) => (of_roles(roles), true),
        None => (vec![name], false),
    }
}

fn split_named(entry: &str, split: &str, objective: &Objective, place: &Place) -> Result<Split> {
    let wrong = |cause: String| {
        Err(Failure::new(U001, cause)
            .at(place("solvers"))
            .help("write NAME@contiguous, NAME@convex or NAME@free"))
    };
    if objective.kind() != ObjectiveKind::Throughput {
        return wrong(format!("`{entry}` names a split, which applies only to throughput"));
    }
    match split {
        "contiguous" => Ok(Split::Contiguous),
        "convex" => Ok(Split::Convex),
        "free" => Ok(Split::Free),
        other => wrong(format!("unknown split rule `{other}`")),
    }
}
