//! What people use instead of a search, for comparison: defaults, the tool's own rule, and rules by hand.
//!
//! A rule proposes a setting and minimises no time. Whether its setting fits, and how fast it is, [`Plan::of`](crate::Plan::of)
//! says. All take the devices in the order of the question, except the rule of exo, which sorts them.
//!
//! `exo` is the ring of exo 0.0.15 (`RingMemoryWeightedPartitioningStrategy` and `map_partitions_to_shards`); `fit` is that of
//! `common/fit.cpp` of llama.cpp 0c1e57098, in the module `fit`.

use stagewright_formats::Result;
use stagewright_llamacpp::memory::Memory;
use stagewright_llamacpp::place::slot_count;
use stagewright_llamacpp::{Device, Override, Setting, place};

use crate::fit::fit;
use crate::question::Question;

/// Micro-batch of llama.cpp unless a line says otherwise.
const MICRO_BATCH: u64 = 512;

/// Digits after the point to which exo rounds the ends of parts.
const EXO_DIGITS: f64 = 1e5;

/// Bytes in a GiB.
const GIB: f64 = (1_u64 << 30) as f64;

/// A rule by which people choose a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Name of the rule.
    pub name: &'static str,
    /// Description of the choice, without a full stop.
    pub summary: &'static str,
}

/// The rules, in the order in which tables have them.
pub const RULES: &[Rule] = &[
    Rule {
        name: "llama.cpp",
        summary: "the default without --fit: all layers on all devices, in proportion to free memory",
    },
    Rule {
        name: "fit",
        summary: "llama.cpp's --fit: dense layers from the last device, then experts from the first, 1 GiB free",
    },
    Rule {
        name: "n-cpu-moe",
        summary: "by hand: the smallest --n-cpu-moe that fits, or the largest -ngl of a dense model",
    },
    Rule { name: "memory", summary: "layers in proportion to memory, the largest -ngl that fits" },
    Rule { name: "bandwidth", summary: "layers in proportion to bandwidth, the largest -ngl that fits" },
    Rule { name: "exo", summary: "exo's ring: devices by decreasing memory, all layers in proportion to it" },
];

/// The setting that a rule of [`RULES`] proposes; `None` if it finds none that fits, or if no rule has the name. The defaults
/// and exo propose a setting whether it fits or not. `label` names the model in errors.
///
/// # Errors
/// If the memory of the model is not followed (L007, L009).
pub fn rule(label: &str, question: &Question<'_>, name: &str) -> Result<Option<Setting>> {
    let setting = default(question, question.devices);
    let shares = |share: fn(&Device) -> f64| {
        let shares = question.devices.iter().map(|device| share(device) as f32);
        Setting { shares: shares.collect(), ..setting.clone() }
    };
    match name {
        "llama.cpp" => Ok(Some(setting)),
        "fit" => fit(label, question, setting),
        "n-cpu-moe" => fewest_experts(label, question, setting),
        "memory" => most_layers(label, question, shares(|device| device.memory as f64 / GIB)),
        "bandwidth" => most_layers(label, question, shares(|device| device.bandwidth / 1e9)),
        "exo" => Ok(Some(ring(question))),
        _ => Ok(None),
    }
}

/// The default of llama.cpp on devices, with its micro-batch if that is among those of the question.
fn default(question: &Question<'_>, devices: &[Device]) -> Setting {
    let usual = question.micro_batches.iter().find(|&&micro_batch| micro_batch == MICRO_BATCH);
    let micro_batch = usual.or(question.micro_batches.first()).copied().unwrap_or(MICRO_BATCH);
    question.setting(devices.to_vec(), micro_batch)
}

/// Whether every memory holds what a setting puts there.
fn fits(label: &str, question: &Question<'_>, setting: &Setting) -> Result<bool> {
    let memory = Memory::of(label, question.structure, setting, &place(question.structure, setting))?;
    Ok(memory.shortfalls(setting, question.host).is_empty())
}

/// The first of some settings that fits.
fn first_that_fits(
    label: &str,
    question: &Question<'_>,
    settings: impl Iterator<Item = Setting>,
) -> Result<Option<Setting>> {
    for setting in settings {
        if fits(label, question, &setting)? {
            return Ok(Some(setting));
        }
    }
    Ok(None)
}

/// The most slots on devices that fit, in time O(slots · tensors).
fn most_layers(label: &str, question: &Question<'_>, setting: Setting) -> Result<Option<Setting>> {
    let numbers = (0..=slot_count(question.structure) as u64).rev();
    let settings = numbers.map(|layers| Setting { layers: Some(layers), ..setting.clone() });
    first_that_fits(label, question, settings)
}

/// All layers on devices and the experts of as few of the first layers as possible on the host; if that is not enough, all
/// experts there, and as many layers as possible on devices. Without experts, as many layers as possible.
fn fewest_experts(label: &str, question: &Question<'_>, setting: Setting) -> Result<Option<Setting>> {
    let layers = &question.structure.layers;
    if layers.iter().all(|layer| layer.mixture.is_none()) {
        return most_layers(label, question, setting);
    }
    let some = (1..=layers.len() as u64)
        .map(|layers| Setting { overrides: vec![Override::FirstExperts(layers)], ..setting.clone() });
    match first_that_fits(label, question, [setting.clone()].into_iter().chain(some))? {
        Some(found) => Ok(Some(found)),
        None => {
            let all = Setting { overrides: vec![Override::AllExperts], ..setting };
            most_layers(label, question, all)
        }
    }
}

/// Devices by decreasing memory, each with its share of the layers, rounded down at both ends. Devices with as much memory,
/// which exo sorts by the random names of its nodes, keep their order.
fn ring(question: &Question<'_>) -> Setting {
    let mut devices = question.devices.to_vec();
    devices.sort_by_key(|device| std::cmp::Reverse(device.memory));
    let total: f64 = devices.iter().map(|device| device.memory as f64).sum();
    let layers = slot_count(question.structure) - 1;
    let (mut end, mut given) = (0.0, 0);
    let (mut used, mut shares) = (Vec::new(), Vec::new());
    for (index, device) in devices.iter().enumerate() {
        let is_last = index + 1 == devices.len();
        end = ((end + device.memory as f64 / total) * EXO_DIGITS).round() / EXO_DIGITS;
        let next = if is_last { layers } else { ((end * layers as f64) as usize).min(layers) };
        // The output is with the last layers.
        let slots = next - given + usize::from(is_last);
        given = next;
        if slots > 0 {
            used.push(device.clone());
            shares.push(slots as f32);
        }
    }
    Setting { shares, ..default(question, &used) }
}
