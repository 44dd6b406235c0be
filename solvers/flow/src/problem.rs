//! A problem of layer flow, validated.

use rustc_hash::FxHashMap;
use stagewright_core::code::{Code, P010};
use stagewright_core::document::{FlowEnd, FlowNodeDocument, FlowOutside, LayerFlowDocument};
use thiserror::Error;

/// Maximum number of layers, and of nodes.
pub const LARGEST: usize = 1000;

/// Range of the rates of nodes in tokens per second, in which sums over all nodes and layers stay exact enough.
const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e12;
/// Largest rate of a link in tokens per second.
const WIDEST_LINK: f64 = 1e15;

/// A problem of layer flow.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Name, for display.
    pub name: String,
    /// Number of layers.
    pub layers: usize,
    /// Rates of every node in tokens per second, with one layer, with two, and so on, up to the number of layers.
    pub rates: Vec<Vec<f64>>,
    /// Nodes with equal rates.
    pub(crate) types: Vec<Type>,
    /// Tokens per second from node to node, `[from · nodes + to]`.
    pub(crate) links: Vec<f64>,
    /// Tokens per second from the source to every node.
    pub(crate) source: Vec<f64>,
    /// Tokens per second from every node to the sink.
    pub(crate) sink: Vec<f64>,
    /// Whether no link limits any plan.
    pub(crate) is_ample: bool,
}

/// Nodes with equal rates.
#[derive(Debug, Clone)]
pub(crate) struct Type {
    pub(crate) rates: Vec<f64>,
    pub(crate) nodes: Vec<usize>,
}

/// Largest number of layers with which a node of these rates serves at least `flow` tokens per second; 0 if none.
pub(crate) fn longest(rates: &[f64], flow: f64) -> usize {
    rates.iter().rposition(|&rate| rate >= flow).map_or(0, |index| index + 1)
}

/// Largest number of layers with which a node of these rates serves more than `flow` tokens per second; 0 if none.
pub(crate) fn longest_above(rates: &[f64], flow: f64) -> usize {
    rates.iter().rposition(|&rate| rate > flow).map_or(0, |index| index + 1)
}

/// A document that is no problem of layer flow.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{field} is {found}, but must be {range}")]
pub struct ProblemError {
    /// Path of the figure in the document.
    pub field: String,
    /// The figure.
    pub found: String,
    /// Allowed range.
    pub range: &'static str,
}

impl ProblemError {
    /// Code of the error.
    pub fn code(&self) -> Code {
        P010.into()
    }
}

impl Problem {
    /// Validates a document. Layers beyond those of the model are left out of a node's rates, and links from or to nodes that
    /// do not exist are refused. O(nodes² + links).
    ///
    /// # Errors
    /// A figure that is out of range (P010).
    pub fn new(document: &LayerFlowDocument) -> Result<Problem, ProblemError> {
        let wrong = |field: String, found: String, range| Err(ProblemError { field, found, range });
        let layers = document.layers as usize;
        let count = document.nodes.len();
        if !(1..=LARGEST).contains(&layers) {
            return wrong("layers".into(), layers.to_string(), "1 to 1000");
        }
        if !(1..=LARGEST).contains(&count) {
            return wrong("nodes".into(), format!("a list of {count}"), "a list of 1 to 1000");
        }
        let mut rates = Vec::with_capacity(count);
        for (node, FlowNodeDocument { throughput, .. }) in document.nodes.iter().enumerate() {
            if let Some(index) = throughput.iter().position(|rate| !RATES.contains(rate)) {
                let field = format!("nodes[{node}].throughput[{index}]");
                return wrong(field, throughput[index].to_string(), "10^-6 to 10^12");
            }
            rates.push(throughput.iter().copied().take(layers).collect::<Vec<_>>());
        }
        let mut problem = Problem {
            name: document.name.clone(),
            layers,
            types: types(&rates),
            rates,
            links: vec![0.0; count * count],
            source: vec![0.0; count],
            sink: vec![0.0; count],
            is_ample: false,
        };
        for (index, &(from, to, rate)) in document.links.iter().enumerate() {
            if !(0.0..=WIDEST_LINK).contains(&rate) {
                return wrong(format!("links[{index}][2]"), rate.to_string(), "0 to 10^15");
            }
            for (number, end) in [from, to].into_iter().enumerate() {
                if let FlowEnd::Node(node) = end
                    && node as usize >= count
                {
                    return wrong(
                        format!("links[{index}][{number}]"),
                        node.to_string(),
                        "a node of the list, from 0",
                    );
                }
            }
            match (from, to) {
                (FlowEnd::Node(from), FlowEnd::Node(to)) if from != to => {
                    problem.links[from as usize * count + to as usize] += rate;
                }
                (FlowEnd::Outside(FlowOutside::Source), FlowEnd::Node(node)) => {
                    problem.source[node as usize] += rate;
                }
                (FlowEnd::Node(node), FlowEnd::Outside(FlowOutside::Sink)) => {
                    problem.sink[node as usize] += rate
                }
                _ => {
                    let ends = format!("[{}, {}]", shown(from), shown(to));
                    let range = "from a node or the source to another node or the sink";
                    return wrong(format!("links[{index}]"), ends, range);
                }
            }
        }
        problem.is_ample = problem.limits_nothing();
        Ok(problem)
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.rates.len()
    }

    /// Tokens per second of the link between two nodes; 0 without one.
    pub fn link(&self, from: usize, to: usize) -> f64 {
        self.links[from * self.nodes() + to]
    }

    /// Largest rate of a node with any number of layers; 0 if it can hold none.
    pub(crate) fn fastest(&self, node: usize) -> f64 {
        self.rates[node].iter().copied().fold(0.0, f64::max)
    }

    /// Whether every link carries what either of its nodes can serve.
    fn limits_nothing(&self) -> bool {
        let fastest: Vec<f64> = (0..self.nodes()).map(|node| self.fastest(node)).collect();
        let is_wide =
            |from: usize, to: usize| from == to || self.link(from, to) >= fastest[from].min(fastest[to]);
        let is_open = |node: usize| self.source[node] >= fastest[node] && self.sink[node] >= fastest[node];
        (0..self.nodes()).all(|node| is_open(node) && (0..self.nodes()).all(|other| is_wide(node, other)))
    }
}

fn shown(end: FlowEnd) -> String {
    match end {
        FlowEnd::Node(node) => node.to_string(),
        FlowEnd::Outside(FlowOutside::Source) => "source".into(),
        FlowEnd::Outside(FlowOutside::Sink) => "sink".into(),
    }
}

/// Groups nodes with equal rates, in the order of their first nodes. Nodes that can hold no layers are left out.
fn types(rates: &[Vec<f64>]) -> Vec<Type> {
    let mut types: Vec<Type> = Vec::new();
    let mut known: FxHashMap<Vec<u64>, usize> = FxHashMap::default();
    for (node, rates) in rates.iter().enumerate().filter(|(_, rates)| !rates.is_empty()) {
        let key: Vec<u64> = rates.iter().map(|rate| rate.to_bits()).collect();
        let index = *known.entry(key).or_insert_with(|| {
            types.push(Type { rates: rates.clone(), nodes: Vec::new() });
            types.len() - 1
        });
        types[index].nodes.push(node);
    }
    types
}
