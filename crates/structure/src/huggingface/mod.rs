//! Hugging Face configurations: `config.json`, with the quantisation in it or in `hf_quant_config.json` beside it.
//!
//! A configuration names its architecture (`model_type`) and gives its widths. What the code of an architecture fixes
//! without a key is in the function that reads it, from the architecture's published code or paper.

mod config;
mod decoders;
mod quantisation;

use serde_json::{Map, Value};
use stagewright_formats::Result;
use stagewright_formats::code::M;
use stagewright_formats::nearest::nearest;

use crate::structure::Structure;
use crate::tensors::{derive, names::Names};
use config::Config;

/// What the reader of an architecture returns: the structure without tensors, and the names of its modules.
type Read = (Structure, Names);

/// An architecture.
struct Architecture {
    /// `model_type`.
    name: &'static str,
    read: fn(&Config) -> Result<Read>,
}

/// All architectures, by `model_type`.
const ARCHITECTURES: &[Architecture] = &[
    Architecture { name: "llama", read: decoders::llama },
    Architecture { name: "mistral", read: decoders::llama },
    Architecture { name: "qwen2", read: decoders::qwen2 },
    Architecture { name: "qwen3", read: decoders::qwen3 },
];

/// Reads a configuration, with that of its quantisation beside it if there is one.
///
/// `architecture` is read instead of the `model_type` of the file, if given.
///
/// # Errors
/// If the text is no JSON, a key is missing or has a senseless value or the quantisation is unknown (M013), or the
/// architecture is unknown (M014).
pub fn read(
    label: &str,
    config: &[u8],
    quantisation: Option<(&str, &[u8])>,
    architecture: Option<&str>,
) -> Result<Structure> {
    let map = config::parse(label, config)?;
    let config = Config::new(label, &map);
    let beside =
        quantisation.map(|(label, bytes)| config::parse(label, bytes).map(|map| (label, map))).transpose()?;
    let beside = beside.as_ref().map(|(label, map)| Config::new(label, map));
    let (mut structure, names) = (architecture_of(&config, architecture)?.read)(&config)?;
    let scheme = quantisation::read(&config, beside.as_ref())?;
    structure.cache = scheme.cache();
    structure.tensors = derive(&structure, &names, |_, _, _| scheme.plain());
    // Shapes are checked before a quantisation counts their blocks, and the bytes after it.
    structure.check(label)?;
    scheme.apply(&mut structure.tensors)?;
    structure.check(label)?;
    Ok(structure)
}

/// Whether an object in JSON is a configuration: it names an architecture, or has layers and a width.
pub fn is_config(map: &Map<String, Value>) -> bool {
    !map.contains_key("schema") && (map.contains_key("model_type") || map.contains_key("architectures"))
}

fn architecture_of(config: &Config, given: Option<&str>) -> Result<&'static Architecture> {
    let known = || ARCHITECTURES.iter().map(|architecture| architecture.name);
    let Some(name) = given.or_else(|| config.text("model_type")) else {
        let help = "say which architecture it is with --as, as in --as llama";
        return Err(config.fault("model_type", "the key `model_type` is missing", help));
    };
    if let Some(architecture) = ARCHITECTURES.iter().find(|architecture| architecture.name == name) {
        return Ok(architecture);
    }
    let near =
        nearest(name, known()).map_or_else(String::new, |near| format!("the nearest known one is {near}; "));
    let help = format!(
        "{near}if the layers are those of a known architecture, say so with --as, as in --as llama. The keys that matter \
         are hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, intermediate_size, \
         vocab_size, and those of experts"
    );
    let message = format!("unknown architecture `{name}`");
    let mut error = config.fault("model_type", message, help);
    error.code = M::M014.into();
    Err(error)
}
