//! Lists of modules: by name, by part of a name, by `*`, and by regular expression.

use std::collections::{BTreeMap, BTreeSet};

use regex::bytes::{RegexSet, RegexSetBuilder};
use stagewright_formats::Result;

use super::super::config::Config;
use crate::module::{bare, of_expert};
use crate::tensor::Tensor;

/// Bytes that compiled patterns may take; a list of thousands of patterns stays below.
const MOST_PATTERN_BYTES: usize = 1 << 28;

/// What may stand before the name of a module of the language model in a pattern.
const SPELLINGS: [&str; 5] = ["", "model.", "language_model.model.", "model.language_model.", "transformer."];

/// A module of a tensor.
pub(super) struct Module<'a> {
    /// Name in full, with `*` for the number of an expert.
    full: &'a str,
    /// Number of experts, if the tensor is that of all experts of a layer.
    experts: Option<u64>,
    /// Name that the first of several stacked experts would have apart, as lists may name it.
    apart: Option<String>,
}

impl<'a> Module<'a> {
    /// The module of a tensor, whose name ends in `.weight` unless it is a parameter of its own.
    pub(super) fn of(tensor: &'a Tensor) -> Module<'a> {
        let full = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
        let experts = tensor.shape.first().copied().filter(|_| tensor.role.is_expert());
        let apart = match full.rsplit_once('.').filter(|_| experts.is_some() && !full.contains(".*.")) {
            Some((path, "gate_up_proj")) => Some(format!("{path}.*.gate_proj")),
            Some((path, "down_proj")) => Some(format!("{path}.*.down_proj")),
            _ => None,
        };
        Module { full, experts, apart }
    }
}

/// How a list has a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// By its name, or that of a module around it.
    Name,
    /// By a pattern.
    Pattern,
}

/// A list of modules.
///
/// An entry with a number is the name of a module from the top, whatever stands before its layers; any other may be a part
/// of a name, as `gate` of `model.layers.0.mlp.gate`. An entry has all modules below its own. A `*` stands for any text,
/// and `re:` begins a regular expression for the beginning of a name.
#[derive(Debug, Clone)]
pub(super) struct Modules {
    /// Names from the top.
    rooted: BTreeSet<String>,
    /// Parts of names.
    parts: BTreeSet<String>,
    /// Experts that are listed one by one, by their name with `*`.
    experts: BTreeMap<String, BTreeSet<u64>>,
    patterns: RegexSet,
}

impl Modules {
    /// Reads a list of modules under a key.
    ///
    /// # Errors
    /// If a pattern is no regular expression (M013).
    pub(super) fn new<'n>(
        config: &Config,
        key: &str,
        entries: impl IntoIterator<Item = &'n str>,
    ) -> Result<Modules> {
        let mut modules = Modules {
            rooted: BTreeSet::new(),
            parts: BTreeSet::new(),
            experts: BTreeMap::new(),
            patterns: RegexSet::empty(),
        };
        let mut patterns = Vec::new();
        for entry in entries {
            match entry.strip_prefix("re:") {
                Some(pattern) => patterns.push(format!("^(?:{pattern})")),
                None if entry.contains(['*', '?']) => patterns.push(of_glob(entry)),
                None => modules.add(entry.strip_suffix(".weight").unwrap_or(entry)),
            }
        }
        let built = RegexSetBuilder::new(&patterns).unicode(false).size_limit(MOST_PATTERN_BYTES).build();
        modules.patterns = built.map_err(|error| {
            let help = "write regular expressions without look-around and references back";
            config.fault(key, format!("a pattern of modules cannot be read: {error}"), help)
        })?;
        Ok(modules)
    }

    fn add(&mut self, entry: &str) {
        let mut name = bare(entry).to_owned();
        if let Some((starred, expert)) = of_expert(&name) {
            self.experts.entry(starred.clone()).or_default().insert(expert);
            name = starred;
        }
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let names = if name.split('.').any(is_number) { &mut self.rooted } else { &mut self.parts };
        names.insert(name);
    }

    /// How the list has a module; `None` if it does not.
    ///
    /// Experts are compared by the list for each of them, and by patterns for the first and the last.
    ///
    /// # Errors
    /// If the list has some experts of the module only; the error says how many.
    pub(super) fn find(&self, module: &Module) -> std::result::Result<Option<Found>, String> {
        let apart = || self.entry(bare(module.apart.as_deref()?));
        if let Some(entry) = self.entry(bare(module.full)).or_else(apart) {
            let listed = self.experts.get(entry).map(|experts| experts.len() as u64);
            return match (listed, module.experts) {
                (Some(listed), Some(experts)) if listed != experts => {
                    Err(format!("{listed} of {experts} experts of `{}`", module.full))
                }
                _ => Ok(Some(Found::Name)),
            };
        }
        if self.patterns.is_empty() {
            return Ok(None);
        }
        let matches = |full: &str| {
            let name = bare(full);
            self.patterns.is_match(full.as_bytes())
                || SPELLINGS.iter().any(|before| self.patterns.is_match(format!("{before}{name}").as_bytes()))
        };
        let found = match module.experts {
            None => matches(module.full),
            Some(experts) => {
                let matches_expert =
                    |expert: u64| matches(&module.full.replacen(".*.", &format!(".{expert}."), 1));
                let first = matches_expert(0);
                if first != matches_expert(experts.saturating_sub(1)) {
                    return Err(format!("some experts of `{}`", module.full));
                }
                first
            }
        };
        Ok(found.then_some(Found::Pattern))
    }

    /// The entry that has a module by name.
    fn entry<'n>(&self, name: &'n str) -> Option<&'n str> {
        let dots = || name.match_indices('.').map(|(index, _)| index);
        let starts = || std::iter::once(0).chain(dots().map(|index| index + 1));
        let ends = || dots().chain(std::iter::once(name.len()));
        let rooted = ends().map(|end| &name[..end]).find(|&path| self.rooted.contains(path));
        let part = || {
            starts()
                .flat_map(|start| ends().filter(move |&end| end > start).map(move |end| &name[start..end]))
                .find(|&path| self.parts.contains(path))
        };
        rooted.or_else(part)
    }
}

