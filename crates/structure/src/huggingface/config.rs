//! A configuration as JSON, read key by key with errors that name the key.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};
use stagewright_formats::code::M;
use stagewright_formats::fault::Fault;
use stagewright_formats::{At, InputError, Result, text_of};

/// Largest width or count that a configuration may have. Products of the two largest still fit into 64 bits.
const LARGEST: u64 = 1 << 28;

/// An object of a configuration, with its place.
#[derive(Debug, Clone)]
pub(crate) struct Config<'a> {
    label: &'a str,
    /// Path of the object, empty for the whole file.
    path: String,
    map: &'a Map<String, Value>,
    /// Counts of keys that are absent.
    defaults: &'static [(&'static str, u64)],
    /// Paths of the keys whose values were used, and of those whose defaults were, if they are recorded.
    used: Option<&'a RefCell<Used>>,
}

/// Paths of keys that a reader used.
#[derive(Debug, Default)]
pub(super) struct Used {
    /// Keys of the configuration.
    pub(super) present: BTreeSet<String>,
    /// Absent keys that have a default.
    pub(super) defaults: BTreeSet<String>,
}

/// Parses a configuration. Python writes infinite numbers into JSON, where JSON has none; they become `null`.
///
/// # Errors
/// If the text is no JSON (F002), or no object (F004).
pub(crate) fn parse(label: &str, bytes: &[u8]) -> Result<Map<String, Value>> {
    let text = text_of(label, bytes)?;
    let value: Value = serde_json::from_str(&without_infinities(text)).map_err(|error| {
        let fault = Fault::of_json(&error);
        let clamp = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let position = At::Line { line: clamp(error.line()), column: clamp(error.column()) };
        InputError::new(fault.code, label, position, fault.message, fault.help)
    })?;
    match value {
        Value::Object(map) => Ok(map),
        _ => {
            let help = "give the config.json of a model, which is an object of keys and values";
            Err(InputError::new(M::M013, label, At::Whole, "the configuration is no object", help))
        }
    }
}

/// Replaces `Infinity`, `-Infinity` and `NaN` outside strings by `null`, of the same length.
fn without_infinities(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !WORDS.iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(word) = WORDS.iter().find(|word| !in_string && rest.starts_with(**word)) {
            written.push_str(&format!("{:<1$}", "null", word.len()));
            rest = &rest[word.len()..];
            continue;
        }
        match character {
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = in_string && character == '\\' && !escaped;
        written.push(character);
        rest = &rest[character.len_utf8()..];
    }
    Cow::Owned(written)
}

