//! The repeated parts of a graph, read from the names of its operators.
//!
//! In a graph that repeats a layer or a step, operators have names that differ in a number:
//! `decoder.layer.3.step7.hidden`. An *axis* is such a number: the word before it, and how many values it has. A graph
//! can be folded along an axis if tensors lead from one of its values to the next, as from step to step and from
//! layer to layer. The experts of a layer have no such tensors: they run side by side, and a graph without some of them
//! would be another problem.
//!
//! A *section* is a range of values with the same operators at every value, or at every second, third and so on: the
//! period of the section. The reduction cells of a convolutional network, for instance, divide its cells into sections.

use std::collections::BTreeMap;

use stagewright_core::graph::{Graph, OpId};
use stagewright_core::text::{NUMBER, split_numbers};

use super::super::instance::Instance;

/// Fewest values of an axis, and fewest operators per value.
const FEWEST_VALUES: usize = 8;
const FEWEST_OPERATORS: usize = 4;
/// Largest distance on an axis that a tensor may have to be part of the repetition. Longer tensors are those of
/// attention over a sequence and of connections that skip a part of the model.
pub(super) const LOCAL: usize = 16;
/// Largest period of a section, and fewest periods in it.
const LONGEST_PERIOD: usize = 12;
const FEWEST_PERIODS: usize = 3;
/// Largest ratio of the work at a value to the work a period before.
const MOST_CHANGE: f64 = 1.25;

/// A range of values with the same operators at each, or every `period` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) period: usize,
}

/// A number in names, along which the graph repeats.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// Number of values, the first of which is zero.
    pub(super) len: usize,
    pub(super) sections: Vec<Section>,
}

/// An operator's value on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Coordinate {
    pub(super) axis: usize,
    pub(super) value: usize,
}

/// The axes of a graph and the place of every operator on them.
#[derive(Debug, Clone)]
pub(super) struct Axes {
    /// The axes along which the graph can be folded, the one with most values first.
    pub(super) axes: Vec<Axis>,
    /// By operator, the name without its values on the axes: operators of one line differ in these values alone.
    pub(super) line_of: Vec<u32>,
    /// Number of lines.
    pub(super) lines: usize,
    first: Vec<u32>,
    coordinates: Vec<Coordinate>,
}

impl Axes {
    /// The values of an operator on the axes.
    pub(super) fn of(&self, op: OpId) -> &[Coordinate] {
        &self.coordinates[self.first[op.index()] as usize..self.first[op.index() + 1] as usize]
    }

