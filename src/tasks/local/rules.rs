//! The fastest plan beside what people use: the defaults of llama.cpp, `--fit`, `--n-cpu-moe` by hand, and layers in proportion.

use stagewright_core::document::{LocalPlanDocument, PlanStatus};
use stagewright_core::solver::Context;
use stagewright_local::rules::{RULES, rule};
use stagewright_local::{self as solver, Plan};
use stagewright_report::comparison::{Comparison, Contender, Entry, Known, Planned, Question as Objective};

use super::Found;
use super::question::{Fixed, Local};
use crate::failure::Result;
use crate::tasks::Session;
use crate::tasks::compare::{Contest, Entered, Entrant, listed};

/// Name of the fastest plan in a comparison.
const BEST: &str = "best";

/// Compares contenders, all with the context and the encoding of the best plan.
///
/// # Errors
/// As [`Task::compare`](crate::tasks::Task::compare) says.
pub(super) fn compare(task: &Local, contest: Contest<'_>, session: &mut Session<'_>) -> Result<Comparison> {
    let fixed = task.best(session)?.fixed;
    let entrants = listed(all(task, Some(fixed)), contest.solvers, &task.place)?;
    let baseline = contest.baseline(&entrants, Some("llama.cpp"));
    let model = contest.model.to_owned();
    let setting = contest.setting(Some(&task.cluster), task.options.as_ref());
    let known =
        Known { question: Objective::Local(&task.objective), bounds: &[], recorded_s: contest.recorded_s };
    let contenders = contest.solve(entrants, session)?;
    let compared = Comparison::new(&model, None, contenders, &known, baseline.as_deref());
    Ok(Comparison { setting, ..compared })
}

/// Names of the rules of a list.
///
/// # Errors
/// As [`Task::entrants`](crate::tasks::Task::entrants) says.
pub(super) fn entrants(task: &Local, list: &[String]) -> Result<Vec<Entered>> {
    let entrants = listed(all(task, None), list, &task.place)?;
    Ok(entrants.into_iter().map(Entrant::entered).collect())
}

/// The best plan and the rules. Without what is fixed they are only named.
fn all(task: &Local, fixed: Option<Fixed>) -> Vec<Entrant<'_>> {
    let fixed = fixed.unwrap_or_else(|| task.fixed(task.contexts()[0], task.encodings()[0]));
    let best = {
        let fixed = fixed.clone();
        move |context: &mut Context<'_>| {
            let solution = solver::solve(&task.label, &task.question(&fixed), context)?;
            let took = context.elapsed().as_secs_f64();
            let document = task.document(&Found { fixed: fixed.clone(), solution }, took);
            Ok(Planned::Local(Box::new(document)))
        }
    };
    let mut entrants =
        vec![Entrant { name: BEST.to_owned(), solve: Ok(Box::new(best)), depends_on_seed: false }];
    for known in RULES {
        let fixed = fixed.clone();
        let solve = move |context: &mut Context<'_>| {
            let question = task.question(&fixed);
            let setting = rule(&task.label, &question, known.name)?;
            let plan = match setting {
                Some(setting) => Plan::of(&task.label, &question, setting)?,
                None => None,
            };
            let took = context.elapsed().as_secs_f64();
            let document = task.planned(known.name, &fixed, plan.as_ref(), took);
            let (status, reason) = match plan {
                Some(_) => (PlanStatus::Feasible, None),
                None => (PlanStatus::Unknown, Some("what the rule gives does not fit".to_owned())),
            };
            Ok(Planned::Local(Box::new(LocalPlanDocument { status, reason, ..document })))
        };
        entrants.push(Entrant {
            name: known.name.to_owned(),
            solve: Ok(Box::new(solve)),
            depends_on_seed: false,
        });
    }
    entrants
}

/// A given plan or line, evaluated under the objective of the question.
///
/// # Errors
/// If its line cannot be read (L007, L008), or its memory is not followed (L009).
pub(super) fn given(task: &Local, name: &str, label: &str, plan: LocalPlanDocument) -> Result<Contender> {
    let (document, breaks) = match &plan.setting {
        None => (LocalPlanDocument { status: PlanStatus::Unknown, ..plan }, Vec::new()),
        Some(setting) => {
            let (fixed, judged) = task.given_line(label, &setting.flags)?;
            let short = judged.memory.shortfalls(&judged.setting, task.machine.host);
            let breaks = if short.is_empty() { Vec::new() } else { vec!["memory".to_owned()] };
            let document = task.planned("given", &fixed, Some(&judged), 0.0);
            (LocalPlanDocument { status: PlanStatus::Feasible, origin: None, ..document }, breaks)
        }
    };
    Ok(Contender { name: name.to_owned(), entry: Entry::Given(Planned::Local(Box::new(document)), breaks) })
}
