//! Keys of an architecture, whose values are numbers or lists by layer.

use std::collections::BTreeMap;

use stagewright_formats::code::M;
use stagewright_formats::{InputError, Result};

use super::read::Value;

/// Maximum width or count of a key. Products of two still fit into 64 bits.
const LARGEST: i128 = 1 << 28;

/// Keys of a file, below the name of its architecture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys<'a> {
    pub(super) label: &'a str,
    pub(super) architecture: &'a str,
    values: &'a BTreeMap<String, Value>,
}

impl<'a> Keys<'a> {
    /// Reads the architecture.
    ///
    /// # Errors
    /// If the file names none (M013).
    pub(super) fn new(label: &'a str, values: &'a BTreeMap<String, Value>) -> Result<Keys<'a>> {
        const KEY: &str = "general.architecture";
        match values.get(KEY) {
            Some(Value::Text(architecture)) if !architecture.is_empty() => {
                Ok(Keys { label, architecture, values })
            }
            _ => {
                let message = "the key `general.architecture` is missing or no text";
                let help = "give the file of a model, or the first of its shards";
                Err(InputError::at_path(M::M013, label, KEY, message, help))
            }
        }
    }

    /// A key of the whole file.
    pub(super) fn general(&self, key: &str) -> Option<&'a Value> {
        self.values.get(key)
    }

    /// A key of the architecture.
    fn value(&self, key: &str) -> Option<&'a Value> {
        self.values.get(&self.path(key))
    }

    /// A key with its architecture.
    pub(super) fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// An error about a key of the architecture.
    pub(super) fn fault(&self, key: &str, message: impl Into<String>) -> InputError {
        let help = "convert the model again with a current llama.cpp";
        InputError::at_path(M::M013, self.label, self.path(key), message, help)
    }

    /// A count or width that is the same for all layers.
    ///
    /// # Errors
    /// If the value is no whole number, is negative, or is absurdly large (M013).
    pub(super) fn count(&self, key: &str) -> Result<Option<u64>> {
        match self.value(key) {
            None => Ok(None),
            Some(&Value::Whole(number)) => self.bounded(key, number).map(Some),
            Some(_) => Err(self.fault(key, "the value is no whole number")),
        }
    }

    /// A count or width that must be there.
    ///
    /// # Errors
    /// As for [`Keys::count`], or if the key is missing (M013).
    pub(super) fn need(&self, key: &str) -> Result<u64> {
        self.count(key)?.ok_or_else(|| self.missing(key))
    }

    /// A count or width of a layer, from a number for all layers or from a list.
    ///
    /// # Errors
    /// As for [`Keys::count`], or if the list is too short (M013).
    pub(super) fn of_layer(&self, key: &str, layer: u64) -> Result<Option<u64>> {
        let entries = match self.value(key) {
            Some(Value::List(entries)) => entries,
            Some(Value::Skipped(length)) => {
                return Err(self.fault(
                    key,
                    format!("the list has {length} entries, or entries that are no whole numbers"),
                ));
            }
            _ => return self.count(key),
        };
        let entry = usize::try_from(layer).ok().and_then(|layer| entries.get(layer));
        match entry {
            Some(&number) => self.bounded(key, number).map(Some),
            None => Err(self
                .fault(key, format!("the list has {} entries, and there is a layer {layer}", entries.len()))),
        }
    }

    /// A count or width of a layer that must be there.
    ///
    /// # Errors
    /// As for [`Keys::of_layer`], or if the key is missing (M013).
    pub(super) fn need_of_layer(&self, key: &str, layer: u64) -> Result<u64> {
        self.of_layer(key, layer)?.ok_or_else(|| self.missing(key))
    }

    /// A flag.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key) {
            Some(Value::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Whether a key has a list.
    pub(super) fn is_list(&self, key: &str) -> bool {
        matches!(self.value(key), Some(Value::List(_) | Value::Skipped(_)))
    }

    /// Whether a key has a number above 0.
    pub(super) fn is_positive(&self, key: &str) -> bool {
        match self.value(key) {
            Some(Value::Number(number)) => *number > 0.0,
            Some(Value::Whole(number)) => *number > 0,
            _ => false,
        }
    }

    /// Whether the key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    fn missing(&self, key: &str) -> InputError {
        self.fault(key, format!("the key `{}` is missing", self.path(key)))
    }

    fn bounded(&self, key: &str, number: i128) -> Result<u64> {
        match u64::try_from(number) {
            Ok(count) if number <= LARGEST => Ok(count),
            Ok(_) => Err(self.fault(key, format!("the value is larger than {LARGEST}"))),
            Err(_) => Err(self.fault(key, "the value is negative")),
        }
    }
}