/// Regular expression of a name with `*` and `?`, for a module or one around it.
fn of_glob(glob: &str) -> String {
    let mut pattern = String::from("^");
    for character in glob.chars() {
        match character {
            '*' => pattern.push_str(".*"),
            '?' => pattern.push('.'),
            other => pattern.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    pattern.push_str(r"(?:\.|$)");
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    fn found(entries: &[&str], name: &str) -> Option<Found> {
        let map = Map::new();
        let config = Config::new("config.json", &map);
        let modules = Modules::new(&config, "ignore", entries.iter().copied()).unwrap();
        modules.find(&Module { full: name, experts: name.contains(".*.").then_some(4), apart: None }).unwrap()
    }

    #[test]
    fn names_have_any_prefix_and_all_modules_below() {
        let query = "model.layers.1.self_attn.q_proj";
        for entry in
            ["model.layers.1.self_attn", "language_model.model.layers.1", "q_proj", "self_attn.q_proj"]
        {
            assert_eq!(found(&[entry], query), Some(Found::Name), "{entry}");
        }
        for entry in ["layers.10", "layers.1.self", "q", "proj", "layers.2", "lm_head"] {
            assert_eq!(found(&[entry], query), None, "{entry}");
        }
        assert_eq!(found(&["model.layers.0"], "mtp.layers.0.mlp"), None, "a name from the top");
        assert_eq!(found(&["gate"], "model.layers.0.mlp.gate_proj"), None);
        assert_eq!(found(&["visual"], "model.visual.blocks.0.mlp.fc1"), Some(Found::Name));
    }

    #[test]
    fn patterns_are_those_of_the_shell_or_begin_a_name() {
        let up = "model.layers.12.mlp.shared_experts.up_proj";
        for entry in [
            "*.mlp.shared_experts.*",
            "model.layers.12.mlp.shared_experts*",
            "model.language_model.layers.12*",
            "re:.*shared_experts.*",
            "re:.*up",
            r"re:model\.layers\.\d+\.mlp",
            "layers.*.mlp",
        ] {
            assert_eq!(found(&[entry], up), Some(Found::Pattern), "{entry}");
        }
        for entry in ["mlp*", "*.attn.*", "re:up_proj", "re:.*up$", "layers.*.m", "model.layers.1.*"] {
            assert_eq!(found(&[entry], up), None, "{entry}");
        }
    }

    #[test]
    fn experts_are_named_all_or_refused() {
        let all = ["m.experts.0.up", "m.experts.1.up", "m.experts.2.up", "m.experts.3.up"];
        assert_eq!(found(&all, "m.experts.*.up"), Some(Found::Name));
        let map = Map::new();
        let config = Config::new("config.json", &map);
        let module = Module { full: "m.experts.*.up", experts: Some(4), apart: None };
        for some in [&all[..3], &["*.experts.0.*"], &[r"re:.*experts\.3\."]] {
            let modules = Modules::new(&config, "ignore", some.iter().copied()).unwrap();
            assert!(modules.find(&module).unwrap_err().contains("experts of `m.experts.*.up`"), "{some:?}");
        }
        assert!(Modules::new(&config, "ignore", ["re:(?=a)"]).is_err());
    }
}
