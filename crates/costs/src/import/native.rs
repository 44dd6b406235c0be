//! `stagewright.costs/1`: the native format of measurements.
//!
//! The JSON mirrors [`CostsDocument`] field by field. Numbers are read back bit for bit as they were written.

use stagewright_core::document::{COSTS_SCHEMA, CostsDocument};
use stagewright_formats::{Result, read_json};

use crate::check::check;

/// Reads a document.
///
/// # Errors
/// If the text is not such a document (codes F), or its content is invalid (Q010 to Q014, Q109).
///
/// ```
/// use stagewright_costs::import::native;
/// let text = br#"{
///   "schema": "stagewright.costs/1",
///   "links": [{"class": "h100", "transfer": "all-reduce", "devices": 8, "source": "x", "rows": [[1e6, -2e-5]]}]
/// }"#;
/// let error = native::import("costs.json", text).unwrap_err();
/// assert_eq!((error.code.name, error.place.to_string().as_str()), ("Q012", "costs.json: links[0].rows[0][1]"));
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
