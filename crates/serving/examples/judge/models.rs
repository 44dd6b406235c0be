//! Models by the names that rows give them, from the hyperparameters of `models.json`.
//!
//! A model is read as a user's `config.json` would be, with a quantisation beside it that follows from the row's label:
//! `fp8` quantises all products, `fp4` and `int4` those that published checkpoints quantise. Where a configuration has its
//! own quantisation (gpt-oss), the label is ignored.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};
use stagewright_costs::Costs;
use stagewright_serving::Model;
use stagewright_structure::Encoding;
use stagewright_structure::huggingface::{self, Reading};

#[derive(Debug, Deserialize)]
struct Entry {
    names: Vec<String>,
    #[serde(rename = "source")]
    _source: String,
    config: Value,
    #[serde(default)]
    nvfp4_excludes: Vec<String>,
    #[serde(default)]
    int4_excludes: Vec<String>,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    serde_json::from_slice(include_bytes!("models.json"))
        .unwrap_or_else(|error| panic!("models.json: {error}"))
});

/// Models that were read, by name and label.
#[derive(Debug, Default)]
pub(crate) struct Models {
    known: BTreeMap<(String, String), usize>,
    models: Vec<Model>,
    costs: Option<Costs>,
}

/// A number of a model in [`Models`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelId(usize);

impl Models {
    /// Models whose times use measurements where those have them.
    pub(crate) fn with_costs(costs: Option<Costs>) -> Models {
        Models { costs, ..Models::default() }
    }

    /// The measurements.
    pub(crate) fn costs(&self) -> Option<&Costs> {
        self.costs.as_ref()
    }

    /// The number of a model with a label of its precision, or the reason that it is not known.
    pub(crate) fn find(&mut self, path: &str, label: &str) -> Result<ModelId, String> {
        let name = plain(path);
        let key = (name.clone(), label.to_owned());
        if let Some(&index) = self.known.get(&key) {
            return Ok(ModelId(index));
        }
        let is_named = |entry: &&Entry| entry.names.iter().any(|known| plain(known) == name);
        let entry = ENTRIES.iter().find(is_named).ok_or_else(|| format!("model `{path}` is not known"))?;
        let model = read(entry, label)?;
        self.models.push(model);
        self.known.insert(key, self.models.len() - 1);
        Ok(ModelId(self.models.len() - 1))
    }

    /// The model of a number.
    pub(crate) fn get(&self, id: ModelId) -> &Model {
        &self.models[id.0]
    }
}

/// Words of names that say how a checkpoint was made, not which model it is.
const FILLERS: [&str; 12] =
    ["v0.1", "hf", "it", "instruct", "fp8", "nvfp4", "bf16", "mxfp4", "int4", "meta", "chat", "2507"];

/// The last part of a path in lower case, without fillers.
fn plain(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let words = name.split(['-', '_']).filter(|word| !word.is_empty() && !FILLERS.contains(word));
    words.collect::<Vec<_>>().join("-")
}

fn read(entry: &Entry, label: &str) -> Result<Model, String> {
    let (algorithm, excluded): (_, &[String]) = match label {
        "" | "bf16" | "fp16" => (None, &[]),
        "fp8" => (Some("FP8"), &[]),
        "fp4" => (Some("NVFP4"), &entry.nvfp4_excludes),
        "int4" => (Some("W4A16_AWQ"), &entry.int4_excludes),
        other => return Err(format!("precision `{other}` is not known")),
    };
    let beside = algorithm.map(|algorithm| {
        json!({"quantization": {"quant_algo": algorithm, "exclude_modules": excluded}}).to_string()
    });
    let beside = beside.as_ref().map(|text| ("hf_quant_config.json", text.as_bytes()));
    let config = entry.config.to_string();
    let structure = huggingface::read("config.json", config.as_bytes(), beside, &Reading::default())
        .map_err(|error| error.to_string())?;
    let mut model = Model::new("config.json", &structure).map_err(|error| error.to_string())?;
    // The sweeps kept caches in 8 bits beside weights in 8 or 4 bits: in 16 bits, batches that ran without a queue would not
    // have fitted.
    model.cache = if matches!(label, "fp8" | "fp4") { Encoding::FP8 } else { Encoding::BF16 };
    Ok(model)
}
