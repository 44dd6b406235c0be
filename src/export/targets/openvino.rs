//! OpenVINO: the affinity of every operation, for the device `HETERO`.
//!
//! A Python module with the device of every operation by its friendly name, and a function that writes it
//! into the run-time information of a model under the key `affinity`, which is how affinities are set by
//! hand. They have to be set for all operations, and the importer leaves some out: parameters, constants and
//! what is computed from constants alone run with the first that reads them, results with what they read.
//!
//! Accelerators are `GPU.0`, `GPU.1`, …, those of kind `npu` are `NPU`, and the host is `CPU`.
//!
//! Source: "Heterogeneous Execution" in the documentation of OpenVINO 2025, "The Manual Mode", and "Inference
//! Devices and Modes" for the names of devices; run with OpenVINO 2026.4.1.

use crate::export::{Export, ExportError, Placed, Target, literal};

pub(super) static TARGET: Target = Target {
    name: "openvino",
    summary: "OpenVINO: affinities for HETERO, as a Python module",
    limits: "one CPU, one NPU; no replicas, one call a device; operations by the names of the imported model",
    write,
};

const APPLY: &str = r#"

def apply(model):
    """Writes the affinities into a model; compile it for DEVICE afterwards."""
    operations = model.get_ordered_ops()
    device = {op.get_friendly_name(): AFFINITY.get(op.get_friendly_name()) for op in operations}
    absent = AFFINITY.keys() - device.keys()
    if absent:
        raise ValueError(f"the model has no operation {min(absent)!r}")
    for op in reversed(operations):
        name = op.get_friendly_name()
        readers = [target.get_node() for output in op.outputs() for target in output.get_target_inputs()]
        if device[name] is None and readers:
            device[name] = device[readers[0].get_friendly_name()]
    for op in operations:
        name = op.get_friendly_name()
        sources = [value.get_source_output().get_node() for value in op.inputs()]
        if device[name] is None and sources:
            device[name] = device[sources[0].get_friendly_name()]
        if device[name] is None:
            raise ValueError(f"operation {name!r} is in no plan and has no neighbour in one")
        op.get_rt_info()["affinity"] = device[name]
    return model
"#;

fn write(placed: &Placed) -> Result<Export, ExportError> {
    placed.one_run_each("OpenVINO")?;
    let names = names(placed)?;
    let entries = placed
        .operators
        .iter()
        .map(|operator| literal::entry(operator.name, &literal::string(&names[operator.device])));
    let text = format!(
        "DEVICE = {}\nAFFINITY = {}\n{APPLY}",
        literal::string(&format!("HETERO:{}", priorities(&names).join(","))),
        literal::lines('{', entries, '}'),
    );
    let devices: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(device, name)| format!("{} is {name}", placed.shown(device)))
        .collect();
    Ok(Export::new(text).note(devices.join(", ")))
}

/// What OpenVINO calls each device.
fn names(placed: &Placed) -> Result<Vec<String>, ExportError> {
    let numbers = placed.numbers();
    let is_npu = |device: usize| placed.devices[device].document.kind.eq_ignore_ascii_case("npu");
    let mut gpus: Vec<usize> =
        (0..numbers.len()).filter(|&at| numbers[at].is_some() && !is_npu(at)).collect();
    gpus.sort_by_key(|&device| numbers[device]);
    let names: Vec<String> = (0..numbers.len())
        .map(|device| match gpus.iter().position(|&gpu| gpu == device) {
            Some(number) => format!("GPU.{number}"),
            None if placed.devices[device].host => "CPU".into(),
            None => "NPU".into(),
        })
        .collect();
    for (single, rule) in [("CPU", "OpenVINO has one, `CPU`"), ("NPU", "OpenVINO has one, `NPU`")] {
        let count = names.iter().filter(|name| *name == single).count();
        if count > 1 {
            return Err(ExportError::Devices { what: format!("{count} devices of type {single}"), rule });
        }
    }
    Ok(names)
}

/// The devices as HETERO is told of them, accelerators first.
fn priorities(names: &[String]) -> Vec<&str> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_by_key(|name| (*name == "CPU", name.len(), *name));
    sorted
}
