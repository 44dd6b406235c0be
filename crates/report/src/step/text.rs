//! Text summary of a step.

use stagewright_core::simulate::Activity;

use super::{CriticalPath, Part, Step};
use crate::grid::{Column, Grid};
use crate::table::share;
use crate::units::{bytes, name, percent, seconds};
use crate::wrap::facts;

/// Number of activities of the critical path that are shown.
const SHOWN: usize = 5;

/// Formats a step for a terminal of `width` characters: the breakdown of its makespan, its devices and uplinks, and
/// the longest activities of its critical path.
pub fn step(step: &Step, width: Option<u16>) -> String {
    let path = step.critical_path();
    let lines = [("makespan", seconds(step.makespan())), ("critical path", parts(&path, step.makespan()))];
    let mut text = facts(lines, width);
    let grids = [devices(step), uplinks(step), longest(step, &path)];
    for grid in grids.iter().filter(|grid| !grid.is_empty()) {
        text.push('\n');
        text.push_str(&grid.text(width));
    }
    text
}

/// Breakdown of a makespan in words.
pub(crate) fn parts(path: &CriticalPath, makespan: f64) -> String {
    let part = |part: Part| {
        let took = path.seconds(part);
        format!("{} {}", percent(share(took, makespan)), meaning(part))
    };
    let mut parts = Part::ALL.map(part).to_vec();
    if path.synchronisation > 0.0 {
        parts.push(format!("{} synchronising gradients", percent(share(path.synchronisation, makespan))));
    }
    parts.join(", ")
}

/// Description of a part in the breakdown of the makespan.
fn meaning(part: Part) -> &'static str {
    match part {
        Part::Compute => "compute",
        Part::Transfer => "transfers",
        Part::Device => "waiting for a device",
        Part::Port => "waiting for a link",
    }
}

/// Role of an activity of a part on the path.
fn role(part: Part) -> &'static str {
    match part {
        Part::Compute => "compute",
        Part::Transfer => "transfer",
        Part::Device => "kept its device busy",
        Part::Port => "kept a link busy",
    }
}

fn devices(step: &Step) -> Grid {
    let mut grid = Grid::of(&[
        (Column::Names, &["device"]),
        (
            Column::Figures,
            &["compute", "utilisation", "sent", "received", "idle", "peak memory", "of", "ops"],
        ),
        (Column::Words, &[""]),
    ]);
    for device in step.devices() {
        grid.row([
            name(&device.name),
            seconds(device.compute),
            percent(device.utilisation),
            seconds(device.sent),
            seconds(device.received),
            seconds(device.idle),
            bytes(device.peak_bytes),
            device.memory_bytes.map_or_else(|| "unlimited".into(), bytes),
            device.operators.to_string(),
            if device.fits { String::new() } else { "does not fit".into() },
        ]);
    }
    grid
}

fn uplinks(step: &Step) -> Grid {
    let mut grid =
        Grid::of(&[(Column::Names, &["uplink of group"]), (Column::Figures, &["carries", "utilisation"])]);
    for uplink in step.uplinks() {
        grid.row([name(&uplink.group), seconds(uplink.busy), percent(uplink.utilisation)]);
    }
    grid
}

fn longest(step: &Step, path: &CriticalPath) -> Grid {
    let mut grid = Grid::of(&[
        (Column::Names, &["longest on the path", "where"]),
        (Column::Figures, &["time", "share"]),
        (Column::Words, &["as"]),
    ]);
    for stretch in path.longest(SHOWN).into_iter().filter(|stretch| stretch.seconds() > 0.0) {
        let device = |device| name(&step.problem.cluster().device_name(device));
        let (what, place) = match stretch.activity {
            Activity::Operator(op) => (name(step.operator(op)), device(step.device_of(op))),
            Activity::Transfer(number) => {
                (name(&step.tensor(number)), step.ends_of(number).map(device).join(" to "))
            }
        };
        grid.row([
            what,
            place,
            seconds(stretch.seconds()),
            percent(share(stretch.seconds(), step.makespan())),
            role(stretch.part).into(),
        ]);
    }
    grid
}
