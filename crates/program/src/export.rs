//! `export`: writes a plan in the notation of a runtime.

use stagewright::export::{JOINT_TARGETS, JointTarget, SERVING_TARGETS, ServingTarget, TARGETS, Target};
use stagewright::report::wrap::facts;
use stagewright::tasks::{self, PlanFile};

use super::args::ExportArguments;
use super::error::{Result, place};
use super::exit::Exit;
use super::files::{self, Input, at_most_one_standard, is_standard, read};
use super::model_options::Kept;
use super::{output, resolve};

pub(crate) fn run(arguments: &ExportArguments) -> Result<Exit> {
    let (Some(plan), Some(to)) = (&arguments.plan, &arguments.to) else {
        output::result(&list())?;
        return Ok(Exit::Done);
    };
    files::outputs(&[("--out", arguments.out.as_deref())])?;
    let (model, cluster) = (arguments.model.as_deref(), arguments.cluster.as_deref());
    at_most_one_standard(&[Some(plan), model, cluster])?;
    let Input { label, bytes } = read(plan)?;
    let kind = tasks::kind_of_plan(&bytes);
    tasks::has_target(kind, to, &place())?;
    let file = PlanFile::read(kind, &label, &bytes)?;
    // A plan that is read without its model contains everything that its targets need.
    let (model, cluster) = if file.is_whole() { (None, None) } else { (model, cluster) };
    let cluster = cluster.map(|path| resolve::cluster_file(path).map(|(_, cluster)| cluster)).transpose()?;
    let model = model.map(|path| resolve::model(path, &arguments.import, Kept::of(&file))).transpose()?;
    let export = tasks::export(file, to, model, cluster.as_ref(), &place())?;
    match &arguments.out {
        Some(path) if !is_standard(path) => files::write(path, &export.text)?,
        _ => output::data(&export.text)?,
    }
    output::notes(&export.notes);
    Ok(Exit::Done)
}

/// Lists the targets, each with its limits.
fn list() -> String {
    let rows = |target: &&'static Target| {
        [(target.name, target.summary.to_owned()), ("", format!("limits: {}", target.limits))]
    };
    let of_joint = |target: &&'static JointTarget| {
        let summary = format!("joint plans: {}", target.summary);
        [(target.name, summary), ("", format!("limits: {}", target.limits))]
    };
    let of_serving = |target: &&'static ServingTarget| {
        let summary = format!("serving plans: {}", target.summary);
        [(target.name, summary), ("", format!("limits: {}", target.limits))]
    };
    let lines = TARGETS.iter().flat_map(rows).chain(JOINT_TARGETS.iter().flat_map(of_joint));
    let lines = lines.chain(SERVING_TARGETS.iter().flat_map(of_serving));
    facts(lines, output::width())
}
