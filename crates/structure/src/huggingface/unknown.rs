//! Configurations of unknown architectures: what they have, and which known architecture they resemble.
//!
//! Every reader tries the configuration. The nearest one reads it without an error, by its keys rather than by defaults, and
//! uses the most of them; the kind of normalisation that an epsilon names counts as one more. Among equals the name
//! decides, then how plain the architecture is.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::{Map, Value};
use stagewright_formats::InputError;
use stagewright_formats::nearest::nearest;

use super::config::{Config, Used};
use super::widths::WIDTHS;
use super::{ARCHITECTURES, Architecture};
use crate::structure::{Norm, Structure};

/// Architectures that others resemble, the plainest first.
const PLAIN: [&str; 7] = ["llama", "phi3", "gpt2", "mixtral", "qwen3_moe", "deepseek_v3", "bert"];

/// Number of keys that an error names.
const TOLD: usize = 8;
/// Number of keys that an error names as not read.
const UNREAD: usize = 4;

/// Outcome of reading a configuration as an architecture.
struct Trial {
    architecture: &'static Architecture,
    used: Used,
    structure: Result<Structure, InputError>,
}

/// Help for a configuration whose architecture is unknown, or has no name.
pub(super) fn help(label: &str, map: &Map<String, Value>, name: Option<&str>) -> String {
    let is_slip = |name: &str, near: &String| near.len().abs_diff(name.len()) <= 1;
    let known = || ARCHITECTURES.iter().map(|known| known.name);
    let spelt = name.and_then(|name| nearest(name, known()).filter(|near| is_slip(name, near)));
    let trials = ARCHITECTURES.iter().map(|architecture| try_as(label, map, architecture));
    let rank = |trial: &Trial| {
        let name = trial.architecture.name;
        let place = PLAIN.iter().position(|plain| *plain == name).unwrap_or(PLAIN.len());
        let evidence = evidence(map, trial);
        let is_read = trial.structure.is_ok() && evidence > trial.used.defaults.len();
        (is_read, evidence, spelt.as_deref() == Some(name), Reverse(place))
    };
    // Of equals the first of the table: `max_by_key` would give the last.
    let Some(trial) = trials.reduce(|best, trial| if rank(&trial) > rank(&best) { trial } else { best })
    else {
        return String::new();
    };
    let near = trial.architecture.name;
    let mut help = format!("{}the nearest known one is {near}", has(map));
    if let Some(spelt) = spelt.filter(|spelt| spelt != near) {
        help.push_str(&format!(" by its keys, {spelt} by its name"));
    }
    match &trial.structure {
        Ok(_) => {
            help.push_str(&format!(
                ". If the layers are the same, say so with --as {near}, and with --set NAME=N what the file does not say"
            ));
            let unread = unread(map, &trial.used.present);
            if !unread.is_empty() {
                help.push_str(&format!("; {} would not be read", unread.join(", ")));
            }
        }
        Err(error) => {
            help.push_str(&format!(", but {}. Give it with --as {near} --set NAME=N", error.message));
        }
    }
    help
}

fn try_as(label: &str, map: &Map<String, Value>, architecture: &'static Architecture) -> Trial {
    let used = RefCell::new(Used::default());
    let structure = (architecture.read)(&Config::new(label, map).recording(&used));
    Trial { architecture, structure: structure.map(|(structure, _)| structure), used: used.into_inner() }
}

/// Number of keys that a trial used; those that are false, or texts, tell nothing.
fn evidence(map: &Map<String, Value>, trial: &Trial) -> usize {
    let tells = |path: &&String| {
        let value = path.split('.').try_fold(None, |object: Option<&Value>, key| {
            let inner = object.map_or_else(|| map.get(key), |object| object.get(key));
            inner.map(Some)
        });
        !matches!(value.flatten(), None | Some(Value::Bool(false) | Value::String(_)))
    };
    let norms = [
        (Norm::Rms, &["rms_norm_eps"][..]),
        (Norm::Layer, &["layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon"]),
    ];
    let is_normed = |(norm, keys): &(Norm, &[&str])| {
        let has = keys.iter().any(|key| objects(map).any(|object| object.contains_key(*key)));
        has && trial.structure.as_ref().is_ok_and(|structure| structure.norm == *norm)
    };
    trial.used.present.iter().filter(tells).count() + norms.iter().filter(|norm| is_normed(norm)).count()
}

/// The configuration of the language model, if there is one, and the whole.
fn objects(map: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    map.get("text_config").and_then(Value::as_object).into_iter().chain([map])
}

/// The keys that matter with their values.
fn has(map: &Map<String, Value>) -> String {
    let keys = ["kv_lora_rank"].into_iter().chain(WIDTHS.iter().flat_map(|width| width.keys.iter().copied()));
    let mut seen = BTreeSet::new();
    let shown = keys.filter(|key| seen.insert(*key)).filter_map(|key| {
        let value = objects(map).find_map(|object| object.get(key).filter(|value| value.is_number()))?;
        Some(format!("{key} {value}"))
    });
    let shown = shown.take(TOLD).collect::<Vec<_>>().join(", ");
    if shown.is_empty() { shown } else { format!("the file has {shown}; ") }
}

/// Keys with a count that an architecture does not use. Numbers of tokens, and of positions in a rotation, are no widths.
fn unread<'a>(map: &'a Map<String, Value>, used: &BTreeSet<String>) -> Vec<&'a str> {
    let is_count = |(key, value): &(&String, &Value)| {
        let names = ["token", "rope", "position", "version", "seed", "tp"];
        value.as_u64().is_some_and(|count| count > 1) && !names.iter().any(|name| key.contains(name))
    };
    let is_used = |key: &str| used.iter().any(|path| path.rsplit('.').next() == Some(key));
    let keys = objects(map).flat_map(|object| object.iter().filter(is_count).map(|(key, _)| key.as_str()));
    keys.filter(|key| !is_used(key)).take(UNREAD).collect()
}
