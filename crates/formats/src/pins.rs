//! Pins: a table from operators to allowed devices, in JSON or TOML.
//!
//! ```toml
//! "embedding" = "acc0"
//! "encoder.3.attention" = ["acc", "cpu"]
//! ```
//!
//! A name with `*` (any characters) or `?` (any one character) that no operator has is a pattern, which [`expand_pins`] replaces
//! by the operators that it matches:
//!
//! ```toml
//! "*" = "acc"
//! "decoder.layers.*.mlp.experts*" = "cpu"
//! ```
//!
//! In TOML a name with dots must be quoted, otherwise its dots nest tables. Pinning an operator twice is an
//! error; a plain map would silently keep the last pin.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use glob::Pattern;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use stagewright_core::document::{GraphDocument, PinTargets, PinsDocument};

use super::code::F009;
use super::error::{At, InputError, Result};
use super::notation::Notation;
use super::text::text;

/// Reads pins, in either notation.
pub fn import_pins(label: &str, bytes: &[u8]) -> Result<PinsDocument> {
    let text = text(label, bytes)?;
    let read: Result<UniquePins> = Notation::of(text).read(label, text);
    read.map(|pins| pins.0).map_err(|mut error| {
        if error.message.starts_with("expected the name of a device, kind") {
            "write \"name\" = \"acc0\" or \"name\" = [\"acc0\", \"cpu\"]; TOML requires quotes around a name with \
             dots"
                .clone_into(&mut error.help);
        }
        error
    })
}

/// Replaces the patterns of pins by the operators of a model that they match, in O(operators · patterns). The name of an operator
/// takes precedence over all patterns, and a pattern over others with fewer characters besides its wildcards. A pattern that
/// matches no operator stays as it is, so that the problem refuses it as the name of no operator.
///
/// # Errors
/// Two patterns with different devices and as many characters that match the same operator (F009).
pub fn expand_pins(label: &str, pins: PinsDocument, graph: &GraphDocument) -> Result<PinsDocument> {
    let is_wild = |name: &str| name.contains(['*', '?']);
    if !pins.0.keys().any(|name| is_wild(name)) {
        return Ok(pins);
    }
    let names: BTreeSet<&str> = graph.operators.iter().map(|operator| operator.name.as_str()).collect();
    let (wild, mut expanded): (BTreeMap<_, _>, BTreeMap<_, _>) =
        pins.0.into_iter().partition(|(name, _)| is_wild(name) && !names.contains(name.as_str()));
    let mut patterns = Vec::with_capacity(wild.len());
    for (name, targets) in wild {
        match pattern(&name) {
            Some(pattern) if names.iter().any(|operator| pattern.matches(operator)) => {
                let length =
                    name.chars().filter(|character| !is_wild(character.encode_utf8(&mut [0; 4]))).count();
                patterns.push((length, name, pattern, targets));
            }
            _ => drop(expanded.insert(name, targets)),
        }
    }
    // The most specific first.
    patterns.sort_by(|(length, name, ..), (other_length, other, ..)| {
        other_length.cmp(length).then(name.cmp(other))
    });
    for operator in names {
        if expanded.contains_key(operator) {
            continue;
        }
        let mut matching = patterns.iter().filter(|(_, _, pattern, _)| pattern.matches(operator));
        let Some((length, name, _, targets)) = matching.next() else { continue };
        if let Some((_, other, ..)) =
            matching.find(|(other_length, _, _, other)| other_length == length && other != targets)
        {
            let message =
                format!("`{name}` and `{other}` both match `{operator}`, and neither is more specific");
            let help = "pin the operator by its name, or make one pattern longer";
            return Err(InputError::new(F009, label, At::Path(name.clone()), message, help));
        }
        expanded.insert(operator.to_owned(), targets.clone());
    }
    Ok(PinsDocument(expanded))
}

