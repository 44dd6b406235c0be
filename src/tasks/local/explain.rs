//! `explain` of a local plan: what takes the time, what binds, and what a change would give.

use serde::Serialize;
use stagewright_core::document::{LocalMemoryDocument, LocalPlanDocument, LocalSettingDocument};
use stagewright_llamacpp::memory::MARGIN;
use stagewright_llamacpp::{Device, Machine, Setting};
use stagewright_local::{Question, solve};
use stagewright_report::grid::{Column, Grid};
use stagewright_report::local::{LocalTimes, speed};
use stagewright_report::units::{bytes, percent, seconds};
use stagewright_report::wrap::facts;
use stagewright_structure::Encoding;

use super::question::{Fixed, Local};
use super::{page, text};
use crate::code::U008;
use crate::failure::{Failure, Result};
use crate::tasks::{Explaining, Session, Shown, json};

const SCHEMA: &str = "stagewright.local-explanation/1";

/// Bytes that the first what-if of a memory adds.
const MORE: u64 = 1 << 30;

/// An explanation as JSON.
#[derive(Clone, Serialize)]
struct Document {
    schema: &'static str,
    value_s: f64,
    /// Seconds of a token by memory.
    parts: Vec<Part>,
    /// Seconds of a token for changes of device, and for weights on the host of layers that are on a device.
    crossings_s: f64,
    setting: LocalSettingDocument,
    what_ifs: Vec<WhatIf>,
}

/// Time and memory of one memory.
#[derive(Clone, Serialize)]
struct Part {
    name: String,
    /// Seconds of a token.
    token_s: f64,
    /// Bytes that are left beyond the margin.
    free_bytes: u64,
}

/// A change, and the value of the best plan under it.
#[derive(Clone, Serialize)]
struct WhatIf {
    change: String,
    value_s: Option<f64>,
}

/// Explains a plan.
///
/// # Errors
/// If the plan has no value (U008), or its line cannot be read (L007 to L009).
pub(super) fn explain(
    task: &Local,
    plan: LocalPlanDocument,
    label: &str,
    asked: Explaining<'_>,
    session: &mut Session<'_>,
) -> Result<Shown> {
    let Some(claimed) = &plan.setting else {
        let help = "`plan` says why there is none";
        return Err(Failure::new(U008, "the plan has no value to explain").at(label).help(help));
    };
    let (fixed, judged) = task.given_line(label, &claimed.flags)?;
    let own = task.planned(&plan.solver, &fixed, Some(&judged), plan.seconds);
    let (Some(value), Some(setting)) = (own.objective.value_s, own.setting.clone()) else {
        let help = "give the output of `llama-bench` on the machine with --costs";
        return Err(Failure::new(U008, "a device has no measured speed of prompts").at(label).help(help));
    };
    let times = page::of_plan(task, &fixed, &judged);
    let parts = parts(&setting, &times);
    let what_ifs = match asked.what_if {
        true => what_ifs(task, &fixed, &judged.setting, session),
        false => Vec::new(),
    };
    let document =
        Document { schema: SCHEMA, value_s: value, parts, crossings_s: times.ways, setting, what_ifs };
    let speed = speed(&own, &document.setting);
    Ok(Shown::new(json(&document)?, move |width| shown(&document, &speed, width)))
}

/// Seconds of a token by memory.
fn parts(shown: &LocalSettingDocument, times: &LocalTimes) -> Vec<Part> {
    let part = |memory: &LocalMemoryDocument, token_s| Part {
        name: memory.name.clone(),
        token_s,
        free_bytes: memory.memory.saturating_sub(memory.total()).saturating_sub(MARGIN),
    };
    let devices = shown.devices.iter().zip(&times.devices).map(|(memory, token_s)| part(memory, *token_s));
    std::iter::once(part(&shown.host, times.host)).chain(devices).collect()
}

