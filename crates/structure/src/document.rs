//! Structures as documents: `stagewright.structure/1`.

use serde_json::Value;
use stagewright_formats::{Result, read_json};

use crate::encoding::Encoding;
use crate::structure::Structure;
use crate::tensors::{derive, names::LLAMA};

/// Schema of a structure.
pub const SCHEMA: &str = "stagewright.structure/1";

/// Reads a structure document; `None` if the bytes are no JSON with the schema of one. A document without tensors gets
/// those that follow from its layers, in 16 bits and with the names of Llama.
///
/// # Errors
/// If the document is malformed (F003 and kin), or the model absurdly large (M015).
pub fn read_structure(label: &str, bytes: &[u8]) -> Result<Option<Structure>> {
    let named = |value: &Value| value.get("schema").and_then(Value::as_str) == Some(SCHEMA);
    if !serde_json::from_slice(bytes).is_ok_and(|value| named(&value)) {
        return Ok(None);
    }
    let mut structure: Structure = read_json(label, bytes, &[SCHEMA])?;
    structure.check_widths(label)?;
    if structure.tensors.is_empty() {
        structure.tensors = derive(&structure, &LLAMA, |_, _, _| Encoding::BF16);
    }
    structure.check(label)?;
    Ok(Some(structure))
}

/// Writes a structure as JSON, ending in a newline.
pub fn write_structure(structure: &Structure) -> String {
    let mut text =
        serde_json::to_string_pretty(structure).expect("a structure has nothing that JSON cannot hold");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::huggingface;

    #[test]
    fn a_structure_reads_back_and_tensors_follow_from_its_layers() {
        let config = br#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
            "num_hidden_layers": 2, "vocab_size": 100, "tie_word_embeddings": true}"#;
        let structure = huggingface::read("config.json", config, None, &huggingface::Reading::default())
            .expect("a model");
        let text = write_structure(&structure);
        assert_eq!(
            read_structure("structure.json", text.as_bytes()).expect("a structure"),
            Some(structure.clone())
        );
        let mut bare: Value = serde_json::from_str(&text).expect("JSON");
        bare.as_object_mut().expect("an object").remove("tensors");
        let again = read_structure("structure.json", bare.to_string().as_bytes()).expect("a structure");
        assert_eq!(again, Some(structure));
        bare["layers"][1]["mixer"]["heads"] = (1_u64 << 40).into();
        let error = read_structure("structure.json", bare.to_string().as_bytes()).expect_err("absurd");
        assert_eq!(
            (error.code.name, &*error.place.to_string()),
            ("M015", "structure.json: layers.1.mixer.heads")
        );
        assert_eq!(read_structure("config.json", config), Ok(None));
    }
}
