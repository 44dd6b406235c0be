//! ONNX Runtime: layer annotations of nodes and the session option that maps them to devices.
//!
//! A node may carry the metadata `layer_ann`; `session.layer_assignment_settings` maps annotations to
//! devices, as in `accelerator(=a); cpu(=b)`, where `=` matches the whole annotation instead of a prefix. The
//! output is a Python module with the device of every node by name, a function that annotates a model, and
//! the value of the option. A session has one execution provider per type, so a plan may use one accelerator
//! and one host. Nodes that the importer folded are left to the runtime, which folds them too.
//!
//! Source: "Graph Partitioning with Annotations and Memory Constraints" in the documentation of ONNX Runtime
//! and `core/framework/layering_annotations.cc`; run with ONNX Runtime 1.31.1. According to that page, an
//! annotation is a preference: a node for which the provider has no kernel runs on the next one.

use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained};
use crate::{Export, ExportError, Placed, Result, Target, literal};

pub(super) static TARGET: Target = Target {
    name: "onnxruntime",
    summary: "ONNX Runtime: layer_ann of nodes and session.layer_assignment_settings, as a Python module",
    limits: "one accelerator and one host; no replicas, one call per device; only a preference",
    write,
    runtime: Runtime {
        name: "ONNX Runtime",
        passes: Passes::Given,
        overlaps: false,
        sharing: Sharing {
            trained: Trained::Noted(
                "the plan synchronises its gradient, and ONNX Runtime has a copy of it for each of them",
            ),
            weight: COPIED,
            constant: COPIED,
        },
        schedules: Schedules::Own("ONNX Runtime runs one device after the other"),
    },
};

const ANNOTATE: &str = r#"

def annotate(model):
    """Writes the annotations into an onnx.ModelProto."""
    # Unnamed nodes are called what they make, as the importer calls them.
    named = {node.name or (node.output[0] if node.output else ""): node for node in model.graph.node}
    absent = LAYER_ANN.keys() - named.keys()
    if absent:
        raise ValueError(f"the model has no node {min(absent)!r}")
    for name, annotation in LAYER_ANN.items():
        properties = named[name].metadata_props
        entry = next((entry for entry in properties if entry.key == "layer_ann"), None) or properties.add()
        entry.key, entry.value = "layer_ann", annotation
    return model


def configure(options):
    """Tells an onnxruntime.SessionOptions where annotated nodes run."""
    options.add_session_config_entry("session.layer_assignment_settings", SETTINGS)
    return options
"#;

fn write(placed: &Placed) -> Result<Export> {
    placed.one_run_each("ONNX Runtime")?;
    let hosts = placed.devices.iter().filter(|device| device.host).count();
    if hosts > 1 || placed.devices.len() - hosts > 1 {
        let what = format!("{} accelerators and {hosts} hosts", placed.devices.len() - hosts);
        let rule = "a session of ONNX Runtime has one provider per type: one accelerator and one host";
        return Err(ExportError::Devices { what, rule });
    }
    let annotation = |device: usize| if placed.devices[device].host { HOST } else { ACCELERATOR };
    let entries = placed
        .operators
        .iter()
        .map(|operator| literal::entry(operator.name, &literal::string(annotation(operator.device).1)));
    let mut rules: Vec<String> = (0..placed.devices.len())
        .map(|device| {
            let (designator, annotation) = annotation(device);
            format!("{designator}(={annotation})")
        })
        .collect();
    rules.sort_unstable();
    let text = format!(
        "SETTINGS = {}\nLAYER_ANN = {}\n{ANNOTATE}",
        literal::string(&rules.join("; ")),
        literal::lines('{', entries, '}'),
    );
    let called: Vec<String> = (0..placed.devices.len())
        .map(|device| format!("{} is `{}`", placed.shown(device), annotation(device).0))
        .collect();
    Ok(Export::new(text)
        .note("give the session the provider of the accelerator before CPUExecutionProvider")
        .note(called.join(", ")))
}

/// ONNX Runtime's name for any device other than the CPU, and the annotation of its nodes.
const ACCELERATOR: (&str, &str) = ("accelerator", "stagewright_accelerator");

/// ONNX Runtime's name for the CPU, and the annotation of its nodes.
const HOST: (&str, &str) = ("cpu", "stagewright_host");
