//! Overrides of a configuration: a model with other widths than its file has.
//!
//! A width has one name for all architectures (`hidden`, `experts`), and several keys that configurations write it under.
//! An override goes to the key that the configuration has and its architecture reads, or else to the first that the
//! architecture reads. Which keys an architecture reads is found by experiment: a key is read if another value of it
//! changes that width of the structure, or makes the reader fail where it did not.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use stagewright_core::code::Code;
use stagewright_formats::code::M;
use stagewright_formats::nearest::nearest;
use stagewright_formats::{InputError, Result};

use super::Read;
use super::config::Config;
use super::widths::{WIDTHS, Width};

/// How a configuration is read.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// Architecture that is read instead of the `model_type` of the configuration.
    pub architecture: Option<&'a str>,
    /// Values that replace those of the configuration: by the name of a width, such as `layers` or `hidden`, or by a key
    /// of the configuration. A flag is 0 or 1.
    pub set: &'a BTreeMap<String, u64>,
}

impl Default for Reading<'_> {
    fn default() -> Self {
        static NONE: BTreeMap<String, u64> = BTreeMap::new();
        Reading { architecture: None, set: &NONE }
    }
}

impl Reading<'_> {
    /// The error with what was overridden in its help, if anything was.
    pub fn explain(&self, mut error: InputError) -> InputError {
        if !self.set.is_empty() && error.code != Code::from(M::M018) {
            let set = self.set.iter().map(|(name, value)| format!("{name}={value}"));
            let set = set.collect::<Vec<_>>().join(", ");
            error.help = format!("{}; the configuration was read with --set {set}", error.help);
        }
        error
    }
}

/// Lists by layer that go on to the prediction layers.
const LISTS: [&str; 2] = ["layer_types", "compress_ratios"];

/// Values that are tried to see whether a key is read.
const TRIED: [u64; 2] = [1, 2];

/// Outcome of reading a configuration: the part of the structure that matters, or the error.
type Outcome = std::result::Result<String, InputError>;

/// A value that replaces one of the configuration.
struct Override<'a> {
    name: &'a str,
    value: u64,
    /// Keys that it may be written under, those first that are preferred.
    places: Vec<Place>,
    /// Whether it is true or false.
    is_flag: bool,
    /// Width that it is; `None` for a key of the configuration.
    width: Option<&'static Width>,
}

/// A key of the configuration, or of the language model in it.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    in_text: bool,
    key: String,
}

/// A configuration that is changed, with the reader of its architecture.
struct Draft<'a> {
    label: &'a str,
    map: &'a mut Map<String, Value>,
    read: fn(&Config) -> Result<Read>,
}

/// Writes values over those of a configuration.
///
/// # Errors
/// If a name is that of no width and no key of the configuration, a value is none for the key, or the architecture does
/// not read the width (M018). If the architecture cannot be read with the other values, its own error.
pub(super) fn apply(
    label: &str,
    map: &mut Map<String, Value>,
    set: &BTreeMap<String, u64>,
    read: fn(&Config) -> Result<Read>,
) -> Result<()> {
    if set.is_empty() {
        return Ok(());
    }
    let mut draft = Draft { label, map, read };
    let mut waiting: Vec<Override> =
        set.iter().map(|(name, &value)| draft.resolve(name, value)).collect::<Result<_>>()?;
    let mut written = Vec::new();
    // A key may be read only once another is there, as the second of two that a file lacks.
    while let Some((index, place)) = draft.next(&waiting) {
        let change = waiting.remove(index);
        draft.write(&place, &change);
        written.push((change, place));
    }
    draft.outcome(None)?;
    for (change, place) in &written {
        if !draft.is_read(place, change) {
            return Err(draft.without_effect(change));
        }
    }
    waiting.first().map_or(Ok(()), |change| Err(draft.without_effect(change)))
}

fn fault(label: &str, name: &str, message: impl Into<String>, help: impl Into<String>) -> InputError {
    InputError::at_path(M::M018, label, format!("--set {name}"), message, help)
}

fn names() -> String {
    WIDTHS.iter().map(|width| width.name).collect::<Vec<_>>().join(", ")
}

