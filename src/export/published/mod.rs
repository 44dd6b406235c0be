//! Built-in workloads by the modules of the published implementation: those of transformers, and for ResNet those of
//! torchvision.
//!
//! A workload calls its operators after the paper: `decoder.layer.3.attention.query`. A runtime that loads the model
//! looks for `model.layers.3.self_attn.q_proj`. A table says for the paths of a family which modules those are; the
//! documents of workloads stay as they are. An operator that stands for a whole layer path may run several modules.
//! What a block computes itself, such as its residual sum, belongs to the block, and the loss to the module that
//! makes the logits.
//!
//! A table holds for a graph that has the name of its family and nothing else than operators that it knows, so that
//! no model of somebody else is renamed. The other families (Inception, VGG, NASNet, AmoebaNet, U-Net,
//! Transformer-XL, RNNLM, GNMT, WaveNet, DLRM) keep their own paths: transformers has no such model today.
//!
//! Source: the modules of transformers 5.23 and torchvision 0.29, with which `tests/runtimes` compares them.

mod images;
mod language;

use stagewright_core::graph::Graph;

/// A family in a published implementation.
#[derive(Debug)]
pub struct Published {
    /// What the implementation is called, for people.
    pub class: &'static str,
    /// Beginnings of the names of its graphs.
    graphs: &'static [&'static str],
    /// An implementation that this one contains, and where.
    base: Option<(&'static str, &'static Published)>,
    /// Paths with the modules that they run, in the order in which these run; `{}` is any number.
    rows: &'static [(&'static str, &'static [&'static str])],
    /// Modules that no operator stands for, with the modules that they are kept with.
    pub beside: &'static [(&'static str, &'static str)],
}

impl Published {
    /// The implementation of a graph; none where it is no built-in workload or has none.
    pub fn of(graph: &Graph, paths: &[impl AsRef<str>]) -> Option<&'static Published> {
        let named = |known: &&Published| known.graphs.iter().any(|start| graph.name().starts_with(start));
        ALL.iter()
            .copied()
            .filter(named)
            .find(|known| paths.iter().all(|path| known.row(path.as_ref()).is_some()))
    }

    /// The modules of a path.
    pub fn modules(&self, path: &str) -> Vec<String> {
        let Some(Row { at, modules, numbers }) = self.row(path) else { return vec![path.to_owned()] };
        let fill = |module: &&str| {
            numbers.iter().fold(format!("{at}{module}"), |filled, number| filled.replacen(HOLE, number, 1))
        };
        modules.iter().map(fill).collect()
    }

    /// The longest pattern that a path begins with.
    fn row<'p>(&self, path: &'p str) -> Option<Row<'p>> {
        let fits = |&(pattern, modules): &(&'static str, &'static [&'static str])| {
            matched(pattern, path).map(|numbers| (pattern.len(), Row { at: "", modules, numbers }))
        };
        match self.rows.iter().filter_map(fits).max_by_key(|&(length, _)| length) {
            Some((_, row)) => Some(row),
            None => self.base.and_then(|(at, base)| base.row(path).map(|row| Row { at, ..row })),
        }
    }
}

/// What a table says of a path.
struct Row<'p> {
    /// What comes before the names of the modules.
    at: &'static str,
    /// The modules.
    modules: &'static [&'static str],
    /// The numbers that stand in for holes.
    numbers: Vec<&'p str>,
}

/// What a number stands in for.
const HOLE: &str = "{}";

/// The numbers of a path that begins with a pattern.
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

/// All of them.
const ALL: [&Published; 7] = [
    &language::LLAMA,
    &language::MIXTRAL,
    &language::GPT,
    &language::BERT,
    &language::BERT_PRETRAINING,
    &images::VIT,
    &images::RESNET,
];
