//! Hugging Face configurations: `config.json`, with the quantisation in it or in `hf_quant_config.json` beside it.
//!
//! A configuration names its architecture (`model_type`) and gives its widths. What the code of an architecture fixes
//! without a key is in the function that reads it, from the architecture's published code or paper.

mod config;
mod decoders;
mod deepseek_v4;
mod encoder_decoders;
mod encoders;
mod experts;
mod gemma;
mod gemma4;
mod gpt;
mod kimi_linear;
mod latent;
mod mimo;
mod minimax;
mod mixtures;
mod nemotron;
mod nested;
mod overrides;
mod prediction;
mod quantisation;
mod qwen;
mod siglip;
mod step;
mod unknown;
mod variants;
mod vision;
mod widths;

pub use overrides::Reading;

use serde_json::{Map, Value};
use stagewright_formats::Result;
use stagewright_formats::code::M;

use crate::structure::Structure;
use crate::tensors::{derive, names::Names};
use config::Config;

/// Structure without tensors, and the names of its modules, as the reader of an architecture returns them.
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
    Architecture { name: "mistral", read: decoders::mistral },
    Architecture { name: "qwen2", read: decoders::qwen2 },
    Architecture { name: "qwen3", read: decoders::qwen3 },
    Architecture { name: "bert", read: encoders::bert },
    Architecture { name: "bloom", read: gpt::bloom },
    Architecture { name: "cohere", read: variants::cohere },
    Architecture { name: "cohere2", read: variants::cohere2 },
    Architecture { name: "deepseek_ref", read: deepseek_v4::deepseek_v4 },
    Architecture { name: "deepseek_v2", read: latent::deepseek_v2 },
    Architecture { name: "deepseek_v3", read: latent::deepseek_v3 },
    Architecture { name: "deepseek_v32", read: latent::deepseek_v3 },
    Architecture { name: "deepseek_v4", read: deepseek_v4::deepseek_v4 },
    Architecture { name: "falcon", read: gpt::falcon },
    Architecture { name: "gemma", read: gemma::gemma },
    Architecture { name: "gemma2", read: gemma::gemma2 },
    Architecture { name: "gemma3", read: gemma::gemma3 },
    Architecture { name: "gemma3_text", read: gemma::gemma3_text },
    Architecture { name: "gemma4", read: gemma4::gemma4 },
    Architecture { name: "gemma4_text", read: gemma4::gemma4 },
    Architecture { name: "glm_moe_dsa", read: latent::glm },
    Architecture { name: "gpt2", read: gpt::gpt2 },
    Architecture { name: "gpt_bigcode", read: gpt::gpt_bigcode },
    Architecture { name: "gpt_neox", read: gpt::gpt_neox },
    Architecture { name: "gpt_oss", read: experts::gpt_oss },
    Architecture { name: "granite", read: decoders::llama },
    Architecture { name: "kimi_k2", read: latent::deepseek_v3 },
    Architecture { name: "kimi_k25", read: latent::kimi_k25 },
    Architecture { name: "kimi_k3", read: kimi_linear::kimi_linear },
    Architecture { name: "kimi_linear", read: kimi_linear::kimi_linear },
    Architecture { name: "lfm2", read: variants::lfm2 },
    Architecture { name: "llama4", read: experts::llama4 },
    Architecture { name: "llama4_text", read: experts::llama4 },
    Architecture { name: "mimo", read: mimo::mimo },
    Architecture { name: "mimo_v2_flash", read: mimo::v2_flash },
    Architecture { name: "minimax_m2", read: minimax::m2 },
    Architecture { name: "minimax_m3", read: minimax::m3 },
    Architecture { name: "minimax_m3_vl", read: minimax::m3 },
    Architecture { name: "mixtral", read: mixtures::mixtral },
    Architecture { name: "nemotron-nas", read: nemotron::nas },
    Architecture { name: "nemotron_h", read: nemotron::hybrid },
    Architecture { name: "olmo", read: variants::olmo },
    Architecture { name: "olmo2", read: variants::olmo2 },
    Architecture { name: "opt", read: gpt::opt },
    Architecture { name: "phi", read: variants::phi },
    Architecture { name: "phi3", read: variants::phi3 },
    Architecture { name: "qwen2_moe", read: mixtures::qwen2_moe },
    Architecture { name: "qwen3_5", read: qwen::qwen3_5 },
    Architecture { name: "qwen3_5_moe", read: qwen::qwen3_5 },
    Architecture { name: "qwen3_5_moe_text", read: qwen::qwen3_5 },
    Architecture { name: "qwen3_5_text", read: qwen::qwen3_5 },
    Architecture { name: "qwen3_moe", read: mixtures::qwen3_moe },
    Architecture { name: "qwen3_vl", read: qwen::qwen3_vl },
    Architecture { name: "qwen3_vl_moe", read: qwen::qwen3_vl },
    Architecture { name: "roberta", read: encoders::bert },
    Architecture { name: "smollm3", read: variants::smollm3 },
    Architecture { name: "stablelm", read: variants::stablelm },
    Architecture { name: "starcoder2", read: variants::starcoder2 },
    Architecture { name: "step3p5", read: step::step3p7 },
    Architecture { name: "step3p7", read: step::step3p7 },
    Architecture { name: "t5", read: encoder_decoders::t5 },
    Architecture { name: "vit", read: encoders::vit },
    Architecture { name: "whisper", read: encoder_decoders::whisper },
];

