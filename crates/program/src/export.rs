//! `export`: writes a plan in the notation of a runtime.

use std::path::Path;

use stagewright::core::document::{ClusterDocument, PlanDocument};
use stagewright::core::graph::Graph;
use stagewright::core::problem::Problem;
use stagewright::export::{
    ExportError, JOINT_TARGETS, JointTarget, Placed, TARGETS, Target, export_joint_noted, target,
};
use stagewright::formats::{PlanFile, import_plan_alone};
use stagewright::report::wrap::facts;

use super::args::ExportArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Input, at_most_one_standard, is_standard, read};
use super::model_options::Kept;
use super::{joint, output, resolve};

pub(crate) fn run(arguments: &ExportArguments) -> Result<Exit> {
    let (Some(plan), Some(to)) = (&arguments.plan, &arguments.to) else {
        output::result(&list())?;
        return Ok(Exit::Done);
    };
    files::outputs(&[("--out", arguments.out.as_deref())])?;
    if let Some(exit) = export_if_joint(arguments, plan, to)? {
        return Ok(exit);
    }
    let target = target(to).map_err(|error| failed("--to", &error))?;
    let (model, cluster) = (arguments.model.as_deref(), arguments.cluster.as_deref());
    at_most_one_standard(&[Some(plan), model, cluster])?;
    let cluster = cluster.map(|path| resolve::cluster_file(path).map(|(_, cluster)| cluster)).transpose()?;
    let Input { label, bytes } = read(plan)?;
    let (model, plan) = match model {
        None => (None, import_plan_alone(&label, &bytes)?),
        Some(path) => {
            let plan = PlanFile::read(&label, &bytes)?;
            let model = resolve::model(path, &arguments.import, Kept::from_plan(&label, plan.native()))?;
            let plan = plan.for_model(&model.1, cluster.as_ref())?;
            (Some(model), plan)
        }
    };
    let graph = model
        .map(|(label, model)| {
            Graph::from_document(model.graph).map_err(|error| CliError::graph(&label, &error))
        })
        .transpose()?;
    let own: Option<&ClusterDocument> = graph.as_ref().and_then(|graph| graph.document().cluster.as_ref());
    let placed = Placed::new(&plan, graph.as_ref(), cluster.as_ref().or(own));
    let export = placed.and_then(|placed| target.export(&placed)).map_err(|error| failed(&label, &error))?;
    match &arguments.out {
        Some(path) if !is_standard(path) => files::write(path, &export.text)?,
        _ => output::data(&export.text)?,
    }
    output::notes(&export.notes);
    Ok(Exit::Done)
}

/// Exports a plan if it is a joint plan, which has everything that its targets need.
fn export_if_joint(arguments: &ExportArguments, plan: &Path, to: &str) -> Result<Option<Exit>> {
    let Some((label, plan)) = joint::read_plan(plan)? else { return Ok(None) };
    let export = export_joint_noted(&plan, to).map_err(|error| failed(&label, &error))?;
    match &arguments.out {
        Some(path) if !is_standard(path) => files::write(path, &export.text)?,
        _ => output::data(&export.text)?,
    }
    output::notes(&export.notes);
    Ok(Some(Exit::Done))
}

/// Writes a plan as a Graphviz drawing.
pub(crate) fn write_dot(path: &Path, plan: &PlanDocument, problem: &Problem) -> Result<()> {
    let label = path.display().to_string();
    let cluster = problem.cluster().document();
    let drawing = Placed::new(plan, Some(problem.graph()), Some(cluster))
        .and_then(|placed| target("dot")?.export(&placed))
        .map_err(|error| failed(&label, &error))?;
    files::write(path, &drawing.text)
}

/// The targets, each with what it cannot express.
fn list() -> String {
    let rows = |target: &&'static Target| {
        [(target.name, target.summary.to_owned()), ("", format!("limits: {}", target.limits))]
    };
    let of_joint = |target: &&'static JointTarget| {
        let summary = format!("joint plans: {}", target.summary);
        [(target.name, summary), ("", format!("limits: {}", target.limits))]
    };
    let lines = TARGETS.iter().flat_map(rows).chain(JOINT_TARGETS.iter().flat_map(of_joint));
    facts(lines, output::width())
}

/// The error for a plan that cannot be exported, or for an unknown target.
fn failed(label: &str, error: &ExportError) -> CliError {
    let place = match error.place() {
        Some(path) => format!("{label}: {path}"),
        None => label.to_owned(),
    };
    CliError::new(error.code(), error.to_string()).at(place).help(error.help())
}
