//! `plan --parallel`, `bound --parallel`, and `check` of joint plans.

use std::path::Path;

use serde::Serialize;
use stagewright::core::document::{
    JointBoundDocument, JointObjectiveDocument, JointObjectiveKind, JointPlanDocument, PlanStatus,
};
use stagewright::formats::{import_joint_plan, import_piper, is_joint_plan, write_joint_plan};
use stagewright::report::html::{self, joint::JointPage};
use stagewright_verify::{JointReport, JointVerdict, check_joint, check_joint_layers};

use super::args::{
    AroundArguments, BoundArguments, CheckArguments, ModelArguments, ObjectiveArguments, PlanArguments,
};
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Input, Outputs, at_most_one_standard};
use super::model_options::{Kept, ModelOptions};
use super::{measured, output, resolve};

mod compare;
mod explain;
mod problem;
mod text;

pub(super) use compare::compare;
pub(super) use explain::explain_if_joint;
use problem::Problem;

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
    let report = report(&arguments.model, &label, &plan)?;
    match arguments.json {
        true => output::data(&output::json(&Summary::new(&report))?)?,
        false => output::result(&text::checked(&plan, &report, output::width()))?,
    }
    Ok(Some(if report.holds() { Exit::Done } else { Exit::Violation }))
}

/// Checks the plan called `label` for a model. Its options are the defaults.
fn report(model: &ModelArguments, label: &str, plan: &JointPlanDocument) -> Result<JointReport> {
    let kept = plan.options.as_ref().map(|options| Kept { label, options });
    let around = &model.around;
    let options =
        ModelOptions::with_costs(&around.import, around.memory_reserve.as_deref(), &around.costs, kept)?;
    let wrong = |error: stagewright_verify::CheckError| {
        CliError::new(&format!("V:{}", error.code()), error.to_string())
            .at(format!("{}, {label}", model.model.display()))
            .help("correct the named document; the plan itself was not checked")
    };
    let cluster =
        around.cluster.as_deref().map(resolve::cluster_file).transpose()?.map(|(_, cluster)| cluster);
    match plan.objective.kind {
        JointObjectiveKind::TimePerSample => {
            let Input { label, bytes } = files::read(&model.model)?;
            let document = import_piper(&label, &bytes)?;
            let plan = match cluster {
                Some(cluster) => JointPlanDocument { cluster: Some(cluster), ..plan.clone() },
                None => plan.clone(),
            };
            check_joint_layers(&document, &plan).map_err(wrong)
        }
        JointObjectiveKind::Iteration => {
            let (_, mut model) = resolve::opened_model(files::open(&model.model)?, &options)?;
            let Some(mut cluster) = cluster.or_else(|| plan.cluster.clone()) else {
                return Err(CliError::new("U002", "no cluster given, and the plan contains none")
                    .at(label)
                    .help("give one with --cluster"));
            };
            measured::on(&mut model, &mut cluster, &options.costs())?;
            check_joint(&model.graph, &cluster, plan).map_err(wrong)
        }
    }
}

/// A plan that was checked for the request of `plan`.
pub(super) struct Checked {
    pub(super) plan: JointPlanDocument,
    pub(super) report: JointReport,
    /// Whether the plan is for that request, and not for another objective or model.
    pub(super) is_answer: bool,
}

/// Checks the plan called `label` as an answer to the request of `plan`.
pub(super) fn check_answer(arguments: &PlanArguments, label: &str, bytes: &[u8]) -> Result<Checked> {
    let plan = import_joint_plan(label, bytes)?;
    let problem = Problem::read(&arguments.model, &arguments.parallel, &arguments.objective.schedule)?;
    let asked = JointObjectiveDocument { value_s: plan.objective.value_s, ..problem.objective().clone() };
    let is_answer = plan.objective == asked && plan.options.as_ref() == problem.options();
    let report = report(&arguments.model, label, &plan)?;
    Ok(Checked { plan, report, is_answer })
}

/// The answer to the request of `plan`.
pub(super) fn answer(arguments: &PlanArguments) -> Result<JointPlanDocument> {
    Problem::read(&arguments.model, &arguments.parallel, &arguments.objective.schedule)?
        .solve(&resolve::solving(&arguments.solve)?, false)
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
