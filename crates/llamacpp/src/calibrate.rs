//! A machine whose speeds follow from runs of `llama-bench` on it.
//!
//! The formula of [`speed`](crate::speed) is a sum over devices and the processor, with one unknown factor each:
//!
//! ```text
//! measured = fixed + Σ factor · estimate
//! ```
//!
//! A run on one device alone gives its factor, the geometric mean over such runs; a run with weights on the host then gives
//! that of the host, and so on, from runs with one unknown part to those with several, which share a factor. Parts below
//! [`SMALLEST_PART`] of a run count as estimated. Factors of prompts are found in the same way, after those of tokens.

use std::fmt::Write;

use stagewright_core::ids::Keyed;
use stagewright_structure::Structure;

use crate::bench::Run;
use crate::device::{DeviceId, Host};
use crate::machine::Machine;
use crate::place::{Placement, place};
use crate::setting::Setting;
use crate::speed::{Reads, Work, decode, prefill};

/// Share of a run's time from which a part of it can be calibrated by the run.
pub const SMALLEST_PART: f64 = 0.1;

/// Largest factor, and the inverse of the smallest, that is believed.
pub const LARGEST_FACTOR: f64 = 4.0;

/// Relative difference of bytes up to which a run is of a model: a table in Markdown rounds them.
const SAME_SIZE: f64 = 0.02;

/// The machine with speeds from runs of a model, and notes: the factor of each part with its runs, and runs that were not used.
///
/// Factors of decoding change efficiency and overheads of a device or of the host; factors of prompts the share of the peak
/// that products reach. Parts without a run stay as they are.
pub fn calibrate(structure: &Structure, machine: &Machine, runs: &[Run]) -> (Machine, Vec<String>) {
    let mut machine = machine.clone();
    let mut notes = Vec::new();
    let mut usable = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        match setting(structure, &machine, run) {
            Ok(setting) => usable.push((index, run, setting)),
            Err(reason) => notes.push(unused(index, run, &reason)),
        }
    }
    let (prompts, tokens): (Vec<_>, Vec<_>) = usable.into_iter().partition(|(_, run, _)| run.prompt > 0);
    let observed =
        tokens.iter().map(|(index, run, setting)| decoded(structure, &machine, *index, run, setting));
    let factors = solve(observed.collect(), runs, "tokens", &names(&machine), &mut notes);
    for (device, factor) in machine.devices.iter_mut().zip(&factors) {
        device.rates.efficiency /= factor;
        device.rates.layer *= factor;
        device.rates.expert_layer *= factor;
    }
    if let Some(factor) = factors.last() {
        machine.host.efficiency /= factor;
        machine.host.layer *= factor;
    }
    let mut observed = Vec::new();
    for (index, run, mut setting) in prompts {
        // Decoding has changed the rates of the machine.
        for device in setting.devices.iter_mut() {
            if let Some(own) = machine.devices.iter().find(|own| own.name == device.name) {
                *device = own.clone();
            }
        }
        match read_prompt(structure, &machine, index, run, &setting) {
            Some(observation) => observed.push(observation),
            None => notes.push(unused(index, run, "prompts on such a device have no estimate")),
        }
    }
    let factors = solve(observed, runs, "prompts", &names(&machine), &mut notes);
    for (device, factor) in machine.devices.iter_mut().zip(&factors) {
        device.rates.products = device.rates.products.map(|share| share / factor);
        device.rates.expert_products = device.rates.expert_products.map(|share| share / factor);
    }
    (machine, notes)
}

fn unused(index: usize, run: &Run, reason: &str) -> String {
    format!("run {} ({}) is not used: {reason}", index + 1, title(run))
}

/// Tests of a run, for notes.
fn title(run: &Run) -> String {
    let mut title = String::new();
    for (kind, tokens) in [("pp", run.prompt), ("tg", run.generated), ("d", run.depth)] {
        if tokens > 0 {
            let _ = write!(title, "{}{kind}{tokens}", if title.is_empty() { "" } else { " " });
        }
    }
    title
}

/// Names of the parts of a machine: devices, then the host.
fn names(machine: &Machine) -> Vec<&str> {
    machine.devices.iter().map(|device| device.name.as_str()).chain(["the host"]).collect()
}

/// Backends without a device beside the processor.
const OF_HOST: [&str; 4] = ["CPU", "BLAS", "ZenDNN", "AMX"];