/// Reads a configuration, with that of its quantisation beside it if there is one.
///
/// `reading` says what replaces the architecture and the values of the file.
///
/// # Errors
/// If the text is no JSON, a key is missing or has a senseless value or the quantisation is unknown (M013), the
/// architecture is unknown (M014), the model is absurdly large (M015), or a value of `reading` is for no width that the
/// model has (M018).
pub fn read(
    label: &str,
    config: &[u8],
    quantisation: Option<(&str, &[u8])>,
    reading: &Reading,
) -> Result<Structure> {
    structure(label, config, quantisation, reading).map_err(|error| reading.explain(error))
}

fn structure(
    label: &str,
    config: &[u8],
    quantisation: Option<(&str, &[u8])>,
    reading: &Reading,
) -> Result<Structure> {
    let mut map = config::parse(label, config)?;
    let reader = architecture_of(label, &map, reading.architecture)?.read;
    overrides::apply(label, &mut map, reading.set, reader)?;
    let config = Config::new(label, &map);
    let beside =
        quantisation.map(|(label, bytes)| config::parse(label, bytes).map(|map| (label, map))).transpose()?;
    let beside = beside.as_ref().map(|(label, map)| Config::new(label, map));
    let (mut structure, names) = reader(&config)?;
    let scheme = quantisation::read(&config, beside.as_ref())?;
    structure.cache = scheme.cache();
    structure.tensors = derive(&structure, &names, |_, _, _| scheme.plain());
    // Shapes are checked before a quantisation counts their blocks, and the bytes after it.
    structure.check(label)?;
    scheme.apply(&mut structure.tensors)?;
    structure.check(label)?;
    Ok(structure)
}

/// Whether bytes are a configuration: an object in JSON that names an architecture, and no document of a schema.
pub fn is_config(bytes: &[u8]) -> bool {
    let names = |map: Map<String, Value>| map.contains_key("model_type") || map.contains_key("architectures");
    config::parse("", bytes).is_ok_and(|map| !map.contains_key("schema") && names(map))
}

fn architecture_of(
    label: &str,
    map: &Map<String, Value>,
    given: Option<&str>,
) -> Result<&'static Architecture> {
    let config = Config::new(label, map);
    let name = given.or_else(|| config.text("model_type"));
    if let Some(known) = ARCHITECTURES.iter().find(|architecture| Some(architecture.name) == name) {
        return Ok(known);
    }
    let help = unknown::help(label, map, name);
    let Some(name) = name else {
        return Err(config.fault("model_type", "the key `model_type` is missing", help));
    };
    let own = if map.contains_key("auto_map") { ", which the code beside its weights defines" } else { "" };
    let mut error = config.fault("model_type", format!("unknown architecture `{name}`{own}"), help);
    error.code = M::M014.into();
    Err(error)
}
