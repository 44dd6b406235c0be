//! Module names of built-in workloads in published implementations: transformers, and for ResNet torchvision.
//!
//! A workload names its operators after the paper: `decoder.layer.3.attention.query`. A runtime that loads the model
//! looks up `model.layers.3.self_attn.q_proj`. A table per family maps paths to such modules; the documents of
//! workloads are not changed. An operator that represents a whole layer path may run several modules. Operators that
//! a block computes itself, such as its residual sum, belong to the block, and the loss belongs to the module that
//! computes the logits.
//!
//! A table applies to a graph that has the name of its family and only operators that it knows, so no other model is
//! renamed. The other families (Inception, VGG, NASNet, AmoebaNet, U-Net, Transformer-XL, RNNLM, GNMT, WaveNet,
//! DLRM) keep their own paths: transformers has no such model today.
//!
//! Source: the modules of transformers 5.23 and torchvision 0.29; `tests/runtimes` compares the tables with them.

mod images;
mod language;

use stagewright_core::graph::Graph;

/// A family with its modules in a published implementation.
#[derive(Debug)]
pub struct Published {
    /// Name of the implementation, for display.
    pub class: &'static str,
    /// Name prefixes of the family's graphs.
    graphs: &'static [&'static str],
    /// An implementation that this one contains, with its path prefix.
    base: Option<(&'static str, &'static Published)>,
    /// Paths with the modules that they run, in execution order; `{}` matches any number.
    rows: &'static [(&'static str, &'static [&'static str])],
    /// Modules and tensors that no operator represents, each with the module that it is placed with. Those of the
    /// base are not repeated.
    beside: &'static [(&'static str, &'static str)],
}

impl Published {
    /// The implementation of a graph; `None` if it is not a built-in workload or has none.
    pub fn of(graph: &Graph, paths: &[impl AsRef<str>]) -> Option<&'static Published> {
        let named = |known: &&Published| known.graphs.iter().any(|start| graph.name().starts_with(start));
        ALL.iter()
            .copied()
            .filter(named)
            .find(|known| paths.iter().all(|path| known.row(path.as_ref()).is_some()))
    }

    /// The modules that a path runs.
    pub fn modules(&self, path: &str) -> Vec<String> {
        let Some(Row { at, modules, numbers }) = self.row(path) else { return vec![path.to_owned()] };
        let fill = |module: &&str| {
            numbers.iter().fold(format!("{at}{module}"), |filled, number| filled.replacen(HOLE, number, 1))
        };
        modules.iter().map(fill).collect()
    }

    /// Modules that no operator represents, and tensors that modules with submodules hold themselves, each with the
    /// module that it is placed with.
    pub fn beside(&self) -> Vec<(String, String)> {
        let own = self.beside.iter().map(|&(name, module)| (name.to_owned(), module.to_owned()));
        let base = self.base.into_iter().flat_map(|(prefix, base)| {
            let inside = move |name: String| format!("{prefix}{name}");
            base.beside().into_iter().map(move |(name, module)| (inside(name), inside(module)))
        });
        own.chain(base).collect()
    }

    /// The row with the longest pattern that is a prefix of a path.
    fn row<'p>(&self, path: &'p str) -> Option<Row<'p>> {
        let fits = |&(pattern, modules): &(&'static str, &'static [&'static str])| {
            matched(pattern, path).map(|numbers| (pattern.len(), Row { at: "", modules, numbers }))
        };
        match self.rows.iter().filter_map(fits).max_by_key(|&(length, _)| length) {
            Some((_, row)) => Some(row),
            None => {
                self.base.and_then(|(version, base)| base.row(path).map(|row| Row { at: version, ..row }))
            }
        }
    }
}

/// A matching row of a table.
struct Row<'p> {
    /// Prefix of the module names.
    at: &'static str,
    /// The modules.
    modules: &'static [&'static str],
    /// The numbers that fill the holes.
    numbers: Vec<&'p str>,
}

/// Placeholder for a number.
const HOLE: &str = "{}";

/// The numbers in a path that starts with a pattern.
fn matched<'p>(pattern: &str, path: &'p str) -> Option<Vec<&'p str>> {
    let mut parts = path.split('.');
    let mut numbers = Vec::new();
    for expected in pattern.split('.') {
        let part = parts.next()?;
        match expected.split_once(HOLE) {
            None if part == expected => {}
            Some((word, "")) => {
                let number = part.strip_prefix(word)?;
                (!number.is_empty() && number.bytes().all(|c| c.is_ascii_digit())).then_some(())?;
                numbers.push(number);
            }
            _ => return None,
        }
    }
    Some(numbers)
}

/// All implementations.
const ALL: [&Published; 9] = [
    &language::LLAMA,
    &language::MIXTRAL,
    &language::DEEPSEEK,
    &language::DEEPSEEK_LITE,
    &language::GPT,
    &language::BERT,
    &language::BERT_PRETRAINING,
    &images::VIT,
    &images::RESNET,
];
