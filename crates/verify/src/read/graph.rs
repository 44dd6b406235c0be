//! The graph document as indices: tensors as hyperedges, colocation classes, a topological order.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::document::{
    GraphDocument, KernelDocument, OperatorDocument, ParameterDocument, Pass, TensorDocument,
};

use super::figure::{amount, rate};
use crate::error::CheckError;
use crate::topological;
use crate::violation::Subject;

/// A tensor, with operators as indices.
#[derive(Debug)]
pub(crate) struct Tensor<'a> {
    pub(crate) document: &'a TensorDocument,
    pub(crate) producer: usize,
    /// Readers of the tensor in document order, each once; never the producer.
    pub(crate) consumers: Vec<usize>,
}

impl Tensor<'_> {
    /// The producer, then the consumers, each once.
    pub(crate) fn pins(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(self.producer).chain(self.consumers.iter().copied())
    }

    /// Pairs of the producer and each consumer.
    pub(crate) fn arcs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.consumers.iter().map(|&consumer| (self.producer, consumer))
    }

    /// Writes the homes of the tensor's pins into `touched`, ascending, each once; `home_of` gives the home of each
    /// operator.
    pub(crate) fn touches(&self, home_of: &[usize], touched: &mut Vec<usize>) {
        touched.clear();
        touched.extend(self.pins().map(|operator| home_of[operator]));
        touched.sort_unstable();
        touched.dedup();
    }

    /// Label of the tensor in messages: its name, or its producer.
    pub(crate) fn label(&self) -> String {
        match &self.document.name {
            Some(name) => format!("tensor {name:?}"),
            None => format!("a tensor of {:?}", self.document.producer),
        }
    }

    /// Subject of violations that are about the tensor.
    pub(crate) fn subject(&self) -> Subject {
        Subject::Tensor(self.document.name.clone().unwrap_or_else(|| self.document.producer.clone()))
    }
}

/// The graph; operators and tensors keep the order of the document.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    pub(crate) operators: &'a [OperatorDocument],
    pub(crate) tensors: Vec<Tensor<'a>>,
    /// Topological order of the operators.
    pub(crate) order: Vec<usize>,
    /// Colocation class of each operator; an operator without a group has its own class.
    pub(crate) class_of: Vec<usize>,
    /// Members of each class.
    pub(crate) classes: Vec<Vec<usize>>,
    /// Shared parameters.
    pub(crate) parameters: Vec<Parameter<'a>>,
    /// Whether memory follows the rules of version 2.
    pub(crate) is_version_2: bool,
    pub(crate) has_backward: bool,
    /// Rank of every operator in the order in which a device runs its operators.
    pub(crate) work_place: Vec<usize>,
    /// Tensors that each operator produces or reads.
    pub(crate) tensors_of: Vec<Vec<usize>>,
    index: FxHashMap<&'a str, usize>,
}

/// A shared parameter.
#[derive(Debug)]
pub(crate) struct Parameter<'a> {
    pub(crate) document: &'a ParameterDocument,
    /// Readers of the parameter in document order.
    pub(crate) readers: Vec<usize>,
}

impl<'a> Graph<'a> {
    /// Reads the document and checks it: unique names, tensors between existing operators, costs in range, no cycle.
    pub(crate) fn read(document: &'a GraphDocument) -> Result<Self, CheckError> {
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
        let parameters = document
            .parameters
            .iter()
            .map(|parameter| read_parameter(&index, parameter))
            .collect::<Result<Vec<_>, _>>()?;
        let (class_of, classes) = colocation_classes(operators, &parameters);
        let mut tensors_of = vec![Vec::new(); operators.len()];
        for (position, tensor) in tensors.iter().enumerate() {
            tensor.pins().for_each(|operator| tensors_of[operator].push(position));
        }
        Ok(Graph {
            operators,
            order,
            class_of,
            classes,
            parameters,
            is_version_2: document.is_version_2(),
            has_backward: operators.iter().any(|operator| operator.pass == Pass::Backward),
            work_place: work_places(operators, &tensors),
            tensors,
            tensors_of,
            index,
        })
    }

    /// Index of an operator.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Pass of an operator.
    pub(crate) fn pass(&self, operator: usize) -> Pass {
        self.operators[operator].pass
    }

    /// Minimum bytes of a device that runs `members`, the operators of one class in ascending order, whatever else it
    /// runs. Parameters and tensors that the class may share with another class are left out.
    pub(crate) fn least_bytes(&self, members: &[usize]) -> f64 {
        if !self.is_version_2 {
            return members.iter().map(|&operator| self.operators[operator].bytes()).sum();
        }
        let inside = |operator: &usize| members.binary_search(operator).is_ok();
        let declared = members.iter().map(|&operator| {
            let document = &self.operators[operator];
            document.parameter_bytes + document.optimizer_bytes + document.activation_bytes
        });
        let own = self.parameters.iter().filter(|parameter| parameter.readers.iter().all(inside));
        let own = own.map(|parameter| parameter.document.bytes + parameter.document.optimizer_bytes);
        // Tensors that this class alone keeps from the forward to the backward pass.
        let class_of = |operator: usize| self.class_of[operator];
        let made = members.iter().flat_map(|&operator| &self.tensors_of[operator]);
        let made: BTreeSet<usize> = made.copied().collect();
        let kept = made.into_iter().map(|tensor| &self.tensors[tensor]).filter(|tensor| {
            let is_forward = |&operator: &usize| self.pass(operator) == Pass::Forward;
            let (before, after): (Vec<usize>, Vec<usize>) = tensor.pins().partition(is_forward);
            let before: BTreeSet<usize> = before.into_iter().map(class_of).collect();
            let after: BTreeSet<usize> = after.into_iter().map(class_of).collect();
            let both: Vec<&usize> = before.intersection(&after).collect();
            is_forward(&tensor.producer)
                && members.first().map(|&first| class_of(first)).as_ref() == both.first().copied()
                && both.len() == 1
        });
        declared.sum::<f64>() + own.sum::<f64>() + kept.map(|tensor| tensor.document.bytes).sum::<f64>()
    }

