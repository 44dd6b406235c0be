//! Constants that are fitted, with their ranges.

use stagewright_core::document::RuntimeDocument;

use super::constants::Constants;

/// Quantity that a constant is fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Seconds,
    Memory,
}

/// Place of a constant.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// A constant of all runtimes, or of some by name.
    Runtime(fn(&mut RuntimeDocument) -> &mut f64, &'static [&'static str]),
    Other(fn(&mut Constants) -> &mut f64),
}

/// A constant that is fitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    pub(crate) target: Target,
    /// Whether steps are differences instead of ratios.
    pub(crate) is_share: bool,
    least: f64,
    most: f64,
    place: Place,
}

impl Slot {
    /// The value of the constant, in the first of its runtimes.
    pub(crate) fn get(&self, constants: &Constants) -> f64 {
        let mut constants = constants.clone();
        match self.place {
            Place::Runtime(field, names) => {
                let runtime = constants.runtimes.iter_mut().find(|runtime| is_in(names, runtime));
                runtime.map_or(f64::NAN, |runtime| *field(runtime))
            }
            Place::Other(field) => *field(&mut constants),
        }
    }

    /// The constants with another value, within its range.
    pub(crate) fn with(&self, constants: &Constants, value: f64) -> Constants {
        let mut constants = constants.clone();
        let value = value.clamp(self.least, self.most);
        match self.place {
            Place::Runtime(field, names) => {
                let runtimes = constants.runtimes.iter_mut().filter(|runtime| is_in(names, runtime));
                runtimes.for_each(|runtime| *field(runtime) = value);
            }
            Place::Other(field) => *field(&mut constants) = value,
        }
        constants
    }

    /// Whether the constant has an effect on a runtime.
    pub(crate) fn is_of(&self, runtime: &str) -> bool {
        match self.place {
            Place::Runtime(_, names) => names.is_empty() || names.contains(&runtime),
            Place::Other(_) => true,
        }
    }

    /// Whether the constant has an effect on this runtime alone.
    pub(crate) fn is_only_of(&self, runtime: &str) -> bool {
        matches!(self.place, Place::Runtime(_, [name]) if *name == runtime)
    }
}

fn is_in(names: &[&str], runtime: &RuntimeDocument) -> bool {
    names.is_empty() || names.contains(&runtime.name.as_str())
}

/// All slots.
pub(crate) fn all() -> Vec<Slot> {
    let ratio = |name, minimum, maximum, place| Slot {
        name,
        target: Target::Seconds,
        is_share: false,
        least: minimum,
        most: maximum,
        place,
    };
    let share =
        |name, minimum, maximum, place| Slot { is_share: true, ..ratio(name, minimum, maximum, place) };
    let memory = |name, minimum, maximum, place| Slot {
        target: Target::Memory,
        ..ratio(name, minimum, maximum, place)
    };
    vec![
        memory("norms torchtitan", 1.0, 8.0, Place::Runtime(|runtime| &mut runtime.norms, &["torchtitan"])),
        memory("norms scaling", 1.0, 8.0, Place::Runtime(|runtime| &mut runtime.norms, &["scaling"])),
        memory("norms nanotron", 1.0, 8.0, Place::Runtime(|runtime| &mut runtime.norms, &["nanotron"])),
        memory("loss nanotron", 0.5, 15.0, Place::Runtime(|runtime| &mut runtime.loss, &["nanotron"])),
        memory("loss scaling", 0.5, 15.0, Place::Runtime(|runtime| &mut runtime.loss, &["scaling"])),
        memory("loss torchtitan", 0.5, 15.0, Place::Runtime(|runtime| &mut runtime.loss, &["torchtitan"])),
        memory(
            "activations scaling",
            1.0,
            2.0,
            Place::Runtime(|runtime| &mut runtime.activations, &["scaling"]),
        ),
        memory("margin scaling", 0.01, 0.2, Place::Runtime(|runtime| &mut runtime.margin, &["scaling"])),
        memory("reserve", 0.3e9, 5e9, Place::Runtime(|runtime| &mut runtime.reserve_bytes, COMMON)),
        memory(
            "reserve deepspeed",
            0.3e9,
            20e9,
            Place::Runtime(|runtime| &mut runtime.reserve_bytes, &["deepspeed"]),
        ),
        memory(
            "reserve eager",
            0.3e9,
            20e9,
            Place::Runtime(|runtime| &mut runtime.reserve_bytes, &["eager"]),
        ),
        ratio(
            "training_efficiency of A100 and older",
            0.3,
            1.0,
            Place::Other(|constants| &mut constants.old),
        ),
        ratio(
            "training_efficiency of H100 and newer",
            0.3,
            1.0,
            Place::Other(|constants| &mut constants.new),
        ),
        ratio(
            "training_efficiency of low power",
            0.1,
            1.0,
            Place::Other(|constants| &mut constants.low_power),
        ),
        ratio("plain softmax", 1.0, 5.0, Place::Other(|constants| &mut constants.plain)),
        ratio("FlashAttention 1", 0.3, 1.0, Place::Other(|constants| &mut constants.flash1)),
        ratio("link", 0.1, 0.95, Place::Runtime(|runtime| &mut runtime.link, &[])),
        share("contention", 0.0, 1.0, Place::Runtime(|runtime| &mut runtime.contention, &[])),
        ratio("iteration_s", 1e-4, 0.5, Place::Runtime(|runtime| &mut runtime.iteration_s, &[])),
        ratio("passes torchtitan", 0.5, 6.0, Place::Runtime(|runtime| &mut runtime.passes, &["torchtitan"])),
        ratio("passes nanotron", 0.5, 6.0, Place::Runtime(|runtime| &mut runtime.passes, &["nanotron"])),
        ratio("passes scaling", 0.5, 6.0, Place::Runtime(|runtime| &mut runtime.passes, &["scaling"])),
        ratio("host_s nanotron", 5e-5, 2e-2, Place::Runtime(|runtime| &mut runtime.host_s, &["nanotron"])),
        ratio("host_s eager", 5e-5, 2e-2, Place::Runtime(|runtime| &mut runtime.host_s, &["eager"])),
        ratio(
            "pipeline_host_s nanotron",
            1e-5,
            1e-2,
            Place::Runtime(|runtime| &mut runtime.pipeline_host_s, &["nanotron"]),
        ),
        ratio(
            "wide_transfer_s nanotron",
            0.01,
            5.0,
            Place::Runtime(|runtime| &mut runtime.wide_transfer_s, &["nanotron"]),
        ),
        share("tensor megatron", 0.05, 3.0, Place::Runtime(|runtime| &mut runtime.tensor, &["megatron"])),
        share("tensor nanotron", 0.05, 3.0, Place::Runtime(|runtime| &mut runtime.tensor, &["nanotron"])),
        share("tensor eager", 0.05, 3.0, Place::Runtime(|runtime| &mut runtime.tensor, &["eager"])),
    ]
}

/// Runtimes with the same bytes outside the plan.
const COMMON: &[&str] = &["megatron", "torchtitan", "fsdp", "nanotron", "scaling"];

/// Prints the fitted constants beside the shipped ones.
pub(crate) fn print(shipped: &Constants, fitted: &Constants) {
    println!("| constant | shipped | fitted |\n| --- | ---: | ---: |");
    for slot in all() {
        println!("| {} | {:.3e} | {:.3e} |", slot.name, slot.get(shipped), slot.get(fitted));
    }
    println!();
}
