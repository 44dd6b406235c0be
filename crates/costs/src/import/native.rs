//! `stagewright.costs/1`: the native format of measurements.
//!
//! The JSON mirrors [`CostsDocument`] field by field. Numbers are read back bit for bit as they were written.

use stagewright_core::document::{COSTS_SCHEMA, CostsDocument};
use stagewright_formats::{InputError, Result, read_json};

/// Largest plausible number of seconds, bytes or elements; below it no sum overflows.
const LARGEST: f64 = 1e30;

/// Reads a document.
///
/// # Errors
/// If the text is no such document (codes F), or a number is invalid in a table (Q109).
///
/// ```
/// use stagewright_costs::import::native;
/// let text = br#"{
///   "schema": "stagewright.costs/1",
///   "links": [{"class": "h100", "transfer": "all-reduce", "devices": 8, "source": "x", "rows": [[1e6, -2e-5]]}]
/// }"#;
/// let error = native::import("costs.json", text).unwrap_err();
/// assert_eq!((error.code, error.place.to_string().as_str()), ("Q109", "costs.json: links[0].rows[0][1]"));
/// ```
pub fn import(label: &str, bytes: &[u8]) -> Result<CostsDocument> {
    let costs: CostsDocument = read_json(label, bytes, &[COSTS_SCHEMA])?;
    check(label, &costs)?;
    Ok(costs)
}

/// Formats a document as JSON.
pub fn write(costs: &CostsDocument) -> String {
    let mut text = serde_json::to_string_pretty(costs).expect("documents have nothing that JSON cannot hold");
    text.push('\n');
    text
}

/// Checks numbers and the lengths of rows.
fn check(label: &str, costs: &CostsDocument) -> Result<()> {
    let fault = |path: String, message: String, help: &str| {
        Err(InputError::at_path("Q109", label, path, message, help))
    };
    let no_time = |path: String, seconds: f64| {
        fault(path, format!("{seconds} is no number of seconds"), "write a number of seconds, at least 0")
    };
    let is_time = |seconds: f64| (0.0..=LARGEST).contains(&seconds);
    for (i, operators) in costs.operators.iter().enumerate() {
        for (name, &seconds) in &operators.seconds {
            if !is_time(seconds) {
                return no_time(format!("operators[{i}].seconds.{name}"), seconds);
            }
        }
        for (name, &spread) in &operators.spread {
            let path = || format!("operators[{i}].spread.{name}");
            if !is_time(spread) {
                return fault(
                    path(),
                    format!("{spread} is no share"),
                    "write a share of the median, at least 0",
                );
            }
            if !operators.seconds.contains_key(name) {
                let help = "remove it, or add its median under `seconds`";
                return fault(path(), format!("`{name}` has a spread and no seconds"), help);
            }
        }
    }
    for (i, kernel) in costs.kernels.iter().enumerate() {
        let names = kernel.kernel.dimensions();
        for (j, row) in kernel.rows.iter().enumerate() {
            let path = format!("kernels[{i}].rows[{j}]");
            let Some((&seconds, dimensions)) = row.split_last().filter(|(_, row)| row.len() == names.len())
            else {
                let message = format!(
                    "a row of `{}` has {} numbers, not {}",
                    kernel.kernel.name(),
                    names.len() + 1,
                    row.len()
                );
                return fault(path, message, &format!("write {} and seconds", names.join(", ")));
            };
            for (k, (&dimension, name)) in dimensions.iter().zip(names).enumerate() {
                if !((1.0..=LARGEST).contains(&dimension) && dimension.fract() == 0.0) {
                    let message = format!("{dimension} is no dimension `{name}`");
                    return fault(format!("{path}[{k}]"), message, "write a whole number, at least 1");
                }
            }
            if !is_time(seconds) {
                return no_time(format!("{path}[{}]", names.len()), seconds);
            }
        }
    }
    for (i, link) in costs.links.iter().enumerate() {
        if link.devices < 2 {
            let message = format!("a transfer among {} devices", link.devices);
            return fault(
                format!("links[{i}].devices"),
                message,
                "write the number of devices that take part, at least 2",
            );
        }
        for (j, &[bytes, seconds]) in link.rows.iter().enumerate() {
            if !is_time(bytes) {
                let message = format!("{bytes} is no number of bytes");
                return fault(
                    format!("links[{i}].rows[{j}][0]"),
                    message,
                    "write a number of bytes, at least 0",
                );
            }
            if !is_time(seconds) {
                return no_time(format!("links[{i}].rows[{j}][1]"), seconds);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_written_and_read_back_equal() {
        let text = br#"{
            "schema": "stagewright.costs/1", "name": "x",
            "operators": [{"class": "cpu", "source": "s", "seconds": {"a": 0.1, "b": 1e-7}, "spread": {"a": 0.3}}],
            "kernels": [{"class": "a100", "kernel": "product", "precision": "bf16", "source": "s", "rows": [[1, 2, 3, 4e-6]]}],
            "links": [{"class": "a100", "transfer": "send", "devices": 2, "between_servers": true, "source": "s", "rows": [[8, 5e-6]]}]
        }"#;
        let costs = import("costs.json", text).unwrap();
        assert_eq!(import("again", write(&costs).as_bytes()), Ok(costs));
    }
}