    /// The axes of a graph. O(operators log operators + pins).
    pub(super) fn new(instance: &Instance<'_>) -> Axes {
        let graph = instance.graph();
        let names = Names::new(graph);
        let numbers = names.axes(graph);
        let mut axes = Axes::by(&names, &numbers.axis_of_prefix, &numbers.lengths);
        let is_sequential = axes.sequential(graph);
        // Only these remain; the numbers of the others become parts of the lines.
        let mut order: Vec<usize> = (0..axes.axes.len()).filter(|&axis| is_sequential[axis]).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(axes.axes[axis].len));
        let mut renamed = vec![None; axes.axes.len()];
        for (new, &old) in order.iter().enumerate() {
            renamed[old] = Some(new);
        }
        let axis_of_prefix: Vec<Option<usize>> =
            numbers.axis_of_prefix.iter().map(|axis| axis.and_then(|axis| renamed[axis])).collect();
        let lengths: Vec<usize> = order.iter().map(|&axis| numbers.lengths[axis]).collect();
        axes = Axes::by(&names, &axis_of_prefix, &lengths);
        axes.find_sections(instance);
        axes
    }

    /// The places of operators on given axes.
    fn by(names: &Names, axis_of_prefix: &[Option<usize>], lengths: &[usize]) -> Axes {
        let operators = names.role_of.len();
        let mut first = Vec::with_capacity(operators + 1);
        let mut coordinates = Vec::new();
        let mut keys: BTreeMap<Vec<u64>, u32> = BTreeMap::new();
        let mut line_of = Vec::with_capacity(operators);
        let mut key = Vec::new();
        for op in 0..operators {
            first.push(coordinates.len() as u32);
            key.clear();
            key.push(u64::from(names.role_of[op]));
            for (&number, &prefix) in
                names.numbers(op).iter().zip(&names.prefixes[names.role_of[op] as usize])
            {
                match axis_of_prefix[prefix] {
                    Some(axis) => coordinates.push(Coordinate { axis, value: number as usize }),
                    None => key.push(number),
                }
            }
            let next = keys.len() as u32;
            let line = match keys.get(&key) {
                Some(&line) => line,
                None => *keys.entry(key.clone()).or_insert(next),
            };
            line_of.push(line);
        }
        first.push(coordinates.len() as u32);
        let axes = lengths.iter().map(|&len| Axis { len, sections: Vec::new() }).collect();
        Axes { axes, line_of, lines: keys.len(), first, coordinates }
    }

    /// Whether tensors lead from one value of an axis to a near one, for at least half of its values.
    fn sequential(&self, graph: &Graph) -> Vec<bool> {
        let mut has_step: Vec<Vec<bool>> = self.axes.iter().map(|axis| vec![false; axis.len]).collect();
        for op in graph.operators() {
            for place in self.of(op) {
                if has_step[place.axis][place.value] {
                    continue;
                }
                let is_near = |&before: &OpId| {
                    let mut others = self.of(before).iter().filter(|other| other.axis == place.axis);
                    others.any(|other| (1..=LOCAL).contains(&other.value.abs_diff(place.value)))
                };
                has_step[place.axis][place.value] = graph.predecessors(op).iter().any(is_near);
            }
        }
        has_step.iter().map(|steps| 2 * steps.iter().filter(|step| **step).count() >= steps.len()).collect()
    }

    /// Divides the axes into sections by the operators and the work at their values.
    fn find_sections(&mut self, instance: &Instance<'_>) {
        let mut operators: Vec<Vec<u64>> = self.axes.iter().map(|axis| vec![0; axis.len]).collect();
        let mut work: Vec<Vec<f64>> = self.axes.iter().map(|axis| vec![0.0; axis.len]).collect();
        for op in instance.graph().operators() {
            for place in self.of(op) {
                let mut hash = mixed(u64::from(self.line_of[op.index()]));
                for other in self.of(op).iter().filter(|other| other.axis != place.axis) {
                    hash = mixed(hash ^ other.value as u64);
                }
                let sum = &mut operators[place.axis][place.value];
                *sum = sum.wrapping_add(hash);
                work[place.axis][place.value] += instance.mean_seconds(op);
            }
        }
        for ((axis, operators), work) in self.axes.iter_mut().zip(&operators).zip(&work) {
            axis.sections = sections(operators, work);
        }
    }
}

/// Bits that depend on all bits of a number (the finaliser of splitmix64).
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// The longest sections from the first value on; values without a repetition are sections of their own.
pub(super) fn sections(operators: &[u64], work: &[f64]) -> Vec<Section> {
    let is_alike = |a: usize, b: usize| {
        operators[a] == operators[b] && work[a] <= MOST_CHANGE * work[b] && work[b] <= MOST_CHANGE * work[a]
    };
    let mut sections = Vec::new();
    let mut start = 0;
    while start < operators.len() {
        let mut longest = Section { start, len: 1, period: 1 };
        for period in 1..=LONGEST_PERIOD {
            let mut end = start;
            while end + period < operators.len() && is_alike(end, end + period) {
                end += 1;
            }
            let len = end + period - start;
            if end > start && len >= FEWEST_PERIODS * period && len > longest.len {
                longest = Section { start, len, period };
            }
        }
        start += longest.len;
        sections.push(longest);
    }
    sections
}

/// The names of all operators, divided into text and numbers.
struct Names {
    role_of: Vec<u32>,
    /// By role, the prefix of each number.
    prefixes: Vec<Vec<usize>>,
    /// By prefix, the word before the number.
    words: Vec<String>,
    first: Vec<usize>,
    numbers: Vec<u64>,
}

