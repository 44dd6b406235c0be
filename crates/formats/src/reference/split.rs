//! Splits of the reference package: the node ids on each device.
//!
//! ```json
//! { "cpus": [{"load": 0.0, "nodes": [2, 3]}], "fpgas": [{"load": 14.2, "nodes": [0]}, {"nodes": [1]}],
//!   "maxLoad": -1 }
//! ```
//!
//! Loads are ignored: the package itself does so, and splits made by hand have −1. Devices are numbered in
//! the order of the lists, `acc0`, `acc1`, … and `cpu0`, …; a device without nodes keeps its number and is
//! left out.
//!
//! A split of a training graph may list forward nodes alone. An omitted node is placed with the other nodes
//! of its colour class, as written in the model: absorption makes classes larger, which could turn a clear
//! case into an ambiguous one.

use std::collections::BTreeMap;

use serde::Deserialize;
use stagewright_core::document::{DeviceDocument, GraphDocument, PlanDocument};

use super::check::list;
use super::{ACCELERATOR, HOST};
use crate::code::S::*;
use crate::error::{At, InputError, Result};
use crate::notation::Notation;
use crate::text::Sniff;
use crate::{Imported, ReferenceIds, unevaluated};

#[derive(Debug, Deserialize)]
struct SplitFile {
    #[serde(default)]
    fpgas: Vec<Machine>,
    #[serde(default)]
    cpus: Vec<Machine>,
}

#[derive(Debug, Deserialize)]
struct Machine {
    nodes: Vec<i64>,
}

/// Whether a text is a split rather than a native plan.
pub(crate) fn detect(json: &Sniff) -> bool {
    json.schema.is_none() && (json.has("fpgas") || json.has("cpus"))
}

/// Reads a split as a plan for the model without evaluating it: status unknown, no value, no bound, and zeros
/// for the figures of the devices.
pub(crate) fn import(label: &str, text: &str, model: &Imported) -> Result<PlanDocument> {
    let file: SplitFile = Notation::Json.read(label, text)?;
    let Some(ids) = &model.ids else {
        let help = "give the model in the reference format that the split was made for, or a native plan";
        let message = "the split lists node ids, but the model has none";
        return Err(InputError::new(S006, label, At::Whole, message, help));
    };
    let lists = [("fpgas", ACCELERATOR, &file.fpgas), ("cpus", HOST, &file.cpus)];
    let mut devices: Vec<(&str, usize)> = Vec::new();
    let mut device_of: Vec<Option<usize>> = vec![None; model.graph.operators.len()];
    let mut place_of: BTreeMap<i64, String> = BTreeMap::new();
    for (field, kind, machines) in lists {
        let count = count(&model.graph, kind);
        for (number, machine) in machines.iter().enumerate().filter(|(_, machine)| !machine.nodes.is_empty())
        {
            if number >= count {
                let message =
                    format!("there is no {kind}{number}: the model's cluster has {count} of that kind");
                let help = "give a split for this cluster, or leave devices without nodes empty";
                return Err(InputError::at_path(S003, label, format!("{field}[{number}]"), message, help));
            }
            for (i, &id) in machine.nodes.iter().enumerate() {
                let path = format!("{field}[{number}].nodes[{i}]");
                let Some(&operator) = ids.by_id.get(&id) else {
                    let message = format!("the model has no node with the id {id}");
                    return Err(InputError::at_path(
                        S001,
                        label,
                        path,
                        message,
                        "give the split of this model",
                    ));
                };
                if let Some(before) = place_of.get(&id) {
                    let message = format!("the node {id} is already at {before}");
                    return Err(InputError::at_path(S002, label, path, message, "keep one of the two"));
                }
                device_of[operator] = Some(devices.len());
                place_of.insert(id, path);
            }
            devices.push((kind, number));
        }
    }
    extend(label, ids, &mut device_of, &devices)?;
    Ok(plan(&model.graph, &devices, &device_of))
}

/// Number of devices of a kind in the model's cluster, which the importer of the format always writes.
fn count(graph: &GraphDocument, kind: &str) -> usize {
    let kinds = graph.cluster.iter().flat_map(|cluster| &cluster.kinds);
    kinds.filter(|k| k.name == kind).map(|k| k.count as usize).sum()
}

/// Places every omitted node on the device of its colour class.
fn extend(
    label: &str,
    ids: &ReferenceIds,
    device_of: &mut [Option<usize>],
    devices: &[(&str, usize)],
) -> Result<()> {
    let mut devices_of_color: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (&device, &color) in device_of.iter().zip(&ids.colors) {
        if let (Some(device), Some(color)) = (device, color) {
            let of_color = devices_of_color.entry(color).or_default();
            if !of_color.contains(&device) {
                of_color.push(device);
            }
        }
    }
    let mut stranded = Vec::new();
    for (&id, &operator) in &ids.by_id {
        if device_of[operator].is_some() {
            continue;
        }
        let color = ids.colors.get(operator).copied().flatten();
        match color.and_then(|color| devices_of_color.get(&color)).map(Vec::as_slice) {
            None | Some([]) => stranded.push(id),
            Some([device]) => device_of[operator] = Some(*device),
            Some([first, second, ..]) => {
                let name = |device: usize| format!("{}{}", devices[device].0, devices[device].1);
                let message = format!(
                    "the node {id} is omitted, but its colour class {} is on both {} and {}",
                    color.unwrap_or_default(),
                    name(*first),
                    name(*second)
                );
                let help = "list the node, or keep its colour class on one device";
                return Err(InputError::new(S005, label, At::Whole, message, help));
            }
        }
    }
    if stranded.is_empty() {
        return Ok(());
    }
    let message =
        format!("nodes are not placed, nor is any node of their colour classes: {}", list(&stranded));
    let help = "list them; only nodes with a placed node in their colour class may be omitted";
    Err(InputError::new(S004, label, At::Whole, message, help))
}

fn plan(graph: &GraphDocument, devices: &[(&str, usize)], device_of: &[Option<usize>]) -> PlanDocument {
    let mut documents: Vec<DeviceDocument> = devices
        .iter()
        .map(|(kind, number)| unevaluated::device(format!("{kind}{number}"), (*kind).to_owned()))
        .collect();
    for (operator, device) in graph.operators.iter().zip(device_of) {
        if let Some(device) = device {
            documents[*device].ops.push(operator.name.clone());
        }
    }
    unevaluated::plan(documents)
}
