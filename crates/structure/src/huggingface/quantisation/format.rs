//! Formats of quantised products: how their weights are stored, and what they compute in.

use serde_json::Value;
use stagewright_formats::nearest::nearest;
use stagewright_formats::{InputError, Result};

use super::super::config::Config;
use crate::encoding::Encoding;

/// Format of a quantised product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    /// Encoding of the weights.
    pub(super) stored: Encoding,
    /// Encoding of both operands of a product; `None` if weights are decoded to that of the activations.
    pub(super) compute: Option<Encoding>,
}

/// A format by the names of its encodings.
struct Algorithm {
    name: &'static str,
    stored: &'static str,
    compute: Option<&'static str>,
}

const fn algorithm(name: &'static str, stored: &'static str, compute: Option<&'static str>) -> Algorithm {
    Algorithm { name, stored, compute }
}

/// Algorithms (`quant_algo`) of NVIDIA's Model Optimizer and of TensorRT-LLM.
const ALGORITHMS: &[Algorithm] = &[
    algorithm("FP8", "fp8_tensor", Some("fp8")),
    algorithm("FP8_PER_CHANNEL_PER_TOKEN", "fp8_channel", Some("fp8")),
    algorithm("FP8_BLOCK_SCALES", "fp8_128x128", Some("fp8")),
    algorithm("FP8_PB_WO", "fp8_128x128", None),
    algorithm("NVFP4", "nvfp4_tensor", Some("nvfp4")),
    algorithm("NVFP4_AWQ", "nvfp4_tensor", Some("nvfp4")),
    algorithm("W4A16_NVFP4", "nvfp4_tensor", None),
    algorithm("W4A8_NVFP4_FP8", "nvfp4_tensor", Some("fp8")),
    algorithm("MXFP4", "mxfp4", Some("mxfp4")),
    algorithm("W4A16_MXFP4", "mxfp4", None),
    algorithm("W4A8_MXFP4_FP8", "mxfp4", Some("fp8")),
    algorithm("W4A8_MXFP4_MXFP8", "mxfp4", Some("mxfp8")),
    algorithm("MXFP8", "mxfp8", Some("mxfp8")),
    algorithm("INT4_AWQ", "int4_g128s", None),
    algorithm("W4A16_AWQ", "int4_g128s", None),
    algorithm("W4A8_AWQ", "int4_g128s", Some("fp8")),
    algorithm("W4A16", "int4_channel", None),
    algorithm("W8A16", "int8_channel", None),
    algorithm("INT8_SQ", "int8_channel", Some("i8")),
    algorithm("W8A8_SQ_PER_CHANNEL", "int8_channel", Some("i8")),
];

fn encoding(name: &str) -> Option<Encoding> {
    Encoding::named(name)
}

/// The format of an algorithm under a key, with the size of its groups under `group_size` of `config`.
///
/// # Errors
/// If the algorithm is unknown, or has no groups of that size.
pub(super) fn of_algorithm(config: &Config, key: &str, name: &str) -> Result<Format> {
    let Some(algorithm) = ALGORITHMS.iter().find(|algorithm| algorithm.name == name) else {
        let known = ALGORITHMS.iter().map(|algorithm| algorithm.name);
        return Err(unknown(config, key, "quantisation algorithm", name, known));
    };
    let group = config.count(&["group_size"])?.filter(|&group| group > 0);
    let fixed = match algorithm.stored {
        "nvfp4_tensor" => Some(16),
        "mxfp4" | "mxfp8" => Some(32),
        "fp8_128x128" => Some(128),
        _ => None,
    };
    if let (Some(fixed), Some(group)) = (fixed, group.filter(|&group| Some(group) != fixed)) {
        let message = format!("{name} has groups of {fixed} numbers, not of {group}");
        return Err(config.fault("group_size", message, "check the size of groups"));
    }
    let grouped = group.filter(|_| algorithm.stored.ends_with("128s"));
    let stored = match grouped.and_then(|group| u32::try_from(group).ok()) {
        Some(group) => Encoding::symmetric(4, group),
        None => encoding(algorithm.stored),
    };
    let stored =
        stored.ok_or_else(|| config.fault("group_size", "senseless size of groups", "check the value"))?;
    Ok(Format { stored, compute: algorithm.compute.and_then(encoding) })
}

