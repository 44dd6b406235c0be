//! The summary of a step, for people.

use comfy_table::Cell;
use stagewright_core::simulate::Activity;
use stagewright_core::tolerance;

use super::{CriticalPath, Part, PathStep, Step};
use crate::report::table::{finish, header, plain, right, share};
use crate::report::units::{bytes, name, percent, seconds};

/// Activities of the critical path that are shown.
const SHOWN: usize = 5;

/// A step: what its makespan consists of, its devices and uplinks, and the longest activities of its critical
/// path.
pub fn step(step: &Step) -> String {
    let path = step.critical_path();
    let mut text =
        header(&[("makespan", seconds(step.makespan())), ("critical path", parts(&path, step.makespan()))]);
    let tables = [devices(step), uplinks(step), longest(step, &path)];
    for table in tables.into_iter().flatten() {
        text.push('\n');
        text.push_str(&table);
    }
    text
}

fn parts(path: &CriticalPath, makespan: f64) -> String {
    let part = |part: Part| {
        let took = path.seconds(part);
        format!("{} {}", percent(share(took, makespan)), meaning(part))
    };
    Part::ALL.map(part).join(", ")
}

/// What a part of the critical path is spent with.
fn meaning(part: Part) -> &'static str {
    match part {
        Part::Compute => "compute",
        Part::Transfer => "transfers",
        Part::Device => "waiting for a device",
        Part::Port => "waiting for a link",
    }
}

/// What an activity of a part does for the path.
fn role(part: Part) -> &'static str {
    match part {
        Part::Compute => "compute",
        Part::Transfer => "transfer",
        Part::Device => "kept its device busy",
        Part::Port => "kept a link busy",
    }
}

fn devices(step: &Step) -> Option<String> {
    let figures = step.devices();
    let names =
        ["device", "compute", "utilisation", "sent", "received", "idle", "peak memory", "of", "ops", ""];
    let mut table = plain(&names);
    for device in &figures {
        let fits = device.memory_bytes.is_none_or(|limit| tolerance::fits(device.peak_bytes, limit));
        table.add_row(vec![
            Cell::new(name(&device.name)),
            right(seconds(device.compute)),
            right(percent(device.utilisation)),
            right(seconds(device.sent)),
            right(seconds(device.received)),
            right(seconds(device.idle)),
            right(bytes(device.peak_bytes)),
            right(device.memory_bytes.map_or_else(|| "unlimited".into(), bytes)),
            right(device.operators.to_string()),
            Cell::new(if fits { "" } else { "does not fit" }),
        ]);
    }
    (!figures.is_empty()).then(|| finish(&table))
}

fn uplinks(step: &Step) -> Option<String> {
    let figures = step.uplinks();
    let mut table = plain(&["uplink of group", "carries", "utilisation"]);
    for uplink in &figures {
        table.add_row(vec![
            Cell::new(name(&uplink.group)),
            right(seconds(uplink.busy)),
            right(percent(uplink.utilisation)),
        ]);
    }
    (!figures.is_empty()).then(|| finish(&table))
}

fn longest(step: &Step, path: &CriticalPath) -> Option<String> {
    let mut table = plain(&["longest on the path", "where", "time", "share", "as"]);
    let longest: Vec<PathStep> =
        path.longest(SHOWN).into_iter().filter(|stretch| stretch.seconds() > 0.0).collect();
    for stretch in &longest {
        let device = |device| name(&step.problem.cluster().device_name(device));
        let (what, place) = match stretch.activity {
            Activity::Operator(op) => (name(step.operator(op)), device(step.device_of(op))),
            Activity::Transfer(at) => (name(&step.tensor(at)), step.ends_of(at).map(device).join(" to ")),
        };
        table.add_row(vec![
            Cell::new(what),
            Cell::new(place),
            right(seconds(stretch.seconds())),
            right(percent(share(stretch.seconds(), step.makespan()))),
            Cell::new(role(stretch.part)),
        ]);
    }
    (!longest.is_empty()).then(|| finish(&table))
}
