//! `convert`: converts between formats, chosen by the content of the input and the name of the output.

use std::path::Path;

use stagewright::code::{U002, U005};
use stagewright::core::cluster::Cluster;
use stagewright::core::document::{CLUSTER_SCHEMA, ClusterDocument};
use stagewright::core::graph::Graph;
use stagewright::formats::{
    Format, Notation, detect, import_cluster, write_cluster, write_graph, write_packed, write_plan,
    write_reference,
};
use stagewright::structure::write_structure;
use stagewright::structures;
use stagewright::tasks::{Kind, PlanFile};

use super::args::ConvertArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Input, Opened, at_most_one_standard, read};
use super::model_options::{Kept, model_options};
use super::{output, resolve};

pub(crate) fn run(arguments: &ConvertArguments) -> Result<Exit> {
    at_most_one_standard(&[
        Some(&arguments.input),
        arguments.cluster.as_deref(),
        arguments.plan_of.as_deref(),
    ])?;
    files::outputs(&[("OUT", Some(&arguments.output))])?;
    let content = content(arguments)?;
    files::write_with(&arguments.output, |file| file.write_all(&content))?;
    Ok(Exit::Done)
}

/// Converts the input to the requested notation.
fn content(arguments: &ConvertArguments) -> Result<Vec<u8>> {
    if let Some(model) = &arguments.plan_of {
        let input = read(&arguments.input)?;
        let plan = PlanFile::read(Kind::Placement, &input.label, &input.bytes)?;
        let (_, model) = resolve::model(model, &arguments.import, Kept::of(&plan))?;
        return Ok(write_plan(&resolve::placed(plan, &model, None)?).into_bytes());
    }
    let any = arguments.import.0.text("format").is_none();
    if any && let Some((label, cluster)) = resolve::built_in_cluster(&arguments.input)? {
        return cluster_text(&label, cluster, arguments).map(String::into_bytes);
    }
    match resolve::opened(&arguments.input)? {
        Opened::Memory(input) if any && is_cluster(&input) => {
            let cluster = import_cluster(&input.label, &input.bytes)?;
            cluster_text(&input.label, cluster, arguments).map(String::into_bytes)
        }
        opened if is_structure_wanted(&opened, arguments) => {
            structure_text(opened, arguments).map(String::into_bytes)
        }
        opened => model(opened, arguments),
    }
}

/// Whether the input is a language model, and its graph is not requested.
fn is_structure_wanted(opened: &Opened, arguments: &ConvertArguments) -> bool {
    let is_language = match opened {
        Opened::Language(_) => true,
        Opened::Memory(Input { label, bytes }) => {
            detect(label, bytes).is_ok_and(|format| format == Format::Language)
        }
        Opened::File(..) => false,
    };
    is_language && arguments.to.as_deref().is_none_or(|to| to == "json" || to == "structure")
}

/// The structure of a language model as a document.
fn structure_text(opened: Opened, arguments: &ConvertArguments) -> Result<String> {
    let options = model_options(&arguments.import, Kept::default())?.document;
    let mut notes = Vec::new();
    let structure = structures::of_opened(opened, &structures::reading(&options), &mut notes)?;
    output::notes(&notes);
    Ok(write_structure(&structure))
}

/// Whether the input is a cluster: it has the schema of one at its top level, or is TOML, which models never are.
fn is_cluster(input: &Input) -> bool {
    if detect(&input.label, &input.bytes).is_err() {
        return true;
    }
    // Only the top level counts: a model that contains a cluster has the same schema inside.
    let named = |document: serde_json::Value| {
        document
            .get("schema")
            .and_then(|schema| schema.as_str())
            .is_some_and(|schema| schema == CLUSTER_SCHEMA)
    };
    serde_json::from_slice(&input.bytes).is_ok_and(named)
}

fn cluster_text(label: &str, cluster: ClusterDocument, arguments: &ConvertArguments) -> Result<String> {
    let cluster = Cluster::from_document(cluster).map_err(|error| CliError::cluster(label, &error))?;
    let notation = match arguments.to.as_deref() {
        Some("json" | "native") => Notation::Json,
        Some("toml") => Notation::Toml,
        Some(other) => return Err(no_conversion(other, "a cluster", "json or toml")),
        None if extension_is(&arguments.output, "json") => Notation::Json,
        None => Notation::Toml,
    };
    Ok(write_cluster(cluster.document(), notation))
}

/// Converts a model to the requested notation.
pub(super) fn model(opened: Opened, arguments: &ConvertArguments) -> Result<Vec<u8>> {
    let (label, model) = resolve::opened_model(opened, &model_options(&arguments.import, Kept::default())?)?;
    let mut model = model.graph;
    if let Some(path) = &arguments.cluster {
        model.cluster = Some(resolve::cluster_file(path)?.1);
    }
    let to = match arguments.to.as_deref() {
        Some(to) => to,
        None if extension_is(&arguments.output, "toml") => "toml",
        None if is_packed(&arguments.output) => "packed",
        None => "native",
    };
    let graph = Graph::from_document(model).map_err(|error| CliError::graph(&label, &error))?;
    match to {
        "native" | "json" => Ok(write_graph(graph.document()).into_bytes()),
        "packed" => Ok(write_packed(graph.document())),
        "reference" => Ok(write_reference(&label, graph.document())?.into_bytes()),
        "toml" => match &graph.document().cluster {
            Some(cluster) => cluster_text(&label, cluster.clone(), arguments).map(String::into_bytes),
            None => {
                Err(CliError::new(U002, "only clusters can be written as TOML, and the model contains none")
                    .at(label.clone())
                    .help("write the model as .json"))
            }
        },
        other => Err(no_conversion(
            other,
            "a model",
            "native, packed or reference, structure for a language model, or toml for its cluster",
        )),
    }
}

fn no_conversion(to: &str, what: &str, known: &str) -> CliError {
    CliError::new(U005, format!("{what} cannot be written as `{to}`")).at("--to").help(format!("use {known}"))
}

/// Whether a model in a file of this name is packed.
pub(super) fn is_packed(path: &Path) -> bool {
    extension_is(path, "msgpack")
}

fn extension_is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}