/// The format of the weights and inputs of a group of compressed-tensors.
///
/// # Errors
/// If the number of bits, the type or the strategy is missing or unknown.
pub(super) fn of_group(config: &Config, group: &Config) -> Result<Format> {
    let Some(weights) = group.inner("weights")? else {
        let help = "check the quantisation; a group says how its weights are stored";
        return Err(group.fault("weights", "the group has no weights", help));
    };
    let layout = group.text("format").or_else(|| config.text("format")).unwrap_or_default();
    let bits = bits(&weights, &["num_bits"])?;
    let is_float = is_float(&weights)?;
    let size = group_size(&weights, &["group_size"])?;
    let strategy = weights.text("strategy").unwrap_or(match size {
        Some(_) => "group",
        None => "tensor",
    });
    let stored = match (strategy, is_float, bits) {
        ("tensor_group" | "group", true, 4) if layout.starts_with("mxfp4") || size == Some(32) => {
            encoding("mxfp4")
        }
        ("tensor_group" | "group", true, 4) if size == Some(16) => encoding("nvfp4_tensor"),
        ("group", true, 8) if size == Some(32) => encoding("mxfp8"),
        ("tensor", ..) => Some(Encoding::per_tensor(bits, is_float)),
        ("channel", ..) => Some(Encoding::per_channel(bits, is_float)),
        ("block", ..) => return block(&weights, "block_structure", bits, is_float, inputs(group, bits)?),
        ("group", false, _) => match size {
            None => Some(Encoding::per_channel(bits, false)),
            Some(size) if weights.flag("symmetric", true)? => Encoding::symmetric(bits, size),
            Some(size) => Encoding::grouped(bits, size),
        },
        _ => None,
    };
    match stored {
        Some(stored) => Ok(Format { stored, compute: inputs(group, bits)? }),
        None => {
            let kind = if is_float { "floating-point" } else { "integer" };
            let message =
                format!("no format has {bits}-bit {kind} weights with scales by `{strategy}` of this size");
            Err(weights.fault(
                "strategy",
                message,
                "the strategies are tensor, channel, block, group, tensor_group",
            ))
        }
    }
}

/// Encoding that the products of a group compute in; `None` if its inputs are not quantised.
fn inputs(group: &Config, weight_bits: u8) -> Result<Option<Encoding>> {
    let Some(inputs) = group.inner("input_activations")? else { return Ok(None) };
    let compute =
        match (is_float(&inputs)?, bits(&inputs, &["num_bits"])?, group_size(&inputs, &["group_size"])?) {
            (true, 8, Some(32)) => "mxfp8",
            (true, 8, _) => "fp8",
            (true, 4, Some(32)) => "mxfp4",
            (true, 4, _) => "nvfp4",
            // Products of integers of different sizes are computed in the larger ones.
            (false, 8, _) => "i8",
            (_, bits, _) => {
                let message = format!("no product has inputs of {bits} bits and weights of {weight_bits}");
                return Err(inputs.fault("num_bits", message, "check the value"));
            }
        };
    Ok(encoding(compute))
}

/// The format of numbers with a 32-bit scale for blocks, whose two sides are under a key.
///
/// # Errors
/// If there are not two sides, or one of them is 0.
pub(super) fn block(
    config: &Config,
    key: &str,
    bits: u8,
    is_float: bool,
    compute: Option<Encoding>,
) -> Result<Format> {
    let sides = config.counts(key)?.unwrap_or_default();
    let stored = match sides[..] {
        [rows, columns] => {
            let side = |side: u64| u32::try_from(side).ok();
            side(rows)
                .zip(side(columns))
                .and_then(|(rows, columns)| Encoding::tiled(bits, is_float, rows, columns))
        }
        _ => None,
    };
    let fault = || config.fault(key, "the value is not the two sides of a block", "write them as [128, 128]");
    Ok(Format { stored: stored.ok_or_else(fault)?, compute })
}

