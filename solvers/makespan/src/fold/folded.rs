//! A folded graph: a graph without the middle of its sections.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    GraphDocument, OperatorDocument, ParameterDocument, PinsDocument, TensorDocument,
};
use stagewright_core::graph::{Graph, OpId, TensorId};
use stagewright_core::problem::Problem;

use super::super::instance::Instance;
use super::axes::{Axes, Coordinate, LOCAL, Section};
use super::unfold::{Part, Unfolding};

const NOWHERE: u32 = u32::MAX;
/// Share of the memory for tensors that a plan of the folded graph may fill: ramps are longer in the whole graph.
const SHARE: f64 = 0.97;
/// Largest number of places of a table for each operator of the graph.
const MOST_PLACES: usize = 8;
/// Fewest values that remain of a section.
const FEWEST_KEPT: usize = 3;

/// How the axes are folded: the parts of every axis.
#[derive(Debug, Clone)]
pub(super) struct Folding {
    pub(super) axes: Vec<Vec<Part>>,
    /// By axis and value, the folded value; [`NOWHERE`] in a gap.
    fold: Vec<Vec<u32>>,
}

impl Folding {
    /// Folds axes, the longest first, until a graph has about as many operators as wanted; `None` if that is impossible.
    pub(super) fn new(graph: &Graph, axes: &Axes, wanted: usize) -> Option<Folding> {
        let whole = |section: &Section| Part { section: *section, kept: section.len, start: section.start };
        let mut folding = Folding {
            axes: axes.axes.iter().map(|axis| axis.sections.iter().map(whole).collect()).collect(),
            fold: axes.axes.iter().map(|axis| (0..axis.len as u32).collect()).collect(),
        };
        let mut count = graph.operator_count();
        for axis in 0..axes.axes.len() {
            if !Folding::shrinks(count, wanted) {
                break;
            }
            // Operators of other axes do not become fewer.
            let on_axis = |op: &OpId| {
                folding.keeps(axes.of(*op)) && axes.of(*op).iter().any(|place| place.axis == axis)
            };
            let on_axis = graph.operators().filter(on_axis).count();
            let share = wanted.saturating_sub(count - on_axis) as f64 / on_axis.max(1) as f64;
            folding.shrink(axis, axes.axes[axis].len, share);
            count = graph.operators().filter(|op| folding.keeps(axes.of(*op))).count();
        }
        (count < graph.operator_count()).then_some(folding)
    }

    /// Whether folding makes a graph of `count` operators much smaller, if about `wanted` of them remain.
    pub(super) fn shrinks(count: usize, wanted: usize) -> bool {
        2 * count > 3 * wanted
    }

    fn shrink(&mut self, axis: usize, len: usize, share: f64) {
        let mut start = 0;
        for part in &mut self.axes[axis] {
            let Section { len, period, .. } = part.section;
            let least = FEWEST_KEPT.max(2 * period).min(len);
            let wanted = ((len as f64 * share) as usize).clamp(least, len);
            // Whole periods are missing, so that what follows a gap is what follows without it.
            let missing = (len - wanted) / period * period;
            (part.kept, part.start) = (len - missing, start);
            start += part.kept;
        }
        let parts = &self.axes[axis];
        let mut part = 0;
        let fold = |value: usize| {
            while value >= parts[part].section.start + parts[part].section.len {
                part += 1;
            }
            parts[part].fold(value).map_or(NOWHERE, |folded| folded as u32)
        };
        self.fold[axis] = (0..len).map(fold).collect();
    }

    /// Number of values of a folded axis.
    fn len(&self, axis: usize) -> usize {
        self.axes[axis].iter().map(|part| part.kept).sum()
    }

    /// Share that remains of the axes on which an operator has no value. Its work is for all their values, as that of a product for all
    /// steps, and becomes less in proportion.
    fn share(&self, places: &[Coordinate]) -> f64 {
        let is_off = |axis: &usize| places.iter().all(|place| place.axis != *axis);
        let share = |axis: usize| self.len(axis) as f64 / self.fold[axis].len() as f64;
        (0..self.axes.len()).filter(is_off).map(share).product()
    }

