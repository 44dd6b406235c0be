//! Tables of what occurs over and over in the data of a page, which refers to it by number.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// Different texts, each once, in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct Texts {
    number_of: FxHashMap<String, u32>,
    texts: Vec<String>,
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.number_of.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.number_of.insert(text.to_owned(), number);
        number
    }

    /// All of them by number.
    pub(super) fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

/// Different quantities, each once, in words and as a number of six digits.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    #[serde(skip)]
    number_of: FxHashMap<u64, u32>,
    text: Vec<String>,
    value: Vec<f64>,
}

impl Figures {
    /// The number of a quantity, which `words` puts into words.
    pub(super) fn number(&mut self, value: f64, words: fn(f64) -> String) -> u32 {
        if let Some(&number) = self.number_of.get(&value.to_bits()) {
            return number;
        }
        let number = self.text.len() as u32;
        self.text.push(words(value));
        self.value.push(six_digits(value));
        self.number_of.insert(value.to_bits(), number);
        number
    }
}

/// A number rounded to six significant digits, which is more than a drawing shows.
pub(super) fn six_digits(value: f64) -> f64 {
    // What is written is a number, so it reads back.
    format!("{value:.5e}").parse().unwrap_or(value)
}