impl<'a> Config<'a> {
    pub(crate) fn new(label: &'a str, map: &'a Map<String, Value>) -> Config<'a> {
        Config { label, path: String::new(), map, defaults: &[], used: None }
    }

    /// An object of a configuration that records the paths of keys whose values are used.
    pub(super) fn recording(self, used: &'a RefCell<Used>) -> Config<'a> {
        Config { used: Some(used), ..self }
    }

    /// The same object with counts for keys that are absent. A framework leaves keys out that have the default values of
    /// its architecture, above all within `text_config` and `vision_config`.
    pub(crate) fn with_defaults(&self, defaults: &'static [(&'static str, u64)]) -> Config<'a> {
        Config { defaults, ..self.clone() }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// An error about a key.
    pub(crate) fn fault(&self, key: &str, message: impl Into<String>, help: impl Into<String>) -> InputError {
        InputError::at_path(M::M013, self.label, self.path_of(key), message, help)
    }

    /// The value of a key, unless it is absent or `null`.
    pub(crate) fn value(&self, key: &str) -> Option<&'a Value> {
        let value = self.map.get(key).filter(|value| !value.is_null())?;
        if let Some(used) = self.used {
            used.borrow_mut().present.insert(self.path_of(key));
        }
        Some(value)
    }

    /// The first of several keys that is present.
    fn first<'k>(&self, keys: &[&'k str]) -> Option<(&'k str, &'a Value)> {
        keys.iter().find_map(|key| self.value(key).map(|value| (*key, value)))
    }

    /// The first of several keys that is present, or else the first of all, for errors about its value.
    pub(crate) fn present<'k>(&self, keys: &[&'k str]) -> &'k str {
        self.first(keys).map_or(keys[0], |(key, _)| key)
    }

    /// A count or width under the first of several keys that is present.
    ///
    /// # Errors
    /// If the value is no whole number, is negative, or is absurdly large.
    pub(crate) fn count(&self, keys: &[&str]) -> Result<Option<u64>> {
        match self.first(keys) {
            Some((key, value)) => self.whole(key, value).map(Some),
            None => {
                // A key that is `null` is there: a `sliding_window` of `null` is none, and not the default one.
                let absent = |key: &str| keys.contains(&key) && !self.map.contains_key(key);
                let default = self.defaults.iter().find(|(key, _)| absent(key));
                if let (Some(used), Some((key, _))) = (self.used, default) {
                    used.borrow_mut().defaults.insert(self.path_of(key));
                }
                Ok(default.map(|&(_, count)| count))
            }
        }
    }

    /// A count or width that must be there.
    ///
    /// # Errors
    /// As for [`Config::count`], or if no key is present.
    pub(crate) fn need(&self, keys: &[&str]) -> Result<u64> {
        self.count(keys)?.ok_or_else(|| {
            let others =
                if keys.len() > 1 { format!(" (or {})", keys[1..].join(", ")) } else { String::new() };
            let help = "check that the file is the config.json of the whole model";
            self.fault(keys[0], format!("the key `{}`{others} is missing", keys[0]), help)
        })
    }

    /// A count or width that must be there and is at least 1.
    ///
    /// # Errors
    /// As for [`Config::need`], or if the value is 0.
    pub(crate) fn positive(&self, keys: &[&str]) -> Result<u64> {
        let count = self.need(keys)?;
        if count == 0 {
            return Err(self.fault(self.present(keys), "the value is 0", "check the value"));
        }
        Ok(count)
    }

    /// A count or width, or else a default.
    pub(crate) fn count_or(&self, keys: &[&str], default: u64) -> Result<u64> {
        Ok(self.count(keys)?.unwrap_or(default))
    }

    fn whole(&self, key: &str, value: &Value) -> Result<u64> {
        // Some configurations write whole numbers as 4096.0.
        let whole = value.as_u64().or_else(|| {
            value
                .as_f64()
                .filter(|number| number.fract() == 0.0 && (0.0..=LARGEST as f64).contains(number))
                .map(|number| number as u64)
        });
        match whole {
            Some(count) if count <= LARGEST => Ok(count),
            Some(_) => Err(self.fault(key, format!("the value is larger than {LARGEST}"), "check the value")),
            None => {
                Err(self.fault(key, "the value is no whole number that is not negative", "check the value"))
            }
        }
    }

    /// A number under a key.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>> {
        let read = |value: &Value| {
            value.as_f64().ok_or_else(|| self.fault(key, "the value is no number", "write a number"))
        };
        self.value(key).map(read).transpose()
    }

    /// A flag under a key, or else a default.
    pub(crate) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        let read = |value: &Value| {
            value
                .as_bool()
                .ok_or_else(|| self.fault(key, "the value is neither true nor false", "write true or false"))
        };
        Ok(self.value(key).map(read).transpose()?.unwrap_or(default))
    }

    /// A text under a key.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.value(key).and_then(Value::as_str)
    }

    /// An object under a key.
    ///
    /// # Errors
    /// If the value is no object.
    pub(crate) fn inner(&self, key: &str) -> Result<Option<Config<'a>>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Object(map)) => {
                Ok(Some(Config { path: self.path_of(key), map, defaults: &[], ..self.clone() }))
            }
            Some(_) => Err(self.fault(key, "the value is no object", "check the value")),
        }
    }

    /// An object that must be there.
    ///
    /// # Errors
    /// As for [`Config::inner`], or if the key is absent.
    pub(crate) fn need_inner(&self, key: &str) -> Result<Config<'a>> {
        self.inner(key)?.ok_or_else(|| {
            let help = "check that the file is the config.json of the whole model";
            self.fault(key, format!("the key `{key}` is missing"), help)
        })
    }

    /// An object in a list under a key; `None` if there is no list, or it ends before the index.
    ///
    /// # Errors
    /// If the value is no list, or its entry no object.
    pub(crate) fn entry(&self, key: &str, index: usize) -> Result<Option<Config<'a>>> {
        match self.list(key)?.and_then(|values| values.get(index)) {
            None => Ok(None),
            Some(Value::Object(map)) => {
                let path = format!("{}[{index}]", self.path_of(key));
                Ok(Some(Config { path, map, defaults: &[], ..self.clone() }))
            }
            Some(_) => {
                Err(self.fault(key, format!("entry {index} of the list is no object"), "check the list"))
            }
        }
    }

    /// A list under a key.
    ///
    /// # Errors
    /// If the value is no list.
    pub(crate) fn list(&self, key: &str) -> Result<Option<&'a [Value]>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(values)) => Ok(Some(values)),
            Some(_) => Err(self.fault(key, "the value is no list", "check the value")),
        }
    }

    /// A list of counts under a key.
    pub(crate) fn counts(&self, key: &str) -> Result<Option<Vec<u64>>> {
        let Some(values) = self.list(key)? else { return Ok(None) };
        values.iter().map(|value| self.whole(key, value)).collect::<Result<_>>().map(Some)
    }

    /// A list of texts under a key.
    pub(crate) fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>> {
        let Some(values) = self.list(key)? else { return Ok(None) };
        let read = |value: &'a Value| {
            value.as_str().ok_or_else(|| self.fault(key, "an entry of the list is no text", "check the list"))
        };
        values.iter().map(read).collect::<Result<_>>().map(Some)
    }

    /// Keys of the object.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.map.keys().map(String::as_str)
    }

    /// Checks that a list by layer has an entry for each of `layers`.
    pub(crate) fn by_layer<T>(&self, key: &str, entries: &[T], layers: u64) -> Result<()> {
        if entries.len() as u64 >= layers {
            return Ok(());
        }
        let message = format!("the list has {} entries for {layers} layers", entries.len());
        Err(self.fault(key, message, "give an entry for every layer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinities_of_python_become_null() {
        let text = r#"{"a": [0.0, Infinity], "b": "NaN \" Infinity", "c": -Infinity, "d": NaN}"#;
        let map = parse("config.json", text.as_bytes()).unwrap();
        assert_eq!(map["a"][1], Value::Null);
        assert_eq!(map["b"], "NaN \" Infinity");
        assert_eq!((&map["c"], &map["d"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn faults_name_their_key() {
        let map =
            parse("config.json", br#"{"hidden_size": -1, "layers": [1, "x"], "deep": {"a": 1e9}}"#).unwrap();
        let config = Config::new("config.json", &map);
        let place = |error: InputError| error.place.to_string();
        assert_eq!(place(config.need(&["hidden_size"]).unwrap_err()), "config.json: hidden_size");
        assert_eq!(place(config.counts("layers").unwrap_err()), "config.json: layers");
        let deep = config.inner("deep").unwrap().unwrap();
        assert_eq!(place(deep.need(&["a"]).unwrap_err()), "config.json: deep.a");
        assert_eq!(place(deep.need(&["b", "c"]).unwrap_err()), "config.json: deep.b");
        assert_eq!(place(deep.positive(&["b"]).unwrap_err()), "config.json: deep.b");
        assert!(parse("config.json", b"[]").is_err() && parse("config.json", b"{\"a\"").is_err());
    }
    #[test]
    fn defaults_are_for_keys_that_are_absent() {
        let map = parse("config.json", br#"{"head_dim": 64, "sliding_window": null}"#).unwrap();
        let defaults = &[("head_dim", 256), ("sliding_window", 4096), ("num_key_value_heads", 4)];
        let config = Config::new("config.json", &map).with_defaults(defaults);
        assert_eq!(config.count(&["head_dim"]).unwrap(), Some(64));
        assert_eq!(config.count(&["sliding_window"]).unwrap(), None);
        assert_eq!(config.count(&["num_key_value_heads"]).unwrap(), Some(4));
    }
}