    /// Share that remains of the most shortened sections: a device that works for one of them alone has as many times the tensors in
    /// the whole graph.
    fn least_share(&self) -> f64 {
        let share = |part: &Part| part.kept as f64 / part.section.len as f64;
        self.axes.iter().map(|parts| parts.iter().map(share).fold(1.0, f64::min)).product()
    }

    fn keeps(&self, places: &[Coordinate]) -> bool {
        places.iter().all(|place| self.fold[place.axis][place.value] != NOWHERE)
    }
}

/// The operators of a folded graph by line and folded values.
#[derive(Debug)]
struct Table {
    /// By line, the first entry.
    first: Vec<usize>,
    entries: Vec<u32>,
}

impl Table {
    /// An empty table; `None` if the lines have values at few of their places, so that it would be much larger than the graph.
    fn new(graph: &Graph, axes: &Axes, folding: &Folding) -> Option<Table> {
        let mut sizes = vec![0usize; axes.lines];
        for op in graph.operators() {
            let size = &mut sizes[axes.line_of[op.index()] as usize];
            if *size == 0 {
                let mut lengths = axes.of(op).iter().map(|place| folding.len(place.axis));
                *size = lengths.try_fold(1usize, usize::checked_mul)?;
            }
        }
        let mut first = Vec::with_capacity(axes.lines + 1);
        let mut sum = 0;
        for size in sizes {
            first.push(sum);
            sum = size.checked_add(sum).filter(|&sum| sum <= MOST_PLACES * graph.operator_count())?;
        }
        first.push(sum);
        Some(Table { first, entries: vec![NOWHERE; sum] })
    }

    fn index(&self, line: u32, folding: &Folding, values: impl Iterator<Item = (usize, usize)>) -> usize {
        let mut index = 0;
        for (axis, value) in values {
            index = index * folding.len(axis) + value;
        }
        self.first[line as usize] + index
    }

    /// Gives every entry without an operator that of the nearest entry of its line.
    fn complete(&mut self) {
        for line in self.first.windows(2) {
            let entries = &mut self.entries[line[0]..line[1]];
            for index in 1..entries.len() {
                if entries[index] == NOWHERE {
                    entries[index] = entries[index - 1];
                }
            }
            for index in (1..entries.len()).rev() {
                if entries[index - 1] == NOWHERE {
                    entries[index - 1] = entries[index];
                }
            }
        }
    }
}

/// A folded problem, with the operators of the unfolded one that are in it.
pub(super) struct Folded<'s> {
    pub(super) problem: Problem,
    pub(super) folding: Folding,
    /// The unfolded operators that are in the folded graph, in its order.
    pub(super) kept: Vec<OpId>,
    axes: &'s Axes,
    table: Table,
}

