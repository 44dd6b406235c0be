//! Hugging Face Accelerate and Transformers: a `device_map`, as JSON.
//!
//! Every key is the name of a module; the map puts its parameters and its computation on a device, with all submodules.
//! The empty name is the whole model. Accelerators are numbers, the host is `cpu`. `disk`, where weights are offloaded
//! until they are needed, is never written, since plans do not use it. If the map also has an accelerator, Accelerate
//! treats `cpu` as offloading too and runs the modules on an accelerator, unless `dispatch_model` is given
//! `main_device="cpu"`. A key may also be the name of a tensor that a divided module holds itself: `check_device_map`
//! refuses a map that leaves one out, and warns of keys that are not modules.
//!
//! Source: `dispatch_model` in `src/accelerate/big_modeling.py` and `check_device_map` in
//! `src/accelerate/utils/modeling.py` of Accelerate 1.15. The output was run with this version.

use std::collections::BTreeSet;

use crate::error::listed;
use crate::modules::{Assigned, assigned};
use crate::paths::Paths;
use crate::runtime::{Passes, Runtime, Schedules, Sharing, Trained};
use crate::{Export, ExportError, Placed, Result, Target, literal};

const RUNTIME: &str = "Accelerate";

pub(super) static TARGET: Target = Target {
    name: "accelerate",
    summary: "Hugging Face Accelerate and Transformers: device_map, JSON",
    limits: "whole modules; operators of a divided module outside of its submodules run on the device of their \
             inputs; one host; no replicas, one call per device",
    write,
    runtime: Runtime {
        name: RUNTIME,
        passes: Passes::Given,
        overlaps: false,
        sharing: Sharing {
            trained: Trained::Noted(
                "the plan synchronises its gradient, and Accelerate ties copies again, on one device: untie it in the \
                 model, and sum the gradients of its copies before every update",
            ),
            weight: "Accelerate ties copies again, on one device: untie it in the model",
            constant: "Accelerate has one copy, and moves it to every reader at every call",
        },
        schedules: Schedules::Own("Accelerate runs one device after the other"),
    },
};

fn write(placed: &Placed) -> Result<Export> {
    placed.one_run_each(RUNTIME)?;
    let hosts = placed.devices.iter().filter(|device| device.host).count();
    if hosts > 1 {
        let rule = "Accelerate has one, `cpu`";
        return Err(ExportError::Devices { what: format!("{hosts} hosts"), rule });
    }
    let numbers = placed.numbers();
    let device = |device: usize| numbers[device].map_or_else(|| literal::string("cpu"), |n| n.to_string());
    let paths = Paths::new(placed)?;
    let modules = assigned(placed, &paths, RUNTIME)?;
    let entries =
        modules.assigned.iter().map(|(module, assigned)| literal::entry(module, &device(*assigned)));
    let mut export = Export::new(literal::lines('{', entries, '}') + "\n")
        .note(placed.numbered(&numbers))
        .also(tensors(placed, &modules.assigned))
        .also(named(&modules.unnamed, "the device map does not place it: no module or tensor has such a name"))
        .also(named(
            &modules.apart,
            "Accelerate has it on the device of its module, and moves it to its readers, all on other devices, at every call",
        ))
        .also(paths.source());
    if hosts > 0 && hosts < placed.devices.len() {
        let note =
            "call dispatch_model with main_device=\"cpu\": without it, modules of cpu run on an accelerator";
        export = export.note(note);
    }
    Ok(export)
}

/// A note on constants.
fn named(constants: &[String], note: &str) -> Option<String> {
    (!constants.is_empty()).then(|| format!("{}: {note}", listed(constants)))
}

/// Names the keys that are not modules.
fn tensors(placed: &Placed, map: &[Assigned]) -> Option<String> {
    let known = placed.graph.map_or(&[][..], |graph| graph.parameters());
    let known: BTreeSet<&str> = known.iter().map(|parameter| parameter.name.as_str()).collect();
    let named = map.iter().map(|(name, _)| name).filter(|name| known.contains(name.as_str()));
    let names: Vec<String> = named.cloned().collect();
    (!names.is_empty()).then(|| {
        let names = listed(&names);
        format!(
            "keys of tensors, not of modules: {names}; Accelerate ignores those that the model does not have, such as \
             constants"
        )
    })
}
