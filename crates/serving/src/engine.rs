//! Constants of engines, from `data/engines.toml`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use stagewright_formats::code::L;
use stagewright_formats::nearest::nearest;
use stagewright_formats::{InputError, Result};

/// The memory that an engine's share of memory refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOf {
    /// The device's memory: weights, caches and everything else have this share of it together.
    Total,
    /// The memory beside weights and buffers: caches have this share of it.
    Free,
}

/// Constants of an engine. Shares are between 0 and 1, times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Name, such as `vllm`.
    pub name: String,
    /// Software that the constants are of.
    pub source: String,
    /// Share of memory that the engine uses.
    pub memory_share: f64,
    /// What `memory_share` is a share of.
    pub memory_of: MemoryOf,
    /// Bytes of a device for the driver, graphs, and buffers of collectives and activations.
    pub outside_bytes: f64,
    /// Maximum number of tokens of prompts in a step.
    pub chunk: u64,
    /// Share of the memory's bandwidth at which products read weights.
    pub weight_bandwidth: f64,
    /// Share of the memory's bandwidth at which experts' weights are read.
    pub expert_bandwidth: f64,
    /// Share of the memory's bandwidth at which caches are read in decode steps.
    pub cache_bandwidth: f64,
    /// Share of the peak that products of many tokens reach.
    pub products: f64,
    /// Share of the peak that products of experts reach.
    pub expert_products: f64,
    /// Share of the peak that attention reaches.
    pub attention: f64,
    /// Share of the bandwidth of links that collectives reach.
    pub link: f64,
    /// Seconds of a collective for every doubling of its devices.
    pub hop_s: f64,
    /// FLOP, outside of matrix units, to decode a weight that is stored in fewer bits than it is multiplied in.
    pub decoding: f64,
    /// Seconds of a step of a pool that only decodes, as a share of those of the same step among prompts.
    pub decode_share: f64,
    /// Seconds to hand a request over from a pool for prompts, beside sending its cache.
    pub handoff_s: f64,
    /// Reads and writes of the hidden state by the small kernels of a layer.
    pub activations: f64,
    /// Seconds of a kernel beyond its work.
    pub launch_s: f64,
    /// Seconds of a step for a sequence: scheduling and sampling.
    pub sequence_s: f64,
    /// Share of the time of other requests' prompts that a request decodes through.
    pub prompt_share: f64,
    /// Decode steps before the first token, beside the prompt's own.
    pub wait_steps: f64,
    /// Seconds before the first token, beside steps.
    pub wait_s: f64,
    /// Share of the other requests' prompts that a request waits for, in a benchmark whose requests begin all at once.
    pub burst: f64,
}

impl Engine {
    /// Bytes for caches on a device with `memory` bytes beside `weights`; negative if the weights do not fit.
    pub fn cache_budget(&self, memory: f64, weights: f64) -> f64 {
        let taken = weights + self.outside_bytes;
        match self.memory_of {
            MemoryOf::Total => self.memory_share * memory - taken,
            MemoryOf::Free if taken > memory => memory - taken,
            MemoryOf::Free => self.memory_share * (memory - taken),
        }
    }

    /// The first field outside its range, with its value; `None` if all are in theirs.
    pub fn fault(&self) -> Option<(&'static str, f64)> {
        let shares = [
            ("memory_share", self.memory_share),
            ("weight_bandwidth", self.weight_bandwidth),
            ("expert_bandwidth", self.expert_bandwidth),
            ("cache_bandwidth", self.cache_bandwidth),
            ("products", self.products),
            ("expert_products", self.expert_products),
            ("attention", self.attention),
            ("link", self.link),
        ];
        let amounts = [
            ("outside_bytes", self.outside_bytes),
            ("hop_s", self.hop_s),
            ("decoding", self.decoding),
            ("decode_share", self.decode_share),
            ("handoff_s", self.handoff_s),
            ("activations", self.activations),
            ("launch_s", self.launch_s),
            ("sequence_s", self.sequence_s),
            ("prompt_share", self.prompt_share),
            ("wait_steps", self.wait_steps),
            ("wait_s", self.wait_s),
            ("burst", self.burst),
        ];
        let is_share = |value: f64| value > 0.0 && value <= 1.0;
        let is_amount = |value: f64| value.is_finite() && value >= 0.0;
        let wrong_share = shares.into_iter().find(|&(_, value)| !is_share(value));
        let wrong_amount = || amounts.into_iter().find(|&(_, value)| !is_amount(value));
        let wrong_chunk = || (self.chunk == 0).then_some(("chunk", 0.0));
        wrong_share.or_else(wrong_amount).or_else(wrong_chunk)
    }
}

static ENGINES: LazyLock<Vec<Engine>> = LazyLock::new(|| {
    let text = include_str!("../../../data/engines.toml");
    read_all(text).unwrap_or_else(|error| panic!("data/engines.toml: {error}"))
});

fn read_all(text: &str) -> std::result::Result<Vec<Engine>, toml::de::Error> {
    let file: toml::Table = text.parse()?;
    let table = |name: &str| file.get(name).and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let common = table("common");
    let read = |(name, own): (String, toml::Value)| {
        let mut all = common.clone();
        all.insert("name".into(), name.into());
        all.extend(own.try_into::<toml::Table>()?);
        all.try_into()
    };
    table("engines").into_iter().map(read).collect()
}

/// The engines of `data/engines.toml`, by their names.
pub fn engines() -> &'static [Engine] {
    &ENGINES
}

/// The engine of a name; `trtllm` is short for `tensorrt-llm`. Case is ignored.
///
/// # Errors
/// If there is no such engine (L022). `label` names the input that has the name.
pub fn engine(label: &str, name: &str) -> Result<&'static Engine> {
    let wanted = name.to_ascii_lowercase();
    let wanted = if wanted == "trtllm" { "tensorrt-llm" } else { &wanted };
    ENGINES.iter().find(|engine| engine.name == wanted).ok_or_else(|| {
        let names = || ENGINES.iter().map(|engine| engine.name.as_str());
        let help = match nearest(wanted, names()) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("the engines are {}", names().collect::<Vec<_>>().join(", ")),
        };
        InputError::at_path(L::L022, label, "engine", format!("unknown engine `{name}`"), help)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_engines_are_in_range() {
        assert_eq!(engines().len(), 3);
        for engine in engines() {
            assert_eq!(engine.fault(), None, "{}", engine.name);
        }
    }

    #[test]
    fn engines_are_found_by_name_and_others_are_refused() {
        assert_eq!(engine("--engine", "TRTLLM").unwrap().name, "tensorrt-llm");
        let error = engine("--engine", "vlm").unwrap_err();
        assert_eq!(error.code.name, "L022");
        assert!(error.help.contains("vllm"), "{}", error.help);
    }

    #[test]
    fn faults_name_their_field() {
        let base = engine("", "vllm").unwrap().clone();
        assert_eq!(Engine { link: 1.5, ..base.clone() }.fault(), Some(("link", 1.5)));
        assert_eq!(Engine { burst: -1.0, ..base.clone() }.fault(), Some(("burst", -1.0)));
        assert_eq!(Engine { chunk: 0, ..base }.fault(), Some(("chunk", 0.0)));
    }
}
