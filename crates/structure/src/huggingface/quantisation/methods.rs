//! Methods of quantisation, by `quant_method`.

use serde_json::Value;
use stagewright_formats::Result;

use super::super::config::Config;
use super::format::{self, Format, unknown};
use super::modules::Modules;
use super::{Covers, Rule};
use crate::encoding::Encoding;

/// A method that is read.
struct Draft<'a, 'd> {
    config: &'d Config<'a>,
    /// Whether the method is for towers too.
    towers: bool,
    /// Rules about single modules.
    rules: &'d mut Vec<Rule<'a>>,
    /// Rules about kinds of modules, which follow all others.
    classes: &'d mut Vec<Rule<'a>>,
}

type Method = fn(&mut Draft) -> Result<()>;

/// Methods by their names.
const METHODS: &[(&str, Method)] = &[
    ("awq", awq),
    ("bitsandbytes", bitsandbytes),
    ("compressed-tensors", compressed_tensors),
    ("fbgemm_fp8", fbgemm_fp8),
    ("fp8", fp8),
    ("gptq", gptq),
    ("modelopt", modelopt),
    ("modelopt_fp4", modelopt),
    ("modelopt_mixed", modelopt),
    ("mxfp4", mxfp4),
];

/// Reads a quantisation into rules about single modules, and rules about kinds of modules.
///
/// # Errors
/// If the method is unknown, or a key is missing or has a senseless value (M013).
pub(super) fn read<'a>(
    config: &Config<'a>,
    towers: bool,
    rules: &mut Vec<Rule<'a>>,
    classes: &mut Vec<Rule<'a>>,
) -> Result<()> {
    let name = match config.text("quant_method") {
        Some(name) => name,
        // Files of Model Optimizer name no method.
        None if ["quant_algo", "kv_cache_quant_algo"].iter().any(|key| config.value(key).is_some()) => {
            "modelopt"
        }
        None if config.value("config_groups").is_some() => "compressed-tensors",
        None => {
            let help = "check the quantisation; it names its method";
            return Err(config.fault("quant_method", "the key `quant_method` is missing", help));
        }
    };
    let Some((_, method)) = METHODS.iter().find(|(known, _)| *known == name) else {
        let known = METHODS.iter().map(|(known, _)| *known);
        return Err(unknown(config, "quant_method", "method of quantisation", name, known));
    };
    method(&mut Draft { config, towers, rules, classes })
}

/// The rule of `expert_dtype`, by which DeepSeek-V4 stores routed experts in 4 bits with a scale for 32 of them, and computes
/// their products in 8 bits.
///
/// # Errors
/// If the type is unknown.
pub(super) fn expert_type<'a>(config: &Config<'a>) -> Result<Option<Rule<'a>>> {
    const KEY: &str = "expert_dtype";
    match config.text(KEY) {
        None | Some("fp8") => Ok(None),
        Some("fp4") => {
            let stored = Encoding::named("mxfp4").unwrap_or(Encoding::FP8);
            let format = Format { stored, compute: Some(Encoding::FP8) };
            Ok(Some(Rule::new(config, KEY, Covers::Experts, Some(format))))
        }
        Some(other) => Err(unknown(config, KEY, "type of experts", other, ["fp4", "fp8"].into_iter())),
    }
}

impl Draft<'_, '_> {
    /// Adds a rule for the modules of a list.
    fn list<'n>(
        &mut self,
        key: &'static str,
        entries: impl IntoIterator<Item = &'n str>,
        format: Option<Format>,
    ) -> Result<()> {
        let modules = Modules::new(self.config, key, entries)?;
        self.rules.push(Rule::new(self.config, key, Covers::Listed(modules), format));
        Ok(())
    }

    /// Excludes the modules that are listed under some keys.
    fn exclude(&mut self, keys: &[&'static str]) -> Result<()> {
        for key in keys {
            if let Some(entries) = self.config.texts(key)? {
                self.list(key, entries, None)?;
            }
        }
        Ok(())
    }

    /// Adds a rule for all linear modules.
    fn linear(&mut self, key: &'static str, format: Format) {
        let covers = Covers::Linear { towers: self.towers };
        self.classes.push(Rule::new(self.config, key, covers, Some(format)));
    }

    /// Adds the rules of `quantized_layers`, which has an algorithm for each module.
    fn layers(&mut self) -> Result<()> {
        const KEY: &str = "quantized_layers";
        let Some(layers) = self.config.inner(KEY)? else { return Ok(()) };
        let mut formats: Vec<(Format, Vec<&str>)> = Vec::new();
        for name in layers.keys() {
            let Some(layer) = layers.inner(name)? else { continue };
            let Some(algorithm) = layer.text("quant_algo") else { continue };
            let format = format::of_algorithm(&layer, "quant_algo", algorithm)?;
            match formats.iter_mut().find(|(known, _)| *known == format) {
                Some((_, names)) => names.push(name),
                None => formats.push((format, vec![name])),
            }
        }
        for (format, names) in formats {
            self.list(KEY, names, Some(format))?;
        }
        Ok(())
    }
}