/// The operators, by index, of a name or, if no operator has it, those that it matches as a pattern with `*` and `?`.
pub fn matching(graph: &GraphDocument, name: &str) -> Vec<usize> {
    if let Some(index) = graph.operators.iter().position(|operator| operator.name == name) {
        return vec![index];
    }
    let matched = pattern(name).map(|pattern| {
        let operators = graph.operators.iter().enumerate();
        operators.filter(|(_, operator)| pattern.matches(&operator.name)).map(|(index, _)| index).collect()
    });
    matched.unwrap_or_default()
}

/// The pattern of a name whose only wildcards are `*` and `?`.
fn pattern(name: &str) -> Option<Pattern> {
    let mut text = name.replace('[', "[[]");
    while text.contains("**") {
        text = text.replace("**", "*");
    }
    Pattern::new(&text).ok()
}

struct UniquePins(PinsDocument);

impl<'de> Deserialize<'de> for UniquePins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PinsVisitor)
    }
}

struct PinsVisitor;

impl<'de> Visitor<'de> for PinsVisitor {
    type Value = UniquePins;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table from operator names to devices, kinds or classes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniquePins, A::Error> {
        let mut pins = BTreeMap::new();
        while let Some((operator, targets)) = map.next_entry::<String, PinTargets>()? {
            match pins.entry(operator) {
                Entry::Vacant(free) => free.insert(targets),
                Entry::Occupied(taken) => {
                    return Err(A::Error::custom(format!("duplicate key `{}`", taken.key())));
                }
            };
        }
        Ok(UniquePins(PinsDocument(pins)))
    }
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::{GRAPH_SCHEMA, operator};

    use super::*;

    fn graph(names: &[&str]) -> GraphDocument {
        let operators = names.iter().map(|&name| operator(name)).collect();
        GraphDocument { operators, ..GraphDocument::new(GRAPH_SCHEMA, "") }
    }

    fn expanded(pins: &[(&str, &str)], names: &[&str]) -> Result<Vec<(String, String)>> {
        let pins = pins.iter().map(|&(name, target)| (name.to_owned(), PinTargets::One(target.to_owned())));
        let found = expand_pins("pins", PinsDocument(pins.collect()), &graph(names))?;
        Ok(found.0.into_iter().map(|(name, targets)| (name, targets.names().join(" "))).collect())
    }

    #[test]
    fn the_most_specific_pattern_pins_an_operator() {
        let names =
            ["embed", "layers.0.attn", "layers.0.experts.7", "layers.1.experts.7", "layers.1.norm[a]", "h*"];
        let pins = [
            ("*", "acc"),
            ("layers.*.experts*", "cpu"),
            ("layers.1.experts.7", "acc3"),
            ("layers.?.norm[*]", "acc1"),
            ("h*", "acc2"),
        ];
        let found = expanded(&pins, &names).expect("no two are as specific");
        let targets: BTreeMap<&str, &str> = found.iter().map(|(name, target)| (&**name, &**target)).collect();
        assert_eq!(targets.len(), names.len());
        let expected = ["acc", "acc", "cpu", "acc3", "acc1", "acc2"];
        assert_eq!(names.map(|name| targets[name]), expected);
    }

    #[test]
    fn a_pattern_without_a_match_is_left_for_the_problem_to_refuse() {
        let found = expanded(&[("decoder.*", "cpu"), ("e*", "acc")], &["embed"]).expect("they are no rivals");
        assert_eq!(found, [("decoder.*".to_owned(), "cpu".to_owned()), ("embed".into(), "acc".into())]);
    }

    #[test]
    fn patterns_as_specific_as_each_other_must_agree() {
        let error = expanded(&[("a*", "cpu"), ("*b", "acc")], &["ab"]).expect_err("they disagree");
        assert!(error.to_string().contains("neither is more specific"), "{error}");
        assert_eq!(expanded(&[("a*", "cpu"), ("*b", "cpu")], &["ab"]).expect("they agree").len(), 1);
    }
}