/// The axes that names suggest.
struct Numbers {
    axis_of_prefix: Vec<Option<usize>>,
    lengths: Vec<usize>,
}

impl Names {
    fn new(graph: &Graph) -> Names {
        let mut names = Names {
            role_of: Vec::with_capacity(graph.operator_count()),
            prefixes: Vec::new(),
            words: Vec::new(),
            first: Vec::with_capacity(graph.operator_count() + 1),
            numbers: Vec::new(),
        };
        let (mut roles, mut prefixes) = (BTreeMap::new(), BTreeMap::new());
        let mut text = String::new();
        for op in graph.operators() {
            names.first.push(names.numbers.len());
            text.clear();
            split_numbers(&graph.operator(op).name, &mut text, &mut names.numbers);
            let role = match roles.get(&text) {
                Some(&role) => role,
                None => {
                    let role = roles.len() as u32;
                    roles.insert(text.clone(), role);
                    let numbers = names.prefixes_of(&text, &mut prefixes);
                    names.prefixes.push(numbers);
                    role
                }
            };
            names.role_of.push(role);
        }
        names.first.push(names.numbers.len());
        names
    }

    /// The prefixes of the numbers of a role.
    fn prefixes_of(&mut self, role: &str, known: &mut BTreeMap<String, usize>) -> Vec<usize> {
        let numbers = role.match_indices(NUMBER);
        numbers
            .map(|(end, _)| {
                let prefix = &role[..end];
                *known.entry(prefix.to_owned()).or_insert_with(|| {
                    let word = prefix.trim_end_matches(|char: char| !char.is_alphabetic() && char != NUMBER);
                    let start = word.rfind(|char: char| !char.is_alphabetic()).map_or(0, |last| last + 1);
                    self.words.push(word[start..].to_owned());
                    self.words.len() - 1
                })
            })
            .collect()
    }

    fn numbers(&self, op: usize) -> &[u64] {
        &self.numbers[self.first[op]..self.first[op + 1]]
    }

    /// The axes that have enough values and operators. Prefixes with the same word and about as many values are one
    /// axis: the steps of the encoder and those of the decoder, or those of the forward and of the backward pass.
    fn axes(&self, graph: &Graph) -> Numbers {
        let most = graph.operator_count() as u64;
        let mut largest = vec![0u64; self.words.len()];
        let mut counts = vec![0usize; self.words.len()];
        for (op, &role) in self.role_of.iter().enumerate() {
            for (&number, &prefix) in self.numbers(op).iter().zip(&self.prefixes[role as usize]) {
                largest[prefix] = largest[prefix].max(number);
                counts[prefix] += 1;
            }
        }
        let mut prefixes: Vec<usize> =
            (0..self.words.len()).filter(|&prefix| largest[prefix] < most).collect();
        prefixes.sort_by(|&a, &b| {
            self.words[a].cmp(&self.words[b]).then(largest[b].cmp(&largest[a])).then(a.cmp(&b))
        });
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for prefix in prefixes {
            let is_same = |group: &Vec<usize>| {
                let first = group[0];
                self.words[first] == self.words[prefix]
                    && largest[prefix] + 2 >= largest[first] - largest[first] / 10
            };
            match groups.last_mut().filter(|group| is_same(group)) {
                Some(group) => group.push(prefix),
                None => groups.push(vec![prefix]),
            }
        }
        let mut axis_of_prefix = vec![None; self.words.len()];
        let mut lengths = Vec::new();
        for group in groups {
            let len = largest[group[0]] as usize + 1;
            let operators: usize = group.iter().map(|&prefix| counts[prefix]).sum();
            if len >= FEWEST_VALUES && operators >= FEWEST_OPERATORS * len {
                for prefix in group {
                    axis_of_prefix[prefix] = Some(lengths.len());
                }
                lengths.push(len);
            }
        }
        Numbers { axis_of_prefix, lengths }
    }
}
