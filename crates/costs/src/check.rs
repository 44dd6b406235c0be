//! The check of a costs document, wherever it comes from.

use stagewright_core::document::{
    COSTS_SCHEMA, CostsDocument, KernelCostsDocument, LinkCostsDocument, OperatorCostsDocument,
};
use stagewright_formats::{InputError, Result};

use crate::code::Q::*;

/// Largest dimension, number of bytes, number of seconds and spread: no sum of them overflows.
const LARGEST: f64 = 1e15;

/// Shortest valid time of a kernel or a transfer, in seconds. Logarithms of these times are interpolated.
const SHORTEST: f64 = 1e-12;

/// Checks a document.
///
/// # Errors
/// Q010 for another schema, Q011 for a row of the wrong length, Q012 for a number out of range, Q013 for a class
/// without a name, Q014 for a transfer among fewer than two devices, Q109 for a spread without seconds.
pub(crate) fn check(label: &str, document: &CostsDocument) -> Result<()> {
    if document.schema != COSTS_SCHEMA {
        return Err(InputError::at_path(
            Q010,
            label,
            "schema",
            format!("unknown schema `{}`", document.schema),
            format!("write `{COSTS_SCHEMA}`"),
        ));
    }
    for (i, costs) in document.operators.iter().enumerate() {
        operators(label, i, costs)?;
    }
    for (i, table) in document.kernels.iter().enumerate() {
        kernels(label, i, table)?;
    }
    for (i, costs) in document.links.iter().enumerate() {
        link(label, i, costs)?;
    }
    Ok(())
}

fn operators(label: &str, i: usize, operators: &OperatorCostsDocument) -> Result<()> {
    class(label, || format!("operators[{i}].class"), &operators.class)?;
    for (name, &seconds) in &operators.seconds {
        number(label, || format!("operators[{i}].seconds.{name}"), "seconds", seconds, 0.0)?;
    }
    for (name, &spread) in &operators.spread {
        let path = || format!("operators[{i}].spread.{name}");
        number(label, path, "spread", spread, 0.0)?;
        if !operators.seconds.contains_key(name) {
            return Err(InputError::at_path(
                Q109,
                label,
                path(),
                format!("`{name}` has a spread and no seconds"),
                "remove it, or add its median under `seconds`",
            ));
        }
    }
    Ok(())
}

fn kernels(label: &str, i: usize, table: &KernelCostsDocument) -> Result<()> {
    class(label, || format!("kernels[{i}].class"), &table.class)?;
    let names = table.kernel.dimensions();
    for (j, row) in table.rows.iter().enumerate() {
        let place = |k: usize| format!("kernels[{i}].rows[{j}][{k}]");
        let Some((&seconds, dimensions)) = row.split_last().filter(|_| row.len() == names.len() + 1) else {
            return Err(InputError::at_path(
                Q011,
                label,
                format!("kernels[{i}].rows[{j}]"),
                format!(
                    "the row has {} numbers, and one of `{}` has {}",
                    row.len(),
                    table.kernel.name(),
                    names.len() + 1
                ),
                format!("write {} and seconds", names.join(", ")),
            ));
        };
        for (k, (&dimension, name)) in dimensions.iter().zip(names).enumerate() {
            if dimension.fract() != 0.0 {
                return Err(out_of_range(label, place(k), name, dimension, "a whole number", 1.0));
            }
            number(label, || place(k), name, dimension, 1.0)?;
        }
        number(label, || place(names.len()), "seconds", seconds, SHORTEST)?;
    }
    Ok(())
}

fn link(label: &str, i: usize, link: &LinkCostsDocument) -> Result<()> {
    class(label, || format!("links[{i}].class"), &link.class)?;
    if link.devices < 2 {
        return Err(InputError::at_path(
            Q014,
            label,
            format!("links[{i}].devices"),
            format!("a transfer among {} devices", link.devices),
            "write the number of devices that take part, at least 2",
        ));
    }
    for (j, &[bytes, seconds]) in link.rows.iter().enumerate() {
        number(label, || format!("links[{i}].rows[{j}][0]"), "bytes", bytes, 1.0)?;
        number(label, || format!("links[{i}].rows[{j}][1]"), "seconds", seconds, SHORTEST)?;
    }
    Ok(())
}

fn class(label: &str, path: impl FnOnce() -> String, class: &str) -> Result<()> {
    match class.is_empty() {
        false => Ok(()),
        true => Err(InputError::at_path(
            Q013,
            label,
            path(),
            "measurements of a device class without a name",
            "write the name of the class, as in the cluster",
        )),
    }
}

fn number(label: &str, path: impl FnOnce() -> String, what: &str, value: f64, least: f64) -> Result<()> {
    match (least..=LARGEST).contains(&value) {
        true => Ok(()),
        false => Err(out_of_range(label, path(), what, value, "a number", least)),
    }
}

fn out_of_range(label: &str, path: String, what: &str, value: f64, kind: &str, least: f64) -> InputError {
    let message = format!("`{what}` is {value:?}");
    InputError::at_path(Q012, label, path, message, format!("write {kind} from {least:?} to {LARGEST:?}"))
}
