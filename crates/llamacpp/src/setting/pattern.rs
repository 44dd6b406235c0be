//! Patterns of names of tensors.

use regex::bytes::{Regex, RegexBuilder};

/// A regular expression that is searched for anywhere in the name of a tensor.
///
/// llama.cpp uses the notation of ECMAScript by `std::regex_search`; that of the crate `regex` is the same but for
/// references to groups and for conditions on what is around a match, which it lacks.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// A pattern of names.
    ///
    /// # Errors
    /// If the text is no regular expression, or has `,` or `=`, at which llama.cpp splits the option.
    pub fn new(text: &str) -> Result<Pattern, String> {
        if let Some(split) = text.chars().find(|character| matches!(character, ',' | '=')) {
            return Err(format!("llama.cpp splits the option at `{split}`, also inside of a pattern"));
        }
        if text.is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        let built = RegexBuilder::new(text).unicode(false).build();
        built.map(Pattern).map_err(|error| error.to_string().replace('\n', " "))
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the name of a tensor has a match.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name.as_bytes())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text() == other.text()
    }
}