impl<'s> Folded<'s> {
    /// The problem with at most about as many operators as wanted; `None` if the graph does not repeat, or if it does
    /// not repeat as the names say.
    pub(super) fn new(instance: &Instance<'_>, axes: &'s Axes, wanted: usize) -> Option<Folded<'s>> {
        let (original, graph) = (instance.problem(), instance.graph());
        let folding = Folding::new(graph, axes, wanted)?;
        let kept: Vec<OpId> = graph.operators().filter(|&op| folding.keeps(axes.of(op))).collect();
        let mut table = Table::new(graph, axes, &folding)?;
        for (small, &op) in kept.iter().enumerate() {
            let values =
                axes.of(op).iter().map(|place| (place.axis, folding.fold[place.axis][place.value] as usize));
            let index = table.index(axes.line_of[op.index()], &folding, values);
            table.entries[index] = small as u32;
        }
        let mut document = GraphDocument::new(&graph.document().schema, graph.name());
        document.operators =
            kept.iter().map(|&op| operator(original, op, folding.share(axes.of(op)))).collect();
        document.batch = graph.document().batch;
        let mut readers: BTreeMap<TensorId, Vec<String>> = BTreeMap::new();
        for &op in &kept {
            let mut inputs: Vec<TensorId> = graph
                .inputs(op)
                .iter()
                .filter_map(|&tensor| folded_input(graph, axes, &folding, &table, &kept, op, tensor))
                .collect();
            inputs.sort_unstable();
            inputs.dedup();
            for tensor in inputs {
                readers.entry(tensor).or_default().push(graph.operator(op).name.clone());
            }
        }
        let all = &graph.document().tensors;
        document.tensors = readers
            .into_iter()
            .map(|(tensor, consumers)| {
                let share = folding.share(axes.of(graph.producer(tensor)));
                let TensorDocument { name, producer, bytes, seconds, .. } = all[tensor.index()].clone();
                let seconds = seconds.into_iter().map(|(class, seconds)| (class, seconds * share)).collect();
                TensorDocument { name, producer, consumers, bytes: bytes * share, seconds }
            })
            .collect();
        document.parameters = parameters(graph, axes, &folding, &kept);
        let names: BTreeSet<&str> =
            document.operators.iter().map(|operator| operator.name.as_str()).collect();
        let pins = original.pins().0.iter().filter(|(name, _)| names.contains(name.as_str()));
        let pins = PinsDocument(pins.map(|(name, targets)| (name.clone(), targets.clone())).collect());
        let small = Graph::from_document(document).ok()?;
        let cluster = smaller(original, SHARE * folding.least_share())?;
        let problem = Problem::pinned(small, cluster, *original.objective(), pins).ok()?;
        table.complete();
        Some(Folded { problem, folding, kept, axes, table })
    }

    /// The largest number of periods that remain of a section.
    pub(super) fn longest(&self) -> usize {
        let shortened = self.folding.axes.iter().flatten().filter(|part| part.kept < part.section.len);
        shortened.map(|part| part.kept / part.section.period).max().unwrap_or(1)
    }

    /// By axis and value, the folded value whose devices it gets by a rule.
    pub(super) fn values(&self, unfolding: Unfolding) -> Vec<Vec<u32>> {
        let axes = self.folding.axes.iter().zip(&self.axes.axes);
        axes.map(|(parts, axis)| unfolding.values(parts, axis.len)).collect()
    }

    /// By axis and value of the operators of a less folded graph, the folded value whose devices it gets by a rule. Values that
    /// the other graph lacks stay zero.
    pub(super) fn values_in(&self, other: &Folded<'_>, unfolding: Unfolding) -> Vec<Vec<u32>> {
        let of_axis = |axis: usize| {
            let beside = self.folding.axes[axis].iter().zip(&other.folding.axes[axis]);
            let parts: Vec<Part> = beside
                .map(|(part, larger)| {
                    let section = Section { start: larger.start, len: larger.kept, ..part.section };
                    Part { section, kept: part.kept.min(larger.kept), start: part.start }
                })
                .collect();
            let values = unfolding.values(&parts, other.folding.len(axis));
            let folded = |value: &u32| values.get(*value as usize).copied().unwrap_or(0);
            other.folding.fold[axis].iter().map(folded).collect()
        };
        (0..self.folding.axes.len()).map(of_axis).collect()
    }

    /// The devices of the unfolded operators, given those of the folded ones and what each folded axis repeats.
    pub(super) fn unfold(
        &self,
        instance: &Instance<'_>,
        unfolded: impl Iterator<Item = OpId>,
        device_of: &[DeviceId],
        unfolding: &[Vec<u32>],
    ) -> Vec<DeviceId> {
        let graph = instance.graph();
        let mut found: Vec<Option<DeviceId>> = Vec::with_capacity(graph.operator_count());
        for op in unfolded {
            let values = self
                .axes
                .of(op)
                .iter()
                .map(|place| (place.axis, unfolding[place.axis][place.value] as usize));
            let index = self.table.index(self.axes.line_of[op.index()], &self.folding, values);
            found.push(device_of.get(self.table.entries[index] as usize).copied());
        }
        // A class is where its first operator is; operators without a counterpart go where their inputs are.
        let mut home = vec![None; graph.class_count()];
        for &op in graph.topological() {
            let class = graph.class_of(op);
            if home[class.index()].is_some() {
                continue;
            }
            let homes = instance.homes(op);
            let inputs = graph.predecessors(op).iter().filter_map(|before| found[before.index()]);
            let device = found[op.index()]
                .into_iter()
                .chain(inputs)
                .find(|device| homes.binary_search(device).is_ok());
            home[class.index()] = device.or(homes.first().copied());
            found[op.index()] = home[class.index()];
        }
        graph.operators().map(|op| home[graph.class_of(op).index()].unwrap_or(DeviceId(0))).collect()
    }
}

