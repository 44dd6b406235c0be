//! Indices of checkpoints of several files.

use std::collections::BTreeMap;

use serde::Deserialize;
use stagewright_formats::code::M;
use stagewright_formats::fault::Fault;
use stagewright_formats::{At, InputError, Result, text_of};

/// Index of a checkpoint, `model.safetensors.index.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Name of the file, for errors.
    pub label: String,
    /// File of every tensor.
    pub files: BTreeMap<String, String>,
    /// Bytes of all tensors, if the index has them.
    pub total: Option<u64>,
}

#[derive(Deserialize)]
struct RawIndex {
    #[serde(default)]
    metadata: Option<Metadata>,
    weight_map: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Metadata {
    /// Some programs write 16381470720.0.
    #[serde(default)]
    total_size: Option<f64>,
}

impl Index {
    /// Reads an index.
    ///
    /// # Errors
    /// If the file is empty or no text (F008 and kin), or no JSON with a map from tensors to files and a total that is a whole
    /// number (M016).
    pub fn read(label: &str, bytes: &[u8]) -> Result<Index> {
        let fault = |message: String| {
            let help = "check that the file is the index of a checkpoint in the format safetensors";
            InputError::new(M::M016, label, At::Whole, message, help)
        };
        let text = text_of(label, bytes)?;
        let raw: RawIndex = serde_json::from_str(text).map_err(|error| {
            fault(format!("the index cannot be read: {}", Fault::of_json(&error).message))
        })?;
        let total = raw.metadata.and_then(|metadata| metadata.total_size);
        if let Some(total) = total.filter(|total| total.fract() != 0.0 || !(0.0..=1e18).contains(total)) {
            return Err(fault(format!("the total of {total} bytes makes no sense")));
        }
        let total = total.map(|total| total as u64);
        Ok(Index { label: label.to_owned(), files: raw.weight_map, total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_files_and_a_total() {
        let text =
            r#"{"metadata": {"total_size": 16381470720.0, "x": 1}, "weight_map": {"a": "1.safetensors"}}"#;
        let index = Index::read("index", text.as_bytes()).unwrap();
        assert_eq!((index.total, index.files["a"].as_str()), (Some(16_381_470_720), "1.safetensors"));
        assert_eq!(Index::read("index", br#"{"weight_map": {}}"#).unwrap().total, None);
        for text in
            ["[", "{}", r#"{"weight_map": [1]}"#, r#"{"weight_map": {}, "metadata": {"total_size": -1}}"#]
        {
            assert_eq!(Index::read("index", text.as_bytes()).unwrap_err().code, "M016", "{text}");
        }
    }
}