/// The setting of a run on a machine, or the reason that it cannot be used.
fn setting(structure: &Structure, machine: &Machine, run: &Run) -> Result<Setting, String> {
    let expected = structure.weight_bytes() as f64;
    if (run.size / expected - 1.0).abs() > SAME_SIZE {
        return Err(format!("its model has {:.3e} bytes, this one {expected:.3e}", run.size));
    }
    if run.prompt > 0 && run.generated > 0 {
        return Err("it measures a prompt and tokens together".into());
    }
    if run.prompt > 0 && run.depth > 0 {
        return Err("prompts after earlier tokens have no estimate".into());
    }
    let is_divided = run.split_mode == "none" && machine.devices.len() > 1 && run.devices.len() != 1;
    if !matches!(run.split_mode.as_str(), "layer" | "none") || is_divided {
        return Err(format!("`--split-mode {}` is not followed", run.split_mode));
    }
    let backends: Vec<&str> =
        run.backends.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let others: Vec<&str> = backends.iter().copied().filter(|name| !OF_HOST.contains(name)).collect();
    let is_here = |name: &str| {
        let name = if name == "Metal" { "MTL" } else { name };
        machine.devices.iter().any(|device| device.name.starts_with(name))
    };
    if let Some(other) = others.iter().find(|name| !is_here(name)) {
        return Err(format!("the machine has no device of the backend {other}"));
    }
    let on_host = others.is_empty() && !backends.is_empty();
    let line = line(run, on_host)?;
    Setting::parse("llama-bench", &line, &machine.devices).map_err(|error| error.message)
}

/// The options of a run, as `llama-server` takes them.
fn line(run: &Run, on_host: bool) -> Result<String, String> {
    let mut words =
        vec![format!("-b {} -ub {} -ctk {} -ctv {}", run.batch, run.micro_batch, run.keys, run.values)];
    if !run.devices.is_empty() {
        words.push(format!("-dev {}", run.devices.join(",")));
    }
    match run.layers {
        _ if on_host => words.push("-ngl 0".into()),
        Some(layers) => words.push(format!("-ngl {layers}")),
        None => {}
    }
    if run.shares.iter().any(|&share| share > 0.0) {
        let shares: Vec<String> = run.shares.iter().map(f64::to_string).collect();
        words.push(format!("-ts {}", shares.join(",")));
    }
    if run.expert_layers > 0 {
        words.push(format!("-ncmoe {}", run.expert_layers));
    }
    if run.overrides.contains('\'') || run.overrides.contains(',') {
        return Err("its overrides cannot be written as an option".into());
    }
    if !run.overrides.is_empty() {
        words.push(format!("-ot '{}'", run.overrides.replace(';', ",")));
    }
    if !run.cache_on_devices {
        words.push("-nkvo".into());
    }
    Ok(words.join(" "))
}

/// Seconds of a run, and those that are estimated for its parts: the devices of the machine, then the host.
struct Observation {
    index: usize,
    measured: f64,
    fixed: f64,
    parts: Vec<f64>,
}

/// Parts of a machine from those of a setting's devices, which may be fewer and in another order.
fn parts(machine: &Machine, setting: &Setting, seconds: impl Fn(DeviceId) -> f64, host: f64) -> Vec<f64> {
    let part = |name: &str| {
        let id = setting.devices.ids().find(|&id| setting.devices[id].name == name);
        id.map_or(0.0, &seconds)
    };
    machine.devices.iter().map(|device| part(&device.name)).chain([host]).collect()
}

/// A run of decoding: seconds a token, in the middle of those that it generated.
fn decoded(
    structure: &Structure,
    machine: &Machine,
    index: usize,
    run: &Run,
    setting: &Setting,
) -> Observation {
    let placement = place(structure, setting);
    let work = Work::of(structure, setting, &placement, run.depth + run.generated / 2);
    let idle = || Work { devices: Keyed::filled(Reads::default(), setting.devices.len()), ..Work::default() };
    let seconds = |work: &Work| decode(work, setting, machine.host);
    let of_device = |id: DeviceId| {
        let mut own = idle();
        own.devices[id] = work.devices[id];
        seconds(&own)
    };
    let host = seconds(&Work { host: work.host, ..idle() });
    let fixed = seconds(&Work { hops: work.hops, crossings: work.crossings, ..idle() });
    Observation { index, measured: 1.0 / run.speed, fixed, parts: parts(machine, setting, of_device, host) }
}