/// Number of bits under the first of several keys that is present.
pub(super) fn bits(config: &Config, keys: &[&str]) -> Result<u8> {
    let bits = config.need(keys)?;
    u8::try_from(bits).ok().filter(|bits| (2..=8).contains(bits)).ok_or_else(|| {
        let key = keys.iter().find(|key| config.value(key).is_some()).unwrap_or(&keys[0]);
        config.fault(key, format!("quantised numbers have 2 to 8 bits, not {bits}"), "check the value")
    })
}

fn is_float(config: &Config) -> Result<bool> {
    match config.text("type").unwrap_or("int") {
        "float" => Ok(true),
        "int" => Ok(false),
        other => Err(config.fault(
            "type",
            format!("unknown type of numbers `{other}`"),
            "the types are int and float",
        )),
    }
}

/// Size of groups under the first of several keys that is present; `None` if a group is a whole row, which is written as −1.
pub(super) fn group_size(config: &Config, keys: &[&str]) -> Result<Option<u32>> {
    let given = |key: &&&str| config.value(key).is_some();
    if keys.iter().find(given).and_then(|key| config.value(key)).and_then(Value::as_i64) == Some(-1) {
        return Ok(None);
    }
    let size = config.count(keys)?;
    match size.map(u32::try_from) {
        None => Ok(None),
        Some(Ok(size)) if size > 0 => Ok(Some(size)),
        Some(_) => Err(config.fault(keys[0], "a group has at least one number", "write -1 for a whole row")),
    }
}

/// Encoding of cached keys and values: `kv_cache_scheme` or `kv_cache_quant_algo`.
///
/// # Errors
/// If it is unknown.
pub(super) fn cache(config: &Config) -> Result<Option<Encoding>> {
    let key = ["kv_cache_scheme", "kv_cache_quant_algo"].into_iter().find(|key| config.value(key).is_some());
    let Some(key) = key else { return Ok(None) };
    if config.text(key).is_none() {
        let scheme = config.inner(key)?;
        let parts = scheme.as_ref().map(|scheme| Ok((is_float(scheme)?, bits(scheme, &["num_bits"])?)));
        return match parts.transpose()? {
            Some((true, 8)) => Ok(Some(Encoding::FP8)),
            Some((true, 4)) => Ok(encoding("nvfp4")),
            Some((false, 8)) => Ok(encoding("i8")),
            _ => Err(config.fault(key, "unknown encoding of the cache", "the encodings have 8 or 4 bits")),
        };
    }
    match config.text(key).unwrap_or_default() {
        "FP8" | "fp8" | "fp8_e4m3" | "fp8_e5m2" => Ok(Some(Encoding::FP8)),
        "NVFP4" | "nvfp4" => Ok(encoding("nvfp4")),
        "INT8" | "int8" => Ok(encoding("i8")),
        "NONE" | "none" | "auto" | "" => Ok(None),
        other => {
            Err(unknown(config, key, "encoding of the cache", other, ["FP8", "NVFP4", "INT8"].into_iter()))
        }
    }
}

/// An error about an unknown name under a key, with the known ones.
pub(super) fn unknown<'n>(
    config: &Config,
    key: &str,
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'n str> + Clone,
) -> InputError {
    let near = nearest(name, known.clone()).map_or_else(String::new, |near| format!("did you mean {near}? "));
    let help = format!("{near}The known ones are {}", known.collect::<Vec<_>>().join(", "));
    config.fault(key, format!("unknown {kind} `{name}`"), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_encodings() {
        for algorithm in ALGORITHMS {
            assert!(encoding(algorithm.stored).is_some(), "{}", algorithm.name);
            assert!(
                algorithm.compute.is_none_or(|compute| encoding(compute).is_some()),
                "{}",
                algorithm.name
            );
        }
    }
}
