//! Recognises files that describe the layers of a language model: a Hugging Face configuration, GGUF, or a structure.
//!
//! They contain no graph. Whoever reads them draws one from the layers.

use super::text::Sniff;

/// Magic number of a GGUF file.
const GGUF: &[u8] = b"GGUF";

/// Name of the schema of structures, before its version.
const STRUCTURE: &str = "stagewright.structure/";

/// Keys of which every Hugging Face configuration has one.
const ARCHITECTURE: [&str; 2] = ["model_type", "architectures"];

pub(super) fn detect(bytes: &[u8], json: &Sniff) -> bool {
    match json.schema.as_deref() {
        Some(schema) => schema.starts_with(STRUCTURE),
        None => {
            bytes.starts_with(GGUF)
                || (ARCHITECTURE.iter().any(|key| json.has(key))
                    && !json.has("operators")
                    && !json.has("nodes"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, detect};

    #[test]
    fn configurations_weights_and_structures_are_told_from_graphs() {
        let is_language =
            |bytes: &[u8]| detect("model", bytes).is_ok_and(|format| format == Format::Language);
        assert!(is_language(b"GGUF\x03\0\0\0"));
        assert!(is_language(br#"{"hidden_size": 64, "model_type": "llama"}"#));
        assert!(is_language(br#"{"schema": "stagewright.structure/1"}"#));
        for other in [&br#"{"operators": [], "model_type": 1}"#[..], br#"["model_type"]"#, b"{}", b""] {
            assert!(!is_language(other), "{}", String::from_utf8_lossy(other));
        }
    }
}