/// A run of a prompt: seconds of all of it. Copies and reads of the processor are fixed.
fn read_prompt(
    structure: &Structure,
    machine: &Machine,
    index: usize,
    run: &Run,
    setting: &Setting,
) -> Option<Observation> {
    let placement = place(structure, setting);
    let only =
        |kept: Option<DeviceId>| seconds_of(structure, setting, &placement, machine.host, run.prompt, kept);
    let fixed = only(None)?;
    let ids = setting.devices.ids();
    ids.map(|id| only(Some(id))).collect::<Option<Vec<f64>>>()?;
    let of_device = |id: DeviceId| only(Some(id)).map_or(0.0, |seconds| seconds - fixed);
    let parts = parts(machine, setting, of_device, 0.0);
    let is_estimated = parts.iter().any(|&part| part > 0.0);
    is_estimated.then_some(Observation { index, measured: run.prompt as f64 / run.speed, fixed, parts })
}

/// Seconds of a prompt if only the products of one device, or none, take time.
fn seconds_of(
    structure: &Structure,
    setting: &Setting,
    placement: &Placement,
    host: Host,
    tokens: u64,
    kept: Option<DeviceId>,
) -> Option<f64> {
    let mut setting = setting.clone();
    let ids: Vec<DeviceId> = setting.devices.ids().filter(|&id| kept != Some(id)).collect();
    for id in ids {
        let rates = &mut setting.devices[id].rates;
        rates.products = rates.products.map(|_| f64::INFINITY);
        rates.expert_products = rates.expert_products.map(|_| f64::INFINITY);
    }
    prefill(structure, &setting, placement, host, tokens)
}

/// Factors of all parts, 1 for those without a run.
fn solve(
    mut left: Vec<Observation>,
    runs: &[Run],
    what: &str,
    names: &[&str],
    notes: &mut Vec<String>,
) -> Vec<f64> {
    let mut factors: Vec<Option<f64>> = vec![None; names.len()];
    while let Some(unknown) =
        left.iter().map(|run| unknown(run, &factors)).min_by_key(|set| (set.len(), set.clone()))
    {
        let (group, rest): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|run| self::unknown(run, &factors) == unknown);
        left = rest;
        let mut logs = Vec::new();
        let mut used = Vec::new();
        for run in group {
            let known = |(index, part): (usize, &f64)| {
                if unknown.contains(&index) { 0.0 } else { part * factors[index].unwrap_or(1.0) }
            };
            let known: f64 = run.fixed + run.parts.iter().enumerate().map(known).sum::<f64>();
            let parts: f64 = unknown.iter().map(|&index| run.parts[index]).sum();
            let factor = (run.measured - known) / parts;
            let is_believed = (1.0 / LARGEST_FACTOR..=LARGEST_FACTOR).contains(&factor);
            let number = run.index + 1;
            if unknown.is_empty() {
                let error = 100.0 * (known / run.measured - 1.0);
                notes.push(format!(
                    "run {number} ({}) is estimated with an error of {error:+.1}%",
                    title(&runs[run.index])
                ));
            } else if is_believed {
                logs.push(factor.ln());
                used.push(number.to_string());
            } else {
                let reason = format!("it would make {what} take {factor:.2} times as long as estimated");
                notes.push(unused(run.index, &runs[run.index], &reason));
            }
        }
        if !logs.is_empty() {
            let factor = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            let parts: Vec<&str> = unknown.iter().map(|&index| names[index]).collect();
            let (parts, used) = (parts.join(" and "), used.join(", "));
            notes.push(format!("{parts}: {what} take {factor:.3} times as long as estimated, by run {used}"));
            unknown.iter().for_each(|&index| factors[index] = Some(factor));
        }
    }
    factors.into_iter().map(|factor| factor.unwrap_or(1.0)).collect()
}

/// Parts of a run that matter and have no factor yet, in the order of the machine.
fn unknown(run: &Observation, factors: &[Option<f64>]) -> Vec<usize> {
    let total = run.fixed + run.parts.iter().sum::<f64>();
    let matters = |&index: &usize| factors[index].is_none() && run.parts[index] > SMALLEST_PART * total;
    (0..factors.len()).filter(matters).collect()
}
