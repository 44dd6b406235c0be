//! OpenVINO: the affinity of every operation, for the `HETERO` device.
//!
//! The output is a Python module with the device of every operation by its friendly name, and a function that
//! writes it into the run-time information of a model under the key `affinity`, which is how affinities are set
//! by hand. They must be set for all operations, and the importer omits some: parameters, constants and
//! operations on constants alone run with their first reader, results with their producer. OpenVINO names the
//! producer of an output of an ONNX model after that output; it is found by the names of its tensors, or as the
//! only operation without a device. OpenVINO merges operations that only split a tensor, so one without a kernel
//! may be missing.
//!
//! Accelerators are `GPU.0`, `GPU.1`, …; those of kind `npu` are `NPU`, and the host is `CPU`.
//!
//! Source: "Heterogeneous Execution" in the documentation of OpenVINO 2025, "The Manual Mode", and "Inference
//! Devices and Modes" for the names of devices; run with OpenVINO 2026.4.1.

use std::collections::BTreeMap;

use crate::runtime::{Passes, Runtime, Schedules, Sharing, Trained};
use crate::{Export, ExportError, Placed, Result, Target, literal};

pub(super) static TARGET: Target = Target {
    name: "openvino",
    summary: "OpenVINO: affinities for HETERO, as a Python module",
    limits: "one CPU, one NPU; no replicas, one call per device; operations by the names of the imported model",
    write,
    runtime: Runtime {
        name: "OpenVINO",
        passes: Passes::Given,
        overlaps: false,
        sharing: Sharing {
            trained: Trained::Noted(
                "the plan synchronises its gradient, and OpenVINO has one copy, with the first reader",
            ),
            weight: "OpenVINO has one copy, with the first reader",
            constant: "OpenVINO has one copy, with the first reader",
        },
        schedules: Schedules::Own("OpenVINO runs one device after the other"),
    },
};

const APPLY: &str = r#"

def apply(model):
    """Writes the affinities into a model; compile it for DEVICE afterwards."""
    operations = model.get_ordered_ops()
    device = {op.get_friendly_name(): AFFINITY.get(op.get_friendly_name()) for op in operations}
    # OpenVINO names what makes an output of an ONNX model after the output, not after the node.
    absent = [name for name in AFFINITY if name not in device]
    made = {name: op for op in operations for value in op.outputs() for name in value.get_names()}
    ends = [result.input_value(0).get_node().get_friendly_name() for result in model.get_results()]
    ends = [name for name in dict.fromkeys(ends) if device[name] is None]
    for name in absent:
        op = next((made[tensor] for tensor in TENSORS.get(name, []) if tensor in made), None)
        found = op.get_friendly_name() if op else ends[0] if len(absent) == len(ends) == 1 else None
        if found is None and name in FREE:
            continue
        if found is None:
            raise ValueError(f"the model has no operation {name!r}, and which output it makes is not known")
        device[found] = AFFINITY[name]
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

fn write(placed: &Placed) -> Result<Export> {
    placed.one_run_each("OpenVINO")?;
    let names = names(placed)?;
    let entries = placed
        .operators
        .iter()
        .map(|operator| literal::entry(operator.name, &literal::string(&names[operator.device])));
    let free = placed
        .operators
        .iter()
        .filter(|operator| operator.is_free())
        .map(|operator| literal::string(operator.name));
    let text = format!(
        "DEVICE = {}\nAFFINITY = {}\nTENSORS = {}\nFREE = {}\n{APPLY}",
        literal::string(&format!("HETERO:{}", priorities(&names).join(","))),
        literal::lines('{', entries, '}'),
        literal::lines('{', tensors(placed), '}'),
        literal::lines('[', free, ']'),
    );
    let devices: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(device, name)| format!("{} is {name}", placed.shown(device)))
        .collect();
    Ok(Export::new(text).note(devices.join(", ")))
}

/// The named tensors by producer; empty without the model.
fn tensors(placed: &Placed) -> Vec<String> {
    let mut made: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for tensor in placed.graph.map_or(&[][..], |graph| &graph.document().tensors) {
        if let Some(name) = &tensor.name {
            made.entry(&tensor.producer).or_default().push(literal::string(name));
        }
    }
    made.into_iter().map(|(operator, names)| literal::entry(operator, &literal::list(names))).collect()
}

/// OpenVINO's name for each device.
fn names(placed: &Placed) -> Result<Vec<String>> {
    let numbers = placed.numbers();
    let is_npu = |device: usize| placed.devices[device].document.kind.eq_ignore_ascii_case("npu");
    let mut gpus: Vec<usize> =
        (0..numbers.len()).filter(|&index| numbers[index].is_some() && !is_npu(index)).collect();
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

/// The device priorities for HETERO, accelerators first.
fn priorities(names: &[String]) -> Vec<&str> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_by_key(|name| (*name == "CPU", name.len(), *name));
    sorted
}