/// DeepSeek-V3 and kin: 8-bit floating point with a scale for each block, or for each matrix.
fn fp8(draft: &mut Draft) -> Result<()> {
    let config = draft.config;
    if let Some(kind) = config
        .text("fmt")
        .filter(|kind| !matches!(kind.trim_start_matches("float8_"), "e4m3" | "e4m3fn" | "e5m2"))
    {
        return Err(unknown(config, "fmt", "floating-point format", kind, ["e4m3", "e5m2"].into_iter()));
    }
    draft.exclude(&["modules_to_not_convert", "ignored_layers"])?;
    draft.layers()?;
    let compute = Some(Encoding::FP8);
    let format = match config.value("weight_block_size") {
        Some(_) => format::block(config, "weight_block_size", 8, true, compute)?,
        None => Format { stored: Encoding::per_tensor(8, true), compute },
    };
    draft.linear("quant_method", format);
    Ok(())
}

/// FBGEMM: 8-bit floating point with a scale for each output.
fn fbgemm_fp8(draft: &mut Draft) -> Result<()> {
    draft.exclude(&["modules_to_not_convert"])?;
    let format = Format { stored: Encoding::per_channel(8, true), compute: Some(Encoding::FP8) };
    draft.linear("quant_method", format);
    Ok(())
}

/// Model Optimizer of NVIDIA: one algorithm for all linear modules, or one for each.
fn modelopt(draft: &mut Draft) -> Result<()> {
    let config = draft.config;
    draft.exclude(&["exclude_modules", "ignore", "modules_to_not_convert"])?;
    draft.layers()?;
    match config.text("quant_algo") {
        Some("MIXED_PRECISION") if config.inner("quantized_layers")?.is_none() => {
            let help = "check the quantisation; with MIXED_PRECISION it has an algorithm for each module";
            Err(config.fault("quantized_layers", "the key `quantized_layers` is missing", help))
        }
        Some("MIXED_PRECISION") => Ok(()),
        Some(name) => {
            let format = format::of_algorithm(config, "quant_algo", name)?;
            draft.linear("quant_algo", format);
            Ok(())
        }
        None if config.value("config_groups").is_some() => groups(draft),
        // The cache alone is quantised.
        None => Ok(()),
    }
}

/// gpt-oss: experts in the 4-bit microscaling format, decoded before their products.
fn mxfp4(draft: &mut Draft) -> Result<()> {
    draft.exclude(&["modules_to_not_convert"])?;
    let format = Encoding::named("mxfp4").map(|stored| Format { stored, compute: None });
    draft.classes.push(Rule::new(draft.config, "quant_method", Covers::Experts, format));
    Ok(())
}

/// compressed-tensors of vLLM: groups of modules by class or name, each with its format.
fn compressed_tensors(draft: &mut Draft) -> Result<()> {
    const FORMATS: &[&str] = &[
        "dense",
        "float-quantized",
        "int-quantized",
        "mixed-precision",
        "mxfp4-pack-quantized",
        "mxfp8-quantized",
        "naive-quantized",
        "nvfp4-pack-quantized",
        "pack-quantized",
    ];
    let config = draft.config;
    let checked = |config: &Config, key: &str| match config.text(key) {
        Some(name) if !FORMATS.contains(&name) => {
            Err(unknown(config, key, "format of compressed-tensors", name, FORMATS.iter().copied()))
        }
        _ => Ok(()),
    };
    checked(config, "format")?;
    if let Some(sparsity) = config.inner("sparsity_config")? {
        checked(&sparsity, "format")?;
    }
    draft.exclude(&["ignore"])?;
    groups(draft)
}