impl Draft<'_> {
    fn object(&self, in_text: bool) -> Option<&Map<String, Value>> {
        if in_text { self.map.get("text_config")?.as_object() } else { Some(self.map) }
    }

    fn object_mut(&mut self, in_text: bool) -> Option<&mut Map<String, Value>> {
        if in_text { self.map.get_mut("text_config")?.as_object_mut() } else { Some(self.map) }
    }

    fn value(&self, place: &Place) -> Option<&Value> {
        self.object(place.in_text)?.get(&place.key)
    }

    /// Places of the keys: those that are there, then those that are not; those of the language model first.
    fn places<'k>(&self, keys: impl Iterator<Item = &'k str> + Clone) -> Vec<Place> {
        let objects = [true, false].into_iter().filter(|&in_text| self.object(in_text).is_some());
        let place = |in_text, key: &str| Place { in_text, key: key.to_owned() };
        let mut places: Vec<Place> =
            objects.flat_map(|in_text| keys.clone().map(move |key| place(in_text, key))).collect();
        places.sort_by_key(|place| self.value(place).is_none());
        places
    }

    /// An override by its name: that of a width, or a key of the configuration.
    fn resolve<'n>(&self, name: &'n str, value: u64) -> Result<Override<'n>> {
        let width = WIDTHS.iter().find(|width| width.name == name);
        let mut places = match width {
            Some(width) => self.places(width.keys.iter().copied()),
            None => self.places(std::iter::once(name)),
        };
        if width.is_none() {
            places.retain(|place| self.value(place).is_some());
        }
        let Some(first) = places.first().map(|place| self.value(place)) else {
            return Err(self.unknown(name));
        };
        let is_flag = width.map_or(matches!(first, Some(Value::Bool(_))), |width| width.name == "tied");
        if is_flag && value > 1 {
            let message = format!("`{name}` is true or false, and {value} is neither");
            return Err(fault(self.label, name, message, "write 1 for true and 0 for false"));
        }
        if width.is_none() && !matches!(first, Some(Value::Number(_) | Value::Bool(_) | Value::Null)) {
            let help = format!("change the file, or set one of {}", names());
            return Err(fault(self.label, name, format!("the value of `{name}` is no number"), help));
        }
        Ok(Override { name, value, places, is_flag, width })
    }

    fn unknown(&self, name: &str) -> InputError {
        let is_settable = |(key, value): (&'_ String, &Value)| {
            matches!(value, Value::Number(_) | Value::Bool(_)).then(|| key.clone())
        };
        let objects = [true, false].into_iter().filter_map(|in_text| self.object(in_text));
        let keys: Vec<String> = objects.flat_map(|object| object.iter().filter_map(is_settable)).collect();
        let known = WIDTHS.iter().map(|width| width.name).chain(keys.iter().map(String::as_str));
        let near = nearest(name, known).map_or_else(String::new, |near| format!("the nearest is {near}; "));
        let help = format!("{near}set one of {}, or a key of the configuration", names());
        fault(self.label, name, format!("`{name}` is no width, and no key of the configuration"), help)
    }

    fn without_effect(&mut self, change: &Override) -> InputError {
        let read = |width: &&'static Width| {
            let places = self.places(width.keys.iter().copied());
            let name = width.name;
            let change = Override { name, value: 1, places, is_flag: name == "tied", width: Some(width) };
            self.place_of(&change).is_some()
        };
        let read: Vec<&str> = WIDTHS.iter().filter(read).map(|width| width.name).collect();
        let message = format!("`{}` changes nothing in this model", change.name);
        fault(self.label, change.name, message, format!("the model has {}", read.join(", ")))
    }

    /// The first of several overrides whose key is read, with its place.
    fn next(&mut self, waiting: &[Override]) -> Option<(usize, Place)> {
        waiting.iter().enumerate().find_map(|(index, change)| Some((index, self.place_of(change)?)))
    }

    /// The first place of an override that is read.
    fn place_of(&mut self, change: &Override) -> Option<Place> {
        change.places.iter().find(|place| self.is_read(place, change)).cloned()
    }

    /// Whether another value at a place changes what the reader makes of the configuration.
    fn is_read(&mut self, place: &Place, change: &Override) -> bool {
        let before = self.outcome(change.width);
        let values = [change.value, TRIED[0], TRIED[1]];
        values.into_iter().any(|value| self.tried(place, json(value, change.is_flag), change.width) != before)
    }

    /// The outcome with another value at a place.
    fn tried(&mut self, place: &Place, value: Value, width: Option<&Width>) -> Outcome {
        let Some(object) = self.object_mut(place.in_text) else { return self.outcome(width) };
        let before = object.insert(place.key.clone(), value);
        let outcome = self.outcome(width);
        if let Some(object) = self.object_mut(place.in_text) {
            match before {
                Some(value) => object.insert(place.key.clone(), value),
                None => object.remove(&place.key),
            };
        }
        outcome
    }

    fn outcome(&self, width: Option<&Width>) -> Outcome {
        let (structure, _) = (self.read)(&Config::new(self.label, self.map))?;
        Ok(match width {
            Some(width) => format!("{:?}", (width.of)(&structure)),
            None => crate::write_structure(&structure),
        })
    }

    /// Writes an override. Fewer layers keep what lists by layer say of the first and of the prediction layers.
    fn write(&mut self, place: &Place, change: &Override) {
        let before = self.value(place).and_then(Value::as_u64);
        let Some(object) = self.object_mut(place.in_text) else { return };
        object.insert(place.key.clone(), json(change.value, change.is_flag));
        let is_layers = WIDTHS[0].keys.contains(&place.key.as_str());
        let Some(before) = before.filter(|&before| is_layers && change.value < before) else { return };
        for key in LISTS {
            if let Some(Value::Array(entries)) = object.get_mut(key)
                && entries.len() as u64 > before
            {
                entries.drain(change.value as usize..before as usize);
            }
        }
    }
}

fn json(value: u64, is_flag: bool) -> Value {
    if is_flag { (value == 1).into() } else { value.into() }
}
