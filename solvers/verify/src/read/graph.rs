//! The graph document as indices: tensors as hyperedges, colocation classes, a topological order.

use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::document::{GraphDocument, OperatorDocument, Pass, TensorDocument};

use super::figure::amount;
use crate::error::CheckError;
use crate::topological;
use crate::violation::Subject;

/// A tensor with its operators by index.
#[derive(Debug)]
pub(crate) struct Tensor<'a> {
    pub(crate) document: &'a TensorDocument,
    pub(crate) producer: usize,
    /// As the document lists them, each once, the producer not among them.
    pub(crate) consumers: Vec<usize>,
}

impl Tensor<'_> {
    /// The producer, then the consumers, each once.
    pub(crate) fn pins(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(self.producer).chain(self.consumers.iter().copied())
    }

    /// Its producer with each of its consumers.
    pub(crate) fn arcs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.consumers.iter().map(|&consumer| (self.producer, consumer))
    }

    /// Writes the homes of its pins into `touched`, ascending, each once; `home_of` gives that of each
    /// operator.
    pub(crate) fn touches(&self, home_of: &[usize], touched: &mut Vec<usize>) {
        touched.clear();
        touched.extend(self.pins().map(|operator| home_of[operator]));
        touched.sort_unstable();
        touched.dedup();
    }

    /// How messages call it: its name, or who makes it.
    pub(crate) fn label(&self) -> String {
        match &self.document.name {
            Some(name) => format!("tensor {name:?}"),
            None => format!("a tensor of {:?}", self.document.producer),
        }
    }

    /// What a violation of it is about.
    pub(crate) fn subject(&self) -> Subject {
        Subject::Tensor(self.document.name.clone().unwrap_or_else(|| self.document.producer.clone()))
    }
}

/// The graph: operators and tensors keep the order of the document.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    pub(crate) operators: &'a [OperatorDocument],
    pub(crate) tensors: Vec<Tensor<'a>>,
    /// Operators so that producers come before consumers.
    pub(crate) order: Vec<usize>,
    /// Colocation class of each operator; one without a group is a class of its own.
    pub(crate) class_of: Vec<usize>,
    /// Members of each class.
    pub(crate) classes: Vec<Vec<usize>>,
    index: FxHashMap<&'a str, usize>,
}

impl<'a> Graph<'a> {
    /// Reads the document: unique names, tensors between operators that exist, costs in range, no cycle.
    pub(super) fn read(document: &'a GraphDocument) -> Result<Self, CheckError> {
        let operators = document.operators.as_slice();
        let mut index = FxHashMap::default();
        for (position, operator) in operators.iter().enumerate() {
            if index.insert(operator.name.as_str(), position).is_some() {
                return Err(CheckError::Duplicate { what: "operator", name: operator.name.clone() });
            }
            operator_figures(operator)?;
        }
        let tensors = document
            .tensors
            .iter()
            .enumerate()
            .map(|(position, tensor)| read_tensor(&index, position, tensor))
            .collect::<Result<Vec<_>, _>>()?;
        let order = acyclic(operators, &tensors)?;
        let (class_of, classes) = colocation_classes(operators);
        Ok(Graph { operators, tensors, order, class_of, classes, index })
    }

    /// Index of an operator.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Pass of an operator.
    pub(crate) fn pass(&self, operator: usize) -> Pass {
        self.operators[operator].pass
    }

    /// For each class, whether a member belongs to the forward pass.
    pub(crate) fn classes_with_forward(&self) -> Vec<bool> {
        let forward = |&operator: &usize| self.pass(operator) == Pass::Forward;
        self.classes.iter().map(|members| members.iter().any(forward)).collect()
    }
}

fn operator_figures(operator: &OperatorDocument) -> Result<(), CheckError> {
    let name = &operator.name;
    for (class, &seconds) in &operator.seconds {
        amount(seconds, || format!("seconds of operator {name:?} on class {class:?}"))?;
    }
    let figures = [
        ("flop", operator.flop.unwrap_or(0.0)),
        ("bytes_moved", operator.bytes_moved.unwrap_or(0.0)),
        ("parameter_bytes", operator.parameter_bytes),
        ("optimizer_bytes", operator.optimizer_bytes),
        ("activation_bytes", operator.activation_bytes),
        ("workspace_bytes", operator.workspace_bytes),
    ];
    figures.into_iter().try_for_each(|(what, value)| amount(value, || format!("{what} of operator {name:?}")))
}

fn read_tensor<'a>(
    index: &FxHashMap<&str, usize>,
    position: usize,
    document: &'a TensorDocument,
) -> Result<Tensor<'a>, CheckError> {
    let place = || match &document.name {
        Some(name) => format!("tensor {name:?} (number {position})"),
        None => format!("tensor number {position}"),
    };
    let find = |name: &String| {
        index.get(name.as_str()).copied().ok_or_else(|| CheckError::Unknown {
            place: place(),
            what: "operator",
            name: name.clone(),
        })
    };
    amount(document.bytes, || format!("bytes of {}", place()))?;
    for (class, &seconds) in &document.seconds {
        amount(seconds, || format!("seconds of {} on class {class:?}", place()))?;
    }
    let producer = find(&document.producer)?;
    let mut consumers = document.consumers.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    // Pins are a set: an operator that is listed twice still reads the tensor once.
    let mut seen = FxHashSet::default();
    consumers.retain(|&consumer| seen.insert(consumer));
    Ok(Tensor { document, producer, consumers })
}

fn acyclic(operators: &[OperatorDocument], tensors: &[Tensor]) -> Result<Vec<usize>, CheckError> {
    let arcs: Vec<(usize, usize)> = tensors.iter().flat_map(Tensor::arcs).collect();
    topological::sort(operators.len(), &arcs).map_err(|cycle| CheckError::Cycle {
        operators: cycle.into_iter().map(|operator| operators[operator].name.clone()).collect(),
    })
}

fn colocation_classes(operators: &[OperatorDocument]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut of_group: FxHashMap<&str, usize> = FxHashMap::default();
    let mut classes: Vec<Vec<usize>> = Vec::new();
    let mut class_of = Vec::with_capacity(operators.len());
    for (position, operator) in operators.iter().enumerate() {
        let fresh = classes.len();
        let class = match &operator.colocation {
            Some(group) => *of_group.entry(group.as_str()).or_insert(fresh),
            None => fresh,
        };
        if class == fresh {
            classes.push(Vec::new());
        }
        classes[class].push(position);
        class_of.push(class);
    }
    (class_of, classes)
}
