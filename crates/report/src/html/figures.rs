//! Tables of recurring texts and quantities in the data of a page, which refers to them by index.

use rustc_hash::FxHashMap;
use serde::Serialize;
use stagewright_core::ids::{Id, Keyed};

/// Distinct texts in order of first use.
#[derive(Debug, Default)]
pub(super) struct Texts {
    number_of: FxHashMap<String, u32>,
    texts: Keyed<u32, String>,
}

impl Texts {
    /// Returns the index of a text, adding the text if it is new.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.number_of.get(text) {
            return number;
        }
        let number = self.texts.push(text.to_owned());
        self.number_of.insert(text.to_owned(), number);
        number
    }

    /// Returns all texts, by index.
    pub(super) fn into_texts(self) -> Keyed<u32, String> {
        self.texts
    }
}

/// Distinct quantities, each as text and as a number of six digits.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    #[serde(skip)]
    number_of: FxHashMap<u64, u32>,
    text: Vec<String>,
    value: Vec<f64>,
}

impl Figures {
    /// Returns the index of a quantity, adding it, formatted by `words`, if it is new.
    pub(super) fn number(&mut self, value: f64, words: fn(f64) -> String) -> u32 {
        if let Some(&number) = self.number_of.get(&value.to_bits()) {
            return number;
        }
        let number = u32::new(self.text.len());
        self.text.push(words(value));
        self.value.push(six_digits(value));
        self.number_of.insert(value.to_bits(), number);
        number
    }
}

/// Rounds a number to six significant digits, which is more than a drawing shows.
pub(super) fn six_digits(value: f64) -> f64 {
    // A formatted number always parses.
    format!("{value:.5e}").parse().unwrap_or(value)
}