/// The tensor of the folded graph that stands for an input of an operator in it.
fn folded_input(
    graph: &Graph,
    axes: &Axes,
    folding: &Folding,
    table: &Table,
    kept: &[OpId],
    op: OpId,
    tensor: TensorId,
) -> Option<TensorId> {
    let producer = graph.producer(tensor);
    let mut values = Vec::new();
    for place in axes.of(producer) {
        let fold = &folding.fold[place.axis];
        let reader = axes.of(op).iter().find(|reader| reader.axis == place.axis);
        let near = reader.filter(|reader| reader.value.abs_diff(place.value) <= LOCAL);
        let value = match near {
            // A near value is as near in the folded graph, even if the gap lies between.
            Some(reader) => (fold[reader.value] as usize + place.value).checked_sub(reader.value)?,
            None => fold[place.value] as usize,
        };
        if value >= folding.len(place.axis) {
            return None;
        }
        values.push((place.axis, value));
    }
    let index = table.index(axes.line_of[producer.index()], folding, values.into_iter());
    let counterpart = *kept.get(table.entries[index] as usize)?;
    let output = graph.outputs(producer).iter().position(|&output| output == tensor)?;
    graph.outputs(counterpart).get(output).copied()
}

/// An operator with a share of its work and its memory.
fn operator(original: &Problem, op: OpId, share: f64) -> OperatorDocument {
    let mut operator = original.graph().operator(op).clone();
    if share < 1.0 {
        operator.parameter_bytes *= share;
        operator.optimizer_bytes *= share;
        operator.activation_bytes *= share;
        operator.workspace_bytes *= share;
        for (index, pool) in original.pools().iter().enumerate() {
            if let Some(seconds) = original.seconds(op, index) {
                let class = original.cluster().kind(pool.kind).class.clone();
                operator.seconds.insert(class, seconds * share);
            }
        }
    }
    operator
}

/// The parameters that operators of the folded graph read. Those of all values of an axis become smaller, as the memory does.
fn parameters(graph: &Graph, axes: &Axes, folding: &Folding, kept: &[OpId]) -> Vec<ParameterDocument> {
    let mut parameters = Vec::new();
    for (index, parameter) in graph.parameters().iter().enumerate() {
        let left = graph.readers(index).iter().filter(|reader| kept.binary_search(reader).is_ok());
        let readers: Vec<String> = left.map(|&reader| graph.operator(reader).name.clone()).collect();
        if !readers.is_empty() {
            // Only a value that all readers have in common is a value of the parameter.
            let all = graph.readers(index);
            let is_common = |place: &&Coordinate| all.iter().all(|&reader| axes.of(reader).contains(place));
            let common = axes.of(all[0]).iter().filter(is_common).copied();
            let share = folding.share(&common.collect::<Vec<_>>());
            parameters.push(ParameterDocument {
                name: parameter.name.clone(),
                bytes: parameter.bytes * share,
                optimizer_bytes: parameter.optimizer_bytes * share,
                readers,
                ..*parameter
            });
        }
    }
    parameters
}

/// The cluster with as much less memory as the folded graph needs less.
fn smaller(original: &Problem, share: f64) -> Option<Cluster> {
    let mut document = original.cluster().document().clone();
    for (index, kind) in document.kinds.iter_mut().enumerate() {
        let memory = original.cluster().memory(index);
        if memory.is_finite() {
            (kind.memory_bytes, kind.reserve_bytes) = (Some((memory * share).ceil()), None);
        }
    }
    Cluster::from_document(document).ok()
}
