//! Hugging Face Accelerate and Transformers: a `device_map`, as JSON.
//!
//! Every key is the name of a module; the map puts its parameters and its computation on a device, with all
//! submodules. The empty name is the whole model. Accelerators are numbers, the host is `cpu`. `disk`, where
//! weights are offloaded until they are needed, is never written, since plans do not use it. If the map also
//! has an accelerator, Accelerate treats `cpu` as offloading too and runs the modules on an accelerator,
//! unless `dispatch_model` is given `main_device="cpu"`.
//!
//! Source: `dispatch_model` in `src/accelerate/big_modeling.py` and `check_device_map` in
//! `src/accelerate/utils/modeling.py` of Accelerate 1.15, with which it was run.

use crate::modules::assigned;
use crate::paths::Paths;
use crate::{Export, ExportError, Placed, Result, Target, literal};

const RUNTIME: &str = "Accelerate";

pub(super) static TARGET: Target = Target {
    name: "accelerate",
    summary: "Hugging Face Accelerate and Transformers: device_map, JSON",
    limits: "whole modules; operators of a divided module outside of its submodules run on the device of their \
             inputs; one host; no replicas, one call per device",
    write,
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
    let entries = modules.iter().map(|(module, at)| literal::entry(module, &device(*at)));
    let mut export = Export::new(literal::lines('{', entries, '}') + "\n")
        .note(placed.numbered(&numbers))
        .also(paths.source());
    if hosts > 0 && hosts < placed.devices.len() {
        let note =
            "call dispatch_model with main_device=\"cpu\": without it, modules of cpu run on an accelerator";
        export = export.note(note);
    }
    Ok(export)
}