    /// Bytes of one class's own parameters that replicas synchronise.
    pub(crate) fn least_synchronised(&self, members: &[usize]) -> f64 {
        let own: f64 = members.iter().map(|&operator| self.operators[operator].parameter_bytes).sum();
        let inside = |operator: &usize| members.binary_search(operator).is_ok();
        match (self.is_version_2, self.has_backward) {
            (false, _) => own,
            (true, false) => 0.0,
            (true, true) => {
                let trained = self.parameters.iter().filter(|parameter| parameter.document.trained);
                let shared = trained.filter(|parameter| parameter.readers.iter().all(inside));
                own + shared.map(|parameter| parameter.document.bytes).sum::<f64>()
            }
        }
    }

    /// Whether each class has a forward operator.
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
    for (what, value) in operator.kernels.iter().flat_map(KernelDocument::dimensions) {
        rate(value, || format!("{what} of a kernel of operator {name:?}"))?;
    }
    let figures = [
        ("flop", operator.flop.unwrap_or(0.0)),
        ("bytes_moved", operator.bytes_moved.unwrap_or(0.0)),
        ("launches", operator.launches.unwrap_or(0.0)),
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
    // Pins are a set: an operator listed twice still reads the tensor once.
    let mut seen = FxHashSet::default();
    consumers.retain(|&consumer| seen.insert(consumer));
    Ok(Tensor { document, producer, consumers })
}

fn read_parameter<'a>(
    index: &FxHashMap<&str, usize>,
    document: &'a ParameterDocument,
) -> Result<Parameter<'a>, CheckError> {
    let place = || format!("parameter {:?}", document.name);
    amount(document.bytes, || format!("bytes of {}", place()))?;
    amount(document.optimizer_bytes, || format!("optimizer_bytes of {}", place()))?;
    let find = |name: &String| {
        index.get(name.as_str()).copied().ok_or_else(|| CheckError::Unknown {
            place: place(),
            what: "operator",
            name: name.clone(),
        })
    };
    let readers = document.readers.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    if readers.is_empty() {
        return Err(CheckError::Unknown { place: place(), what: "reader", name: String::new() });
    }
    Ok(Parameter { document, readers })
}

/// Ranks the operators by repeatedly taking one whose producers are all ranked, forward operators before others, then
/// by document order.
fn work_places(operators: &[OperatorDocument], tensors: &[Tensor]) -> Vec<usize> {
    let mut waiting = vec![0usize; operators.len()];
    let mut heads: Vec<Vec<usize>> = vec![Vec::new(); operators.len()];
    for (from, to) in tensors.iter().flat_map(Tensor::arcs) {
        waiting[to] += 1;
        heads[from].push(to);
    }
    let key = |operator: usize| (operators[operator].pass != Pass::Forward, operator);
    let mut ready: BTreeSet<(bool, usize)> =
        (0..operators.len()).filter(|&operator| waiting[operator] == 0).map(key).collect();
    let mut places = vec![0; operators.len()];
    let mut next = 0;
    while let Some((_, operator)) = ready.pop_first() {
        places[operator] = next;
        next += 1;
        for &head in &heads[operator] {
            waiting[head] -= 1;
            if waiting[head] == 0 {
                ready.insert(key(head));
            }
        }
    }
    places
}

fn acyclic(operators: &[OperatorDocument], tensors: &[Tensor]) -> Result<Vec<usize>, CheckError> {
    let arcs: Vec<(usize, usize)> = tensors.iter().flat_map(Tensor::arcs).collect();
    topological::sort(operators.len(), &arcs).map_err(|cycle| CheckError::Cycle {
        operators: cycle.into_iter().map(|operator| operators[operator].name.clone()).collect(),
    })
}

/// Classes of operators that share a device: the transitive closure of sharing a colocation name, and of reading the
/// same parameter that is kept together. Numbered by their first operator.
fn colocation_classes(
    operators: &[OperatorDocument],
    parameters: &[Parameter],
) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut groups: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (position, operator) in operators.iter().enumerate() {
        if let Some(group) = &operator.colocation {
            groups.entry(group.as_str()).or_default().push(position);
        }
    }
    let kept = parameters.iter().filter(|parameter| parameter.document.together);
    let joined = groups.values().chain(kept.map(|parameter| &parameter.readers));
    let arcs: Vec<(usize, usize)> = joined
        .flat_map(|members| members.windows(2).flat_map(|two| [(two[0], two[1]), (two[1], two[0])]))
        .collect();
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); operators.len()];
    for (left, right) in arcs {
        neighbours[left].push(right);
    }
    let mut classes: Vec<Vec<usize>> = Vec::new();
    let mut class_of = vec![usize::MAX; operators.len()];
    for position in 0..operators.len() {
        if class_of[position] != usize::MAX {
            continue;
        }
        let class = classes.len();
        let (mut members, mut open) = (Vec::new(), vec![position]);
        class_of[position] = class;
        while let Some(operator) = open.pop() {
            members.push(operator);
            for &next in &neighbours[operator] {
                if class_of[next] == usize::MAX {
                    class_of[next] = class;
                    open.push(next);
                }
            }
        }
        members.sort_unstable();
        classes.push(members);
    }
    (class_of, classes)
}
