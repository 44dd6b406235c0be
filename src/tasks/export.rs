//! Plans of any kind in the notation of a runtime.

use stagewright_core::document::{ClusterDocument, PlanDocument};
use stagewright_core::graph::Graph;
use stagewright_export::{
    Export, Placed, export_joint_noted, export_local_noted, export_serving_noted, target,
};
use stagewright_formats::Imported;

use super::placement::unwritten;
use super::{Document, Kind, PlanFile};
use crate::code::U013;
use crate::failure::{Failure, Result};
use crate::reading::Place;

/// Targets that draw a plan and run none.
const DRAWINGS: [&str; 2] = ["dot", "mermaid"];

/// Targets that name modules of PyTorch.
const NAMED: [&str; 6] =
    ["accelerate", "torchtitan", "deepspeed", "torch-pipelining", "torchgpipe", "pipedream"];

/// Whether the operators of a plan are named like the tensors of a GGUF file.
fn has_names_of_gguf(plan: &PlanDocument) -> bool {
    let mut operators = plan.devices.iter().flat_map(|device| &device.ops);
    operators.clone().any(|name| name == "token_embd") && operators.any(|name| name.starts_with("blk.0"))
}

/// Refuses a target that does not exist for plans of a kind.
///
/// # Errors
/// An unknown target (E001).
pub fn has_target(kind: Kind, to: &str, place: &Place) -> Result<()> {
    match kind {
        Kind::Placement => target(to).map(|_| ()).map_err(|error| unwritten(&place("to"), &error)),
        Kind::Joint | Kind::Local | Kind::Strategies | Kind::LayerFlow | Kind::Serving => Ok(()),
    }
}

/// Writes a plan for a runtime. The model is not needed if the plan has everything that its target needs. Without a
/// cluster, that of the plan applies, or else the model's own.
///
/// # Errors
/// An unknown target (E001), a plan that needs its model (S006), or one that the runtime cannot execute.
pub fn export(
    file: PlanFile<'_>,
    to: &str,
    model: Option<(String, Imported)>,
    cluster: Option<&ClusterDocument>,
    place: &Place,
) -> Result<Export> {
    let label = file.label();
    let file = match file {
        PlanFile::Whole(_, Document::Joint(plan)) => {
            return export_joint_noted(&plan, to).map_err(|error| unwritten(label, &error));
        }
        PlanFile::Whole(_, Document::Local(plan)) => {
            return export_local_noted(&plan, to).map_err(|error| unwritten(label, &error));
        }
        PlanFile::Whole(_, Document::Serving(plan)) => {
            return export_serving_noted(&plan, to).map_err(|error| unwritten(label, &error));
        }
        PlanFile::Whole(_, plan) => {
            let option = place("to");
            let cause = format!("{option} does not apply to a {}", plan.kind().name());
            return Err(Failure::new(U013, cause)
                .at(label)
                .help("`export --list` shows what each target takes"));
        }
        PlanFile::Placement { file, .. } => file,
    };
    let target = target(to).map_err(|error| unwritten(&place("to"), &error))?;
    let (graph, plan) = match model {
        None => (None, file.alone()?),
        Some((label, model)) => {
            let plan = file.for_model(&model, cluster)?;
            let graph = Graph::from_document(model.graph).map_err(|error| Failure::graph(&label, &error))?;
            (Some(graph), plan)
        }
    };
    let has_prediction = plan.model.as_ref().is_some_and(|options| options.prediction);
    if has_prediction && !DRAWINGS.contains(&to) {
        let cause =
            format!("the plan runs layers of multi-token prediction, and `{to}` divides the others alone");
        return Err(Failure::new(U013, cause).at(label).help("plan without layers of prediction"));
    }
    if NAMED.contains(&to) && has_names_of_gguf(&plan) {
        let cause = format!(
            "the operators have the names of a GGUF file, and `{to}` needs those of PyTorch's modules"
        );
        return Err(Failure::new(U013, cause).at(label).help("plan the config.json of the model"));
    }
    let own = graph.as_ref().and_then(|graph| graph.document().cluster.as_ref());
    let cluster = cluster.or(plan.cluster.as_ref()).or(own);
    let placed = Placed::new(&plan, graph.as_ref(), cluster);
    placed.and_then(|placed| target.export(&placed)).map_err(|error| unwritten(label, &error))
}