/// Rules of `config_groups`: those of names before those of classes.
fn groups(draft: &mut Draft) -> Result<()> {
    const KEY: &str = "config_groups";
    let Some(groups) = draft.config.inner(KEY)? else {
        let help = "check the quantisation; it has its groups of modules there";
        return Err(draft.config.fault(KEY, "the key `config_groups` is missing", help));
    };
    for name in groups.keys() {
        let Some(group) = groups.inner(name)? else { continue };
        let format = format::of_group(draft.config, &group)?;
        let targets = group.texts("targets")?.unwrap_or_else(|| vec!["Linear"]);
        let is_class = |target: &&str| matches!(*target, "Linear" | "LinearBase" | "FusedMoE");
        let (classes, names): (Vec<&str>, Vec<&str>) = targets.into_iter().partition(is_class);
        if !names.is_empty() {
            let modules = Modules::new(&group, "targets", names)?;
            draft.rules.push(Rule::new(&group, "targets", Covers::Listed(modules), Some(format)));
        }
        for class in classes {
            let covers = match class {
                "FusedMoE" => Covers::Experts,
                _ => Covers::Linear { towers: draft.towers },
            };
            draft.classes.push(Rule::new(&group, "targets", covers, Some(format)));
        }
    }
    Ok(())
}

/// AWQ: integers in groups, decoded before products.
fn awq(draft: &mut Draft) -> Result<()> {
    let config = draft.config;
    draft.exclude(&["modules_to_not_convert"])?;
    let bits = format::bits(config, &["bits", "w_bit"])?;
    let zero_point = config.flag("zero_point", true)?;
    let stored = match format::group_size(config, &["group_size", "q_group_size"])? {
        None => Some(Encoding::per_channel(bits, false)),
        Some(size) if zero_point => Encoding::grouped(bits, size),
        Some(size) => Encoding::symmetric(bits, size),
    };
    if let Some(stored) = stored {
        draft.linear("quant_method", Format { stored, compute: None });
    }
    Ok(())
}

/// GPTQ: integers in groups, decoded before products, in the layers of the language model. Its files have the group of each
/// input whether inputs are in the order of their activations (`desc_act`) or not.
fn gptq(draft: &mut Draft) -> Result<()> {
    let config = draft.config;
    draft.towers = false;
    let format = gptq_format(config, config)?;
    for (key, skip) in [("modules_to_not_convert", true), ("modules_in_block_to_quantize", false)] {
        let Some(lists) = config.list(key)? else { continue };
        let flat = lists
            .iter()
            .flat_map(|entry| entry.as_array().map_or(std::slice::from_ref(entry), Vec::as_slice));
        let names: Vec<&str> = flat.filter_map(Value::as_str).collect();
        draft.list(key, names, (!skip).then_some(format))?;
    }
    if let Some(dynamic) = config.inner("dynamic")? {
        for pattern in dynamic.keys() {
            // `-:` skips modules, and `+:` or nothing gives them other numbers of bits.
            let plain = pattern.strip_prefix("-:");
            let regex = format!("re:{}", plain.or(pattern.strip_prefix("+:")).unwrap_or(pattern));
            let own = match plain {
                Some(_) => None,
                None => {
                    Some(gptq_format(&dynamic.inner(pattern)?.unwrap_or_else(|| config.clone()), config)?)
                }
            };
            draft.list("dynamic", [regex.as_str()], own)?;
        }
    }
    if config.flag("lm_head", false)? {
        draft.list("lm_head", ["lm_head"], Some(format))?;
    }
    if config.value("modules_in_block_to_quantize").is_none() {
        draft.linear("quant_method", format);
    }
    Ok(())
}

/// The format of GPTQ under some keys, with those of `shared` where they are missing.
fn gptq_format(config: &Config, shared: &Config) -> Result<Format> {
    let bits = format::bits(if config.value("bits").is_some() { config } else { shared }, &["bits"])?;
    let sized = if config.value("group_size").is_some() { config } else { shared };
    let grouped = format::group_size(sized, &["group_size"])?.and_then(|size| Encoding::ordered(bits, size));
    Ok(Format { stored: grouped.unwrap_or(Encoding::per_channel(bits, false)), compute: None })
}

/// bitsandbytes: 4-bit numbers in groups of 64, decoded before products; or 8-bit integers.
fn bitsandbytes(draft: &mut Draft) -> Result<()> {
    let config = draft.config;
    draft.exclude(&["llm_int8_skip_modules"])?;
    let flag = |key: &str| Ok(config.flag(key, false)? || config.flag(&format!("_{key}"), false)?);
    let format = if flag("load_in_4bit")? {
        let double = config.flag("bnb_4bit_use_double_quant", false)?;
        let stored = Encoding::named(if double { "bnb4_double" } else { "bnb4" });
        stored.map(|stored| Format { stored, compute: None })
    } else if flag("load_in_8bit")? {
        Some(Format { stored: Encoding::per_channel(8, false), compute: Encoding::named("i8") })
    } else {
        let help = "check the quantisation; bitsandbytes stores 4 or 8 bits";
        return Err(config.fault("load_in_4bit", "neither `load_in_4bit` nor `load_in_8bit` is true", help));
    };
    if let Some(format) = format {
        draft.linear("quant_method", format);
    }
    Ok(())
}
