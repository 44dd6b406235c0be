//! Usage notes that several targets give.

use stagewright_core::text::visible;
use stagewright_core::units::{bytes, seconds};

use super::plan::Local;
use crate::Export;

/// A text with the notes that hold for every program: version, devices, memory, time.
///
/// `version` is the program with the version that its notation is from.
pub(super) fn noted(plan: &Local, text: String, version: &str) -> Export {
    let export = Export::new(text).note(format!("for {version}")).also(devices(plan)).note(memory(plan));
    export.also(ram(plan)).also(speed(plan)).also(file(plan))
}

/// The devices by name and kind, in their order.
fn devices(plan: &Local) -> Option<String> {
    let devices = plan.setting.devices.iter();
    let shown: Vec<String> =
        devices.map(|device| format!("{} is {}", visible(&device.name), visible(&device.kind))).collect();
    (!shown.is_empty()).then(|| format!("{}: compare with `llama-server --list-devices`", shown.join(", ")))
}

/// Memory of the plan on each device and in RAM, with the least margin.
fn memory(plan: &Local) -> String {
    let parts = plan.setting.devices.iter().chain([&plan.setting.host]);
    let (mut shown, mut least) = (Vec::new(), (f64::INFINITY, String::new()));
    for part in parts {
        let name = if std::ptr::eq(part, &plan.setting.host) { "RAM".into() } else { visible(&part.name) };
        let (total, free) = (part.total() as f64, part.memory as f64);
        shown.push(format!("{} of {} on {name}", bytes(total), bytes(free)));
        if free - total < least.0 {
            least = (free - total, name.into_owned());
        }
    }
    let (margin, place) = least;
    let margin = match margin < 0.0 {
        true => format!("{place} lacks {}", bytes(-margin)),
        false => format!("the least margin is {}, on {place}", bytes(margin)),
    };
    format!("memory: {}; {margin}", shown.join(", "))
}

/// RAM for weights that are mapped from the file.
fn ram(plan: &Local) -> Option<String> {
    let weights = plan.setting.host.weights;
    (plan.line.mmap && weights > 0).then(|| {
        format!(
            "{} of weights are mapped from the file: RAM must hold them, or the disk sets the speed",
            bytes(weights as f64)
        )
    })
}

/// The predicted times.
fn speed(plan: &Local) -> Option<String> {
    let token = plan.setting.token_s.filter(|seconds| *seconds > 0.0);
    let token = token.map(|seconds| format!("{:.1} tokens/s", 1.0 / seconds));
    let prompt = plan.setting.prompt_s.zip(plan.document.objective.prompt);
    let prompt = prompt.map(|(time, tokens)| format!("a prompt of {tokens} tokens in {}", seconds(time)));
    let parts: Vec<String> = token.into_iter().chain(prompt).collect();
    (!parts.is_empty()).then(|| format!("predicted for llama.cpp: {}", parts.join(", ")))
}

/// The model that the placeholder stands for.
fn file(plan: &Local) -> Option<String> {
    let name = plan.document.model.as_str();
    (plan.model() != name).then(|| format!("put the file of `{}` for {}", visible(name), plan.model()))
}

/// Servers that the line needs, if it has devices of any and does not name them.
pub(super) fn servers(plan: &Local, line: &str) -> Option<String> {
    (plan.is_remote() && !line.contains(" --rpc "))
        .then(|| "put `--rpc HOST:PORT,…` with the servers before the other options".to_owned())
}