/// Changes, each with the value of the best plan under it.
fn what_ifs(task: &Local, fixed: &Fixed, setting: &Setting, session: &mut Session<'_>) -> Vec<WhatIf> {
    let own = &task.machine;
    let mut found = Vec::new();
    let mut add = |change: String, machine: &Machine, fixed: &Fixed, micro_batches: &[u64]| {
        session.begin(format!("what if: {change}"));
        let question =
            Question { devices: &machine.devices, host: machine.host, micro_batches, ..task.question(fixed) };
        let mut context = session.context();
        // A change that the model does not allow, such as a cache whose rows are no whole blocks, is left out.
        if let Ok(solution) = solve(&task.label, &question, &mut context) {
            found.push(WhatIf { change, value_s: solution.plan.map(|plan| plan.seconds) });
        }
    };
    for (index, device) in own.devices.iter().enumerate() {
        let mut machine = own.clone();
        machine.devices[index].memory = device.memory.saturating_add(MORE);
        add(format!("1 GiB more on {}", device.name), &machine, fixed, &task.micro_batches);
    }
    if let Some((name, machine)) = another(own) {
        add(format!("another device like {name}"), &machine, fixed, &task.micro_batches);
    }
    let mut faster = own.clone();
    faster.host.bandwidth *= 2.0;
    add("RAM of twice the bandwidth".into(), &faster, fixed, &task.micro_batches);
    if let Some(cache) = Encoding::named("q8_0").filter(|cache| *cache != fixed.cache) {
        add("a cache of q8_0".into(), own, &Fixed { cache, ..fixed.clone() }, &task.micro_batches);
    }
    let lengths = task.lengths().saturating_mul(fixed.sequences);
    if fixed.context / 2 >= lengths.max(512) {
        let half = Fixed { context: fixed.context / 2, ..fixed.clone() };
        add(format!("a context of {}", half.context), own, &half, &task.micro_batches);
    }
    let larger = setting.micro_batch.saturating_mul(2);
    add(format!("micro-batches of {larger}"), own, fixed, &[larger]);
    found
}

/// The machine with one more device like the one with most memory.
fn another(machine: &Machine) -> Option<(String, Machine)> {
    let largest = machine.devices.iter().max_by_key(|device| device.memory)?;
    let prefix = largest.name.trim_end_matches(|character: char| character.is_ascii_digit());
    let name = format!("{prefix}{}", machine.devices.len());
    let mut more = machine.clone();
    more.devices.push(Device { name: name.clone(), buffer: name, ..largest.clone() });
    Some((largest.name.clone(), more))
}

fn shown(document: &Document, speed: &str, width: Option<u16>) -> String {
    let mut text = facts([("value", seconds(document.value_s)), ("speed", speed.to_owned())], width);
    text.push('\n');
    let mut grid = Grid::new([
        ("memory", Column::Words),
        ("of a token", Column::Figures),
        ("share", Column::Figures),
        ("free", Column::Figures),
    ]);
    let all = document.parts.iter().map(|part| part.token_s).sum::<f64>() + document.crossings_s;
    let share = |part: f64| if all > 0.0 { percent(part / all) } else { String::new() };
    for part in &document.parts {
        grid.row([
            part.name.clone(),
            seconds(part.token_s),
            share(part.token_s),
            bytes(part.free_bytes as f64),
        ]);
    }
    grid.row([
        "ways between".into(),
        seconds(document.crossings_s),
        share(document.crossings_s),
        String::new(),
    ]);
    text.push_str(&grid.text(width));
    text.push('\n');
    text.push_str(&text::picture(&document.setting));
    if !document.what_ifs.is_empty() {
        text.push('\n');
        let mut grid =
            Grid::new([("what if", Column::Words), ("value", Column::Figures), ("change", Column::Figures)]);
        for what_if in &document.what_ifs {
            let value = what_if.value_s.map_or_else(|| "no plan".into(), seconds);
            let change = what_if.value_s.map(|value| value / document.value_s - 1.0);
            let change = change.map_or_else(String::new, |change| format!("{:+.1}%", 100.0 * change));
            grid.row([what_if.change.clone(), value, change]);
        }
        text.push_str(&grid.text(width));
    }
    text
}
