//! `stagewright.graph-packed/1`: a native model in columns, as MessagePack.
//!
//! Large graphs repeat themselves: a million operators have a few hundred costs, and their names differ in numbers. The
//! file therefore has each set of fields once, each text of names once with the numbers beside it, and tensors as indices of
//! names. It is about a tenth as large as the JSON, and holds the same document.
//!
//! Names are built by all threads of the global pool, as most of the time goes into allocating them.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use stagewright_core::document::{
    BatchDocument, CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA, GRAPH_SCHEMA_2, GraphDocument,
    OperatorDocument, ParameterDocument, TensorDocument,
};
use stagewright_core::text::{NUMBER, split_numbers};

use super::error::{At, InputError, Result};
use super::notation::expect_schema;
use super::text::Sniff;
use super::{Format, ImportOptions, Imported};
use crate::code::{F002, F005};

/// Schema of the packed form.
const PACKED_SCHEMA: &str = "stagewright.graph-packed/1";
/// Largest size of the unpacked document in relation to the file: beyond that, the file was made to fill the memory.
const LARGEST_RATIO: u64 = 512;
/// Largest number of digits of a number.
const DIGITS: u64 = 20;
/// Index of a name that is absent.
const ABSENT: u32 = u32::MAX;

/// The document. A vector `first` has the index of the first element of every row, and the number of all elements.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedDocument {
    schema: String,
    /// Schema of the unpacked document.
    graph: String,
    name: String,
    batch: Option<BatchDocument>,
    cluster: Option<ClusterDocument>,
    pipedream_skips: Vec<String>,
    names: Names,
    operators: Operators,
    tensors: Tensors,
    parameters: Vec<Parameter>,
}

/// All texts of the document that name something, each once.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    /// Texts in which [`NUMBER`] stands for a number; the others stand for themselves.
    texts: Vec<String>,
    /// By text, whether it has numbers.
    has_numbers: Vec<bool>,
    /// By name, its text.
    text: Vec<u32>,
    /// By name, the first of its numbers.
    first: Vec<u32>,
    numbers: Vec<u64>,
}

/// Operators by column. Names are indices, [`ABSENT`] if there is none.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operators {
    name: Vec<u32>,
    colocation: Vec<u32>,
    layer: Vec<u32>,
    /// Index of the other fields.
    other: Vec<u32>,
    others: Vec<OperatorDocument>,
}

/// Tensors by column. Names are indices, [`ABSENT`] if there is none.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tensors {
    name: Vec<u32>,
    producer: Vec<u32>,
    /// By tensor, the first of its consumers.
    first: Vec<u32>,
    consumers: Vec<u32>,
    /// Index of the other fields.
    other: Vec<u32>,
    others: Vec<TensorDocument>,
}

/// A parameter, with its readers as indices of names.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameter {
    readers: Vec<u32>,
    other: ParameterDocument,
}

/// Whether the bytes begin as a packed graph does: a map whose first entry is the schema.
pub(super) fn detect(bytes: &[u8], _json: &Sniff) -> bool {
    // The number of entries takes one byte for up to fifteen of them; texts of up to 31 bytes have their length before them.
    let rest = bytes.get(1..).and_then(|rest| rest.strip_prefix(b"\xa6schema"));
    rest.and_then(|rest| rest.get(1..)).is_some_and(|rest| rest.starts_with(PACKED_SCHEMA.as_bytes()))
}

pub(super) fn import(label: &str, bytes: &[u8], _options: &ImportOptions) -> Result<Imported> {
    let packed: PackedDocument = rmp_serde::from_slice(bytes).map_err(|error| {
        let help = "copy the file again, or write it again with `stagewright convert`";
        InputError::new(F002, label, At::Whole, format!("not a packed graph: {error}"), help)
    })?;
    expect_schema(label, "schema", &packed.schema, PACKED_SCHEMA)?;
    if packed.graph != GRAPH_SCHEMA && packed.graph != GRAPH_SCHEMA_2 {
        expect_schema(label, "graph", &packed.graph, GRAPH_SCHEMA_2)?;
    }
    if let Some(cluster) = &packed.cluster {
        expect_schema(label, "cluster.schema", &cluster.schema, CLUSTER_SCHEMA)?;
    }
    if packed.unpacked_bytes().is_none_or(|unpacked| unpacked > LARGEST_RATIO * bytes.len() as u64) {
        let message = "an index is out of range, or the file unpacks to hundreds of times its size";
        let help = "write the file again with `stagewright convert`";
        return Err(InputError::new(F005, label, At::Whole, message, help));
    }
    let graph = packed.unpacked().map_err(|column| {
        let help = "write the file again with `stagewright convert`";
        let message = "an index is out of range, or a column has another length than its neighbours";
        InputError::at_path(F005, label, column, message, help)
    })?;
    Ok(Imported { graph, format: Format::Packed, ids: None })
}

/// Writes a model in columns.
///
/// # Panics
/// If the model has more than four billion names or consumers.
pub fn write_packed(graph: &GraphDocument) -> Vec<u8> {
    let packed = PackedDocument::new(graph);
    rmp_serde::to_vec_named(&packed).expect("documents have nothing that MessagePack cannot hold")
}

impl PackedDocument {
    fn new(graph: &GraphDocument) -> PackedDocument {
        let mut table = Table::default();
        let mut operators = Operators::default();
        let mut known = BTreeMap::new();
        for operator in &graph.operators {
            operators.name.push(table.index(&operator.name));
            operators.colocation.push(table.optional(operator.colocation.as_deref()));
            operators.layer.push(table.optional(operator.layer.as_deref()));
            let other =
                OperatorDocument { name: String::new(), colocation: None, layer: None, ..operator.clone() };
            operators.other.push(place(&mut known, &mut operators.others, other));
        }
        let mut tensors = Tensors::default();
        let mut known = BTreeMap::new();
        for tensor in &graph.tensors {
            tensors.name.push(table.optional(tensor.name.as_deref()));
            tensors.producer.push(table.index(&tensor.producer));
            tensors.first.push(index_of(tensors.consumers.len()));
            tensors.consumers.extend(tensor.consumers.iter().map(|name| table.index(name)));
            let (bytes, seconds) = (tensor.bytes, tensor.seconds.clone());
            let other =
                TensorDocument { name: None, producer: String::new(), consumers: Vec::new(), bytes, seconds };
            tensors.other.push(place(&mut known, &mut tensors.others, other));
        }
        tensors.first.push(index_of(tensors.consumers.len()));
        let parameters = graph.parameters.iter().map(|parameter| Parameter {
            readers: parameter.readers.iter().map(|name| table.index(name)).collect(),
            other: ParameterDocument { readers: Vec::new(), name: parameter.name.clone(), ..*parameter },
        });
        PackedDocument {
            schema: PACKED_SCHEMA.into(),
            graph: graph.schema.clone(),
            name: graph.name.clone(),
            batch: graph.batch,
            cluster: graph.cluster.clone(),
            pipedream_skips: graph.pipedream_skips.clone(),
            parameters: parameters.collect(),
            names: table.finished(),
            operators,
            tensors,
        }
    }

    /// Bytes of all names and fields of the unpacked document, at most; `None` if an index is out of range.
    fn unpacked_bytes(&self) -> Option<u64> {
        let PackedDocument { names, operators, tensors, .. } = self;
        let is_ascending = |first: &[u32]| first.windows(2).all(|pair| pair[0] <= pair[1]);
        if !is_ascending(&names.first) || !is_ascending(&tensors.first) {
            return None;
        }
        let of_name = |(&text, first): (&u32, &[u32])| {
            let text = names.texts.get(text as usize)?;
            Some(text.len() as u64 + DIGITS * u64::from(first[1] - first[0]))
        };
        let of_name: Vec<u64> =
            names.text.iter().zip(names.first.windows(2)).map(of_name).collect::<Option<_>>()?;
        let of_names = |column: &[u32]| -> Option<u64> {
            let present = column.iter().filter(|&&name| name != ABSENT);
            present.map(|&name| of_name.get(name as usize)).sum::<Option<u64>>()
        };
        let mut sum = of_names(&operators.name)? + of_names(&operators.colocation)?;
        sum += of_names(&operators.layer)? + of_names(&tensors.name)?;
        sum += of_names(&tensors.producer)? + of_names(&tensors.consumers)?;
        for parameter in &self.parameters {
            sum += of_names(&parameter.readers)?;
        }
        Some(
            sum + bytes_of(&operators.others, &operators.other)? + bytes_of(&tensors.others, &tensors.other)?,
        )
    }

    /// The document, or the column that contradicts the others.
    fn unpacked(self) -> std::result::Result<GraphDocument, &'static str> {
        let PackedDocument { names, operators, tensors, .. } = self;
        if names.first.len() != names.text.len() + 1 || names.has_numbers.len() != names.texts.len() {
            return Err("names");
        }
        let count = operators.name.len();
        if [operators.colocation.len(), operators.layer.len(), operators.other.len()] != [count; 3] {
            return Err("operators");
        }
        let operator = |index: usize| {
            let other = operators.others.get(operators.other[index] as usize)?;
            Some(OperatorDocument {
                name: names.get(operators.name[index])?,
                colocation: names.optional(operators.colocation[index])?,
                layer: names.optional(operators.layer[index])?,
                ..other.clone()
            })
        };
        let count_of_tensors = tensors.name.len();
        let lengths = [tensors.producer.len(), tensors.other.len(), tensors.first.len().saturating_sub(1)];
        if lengths != [count_of_tensors; 3] || tensors.first.is_empty() {
            return Err("tensors");
        }
        let tensor = |index: usize| {
            let other = tensors.others.get(tensors.other[index] as usize)?;
            let consumers =
                tensors.consumers.get(tensors.first[index] as usize..tensors.first[index + 1] as usize)?;
            Some(TensorDocument {
                name: names.optional(tensors.name[index])?,
                producer: names.get(tensors.producer[index])?,
                consumers: consumers.iter().map(|&name| names.get(name)).collect::<Option<_>>()?,
                bytes: other.bytes,
                seconds: other.seconds.clone(),
            })
        };
        let parameter = |parameter: Parameter| {
            let readers = parameter.readers.iter().map(|&name| names.get(name)).collect::<Option<_>>()?;
            Some(ParameterDocument { readers, ..parameter.other })
        };
        Ok(GraphDocument {
            operators: rows(count, operator).ok_or("operators")?,
            tensors: rows(count_of_tensors, tensor).ok_or("tensors")?,
            parameters: self
                .parameters
                .into_iter()
                .map(parameter)
                .collect::<Option<_>>()
                .ok_or("parameters")?,
            schema: self.graph,
            name: self.name,
            batch: self.batch,
            cluster: self.cluster,
            pipedream_skips: self.pipedream_skips,
        })
    }
}

impl Names {
    /// A name; `None` if there is no such name.
    fn get(&self, name: u32) -> Option<String> {
        let text_index = *self.text.get(name as usize)? as usize;
        let text = self.texts.get(text_index)?;
        if !self.has_numbers[text_index] {
            return Some(text.clone());
        }
        let (from, to) = (*self.first.get(name as usize)?, *self.first.get(name as usize + 1)?);
        let mut numbers = self.numbers.get(from as usize..to as usize)?.iter();
        let mut whole = String::with_capacity(text.len() + 8);
        for (index, part) in text.split(NUMBER).enumerate() {
            if index > 0 {
                append(&mut whole, *numbers.next()?);
            }
            whole.push_str(part);
        }
        Some(whole)
    }

    /// A name or none; `None` if there is no such name.
    fn optional(&self, name: u32) -> Option<Option<String>> {
        if name == ABSENT { Some(None) } else { self.get(name).map(Some) }
    }
}

/// Rows made by all threads; `None` if a row cannot be made. Into a vector of options, whose length is known, every thread
/// writes its rows in place; collected into an option at once, all rows would be copied again.
fn rows<T: Send>(count: usize, row: impl Fn(usize) -> Option<T> + Send + Sync) -> Option<Vec<T>> {
    let rows: Vec<Option<T>> = (0..count).into_par_iter().map(row).collect();
    rows.into_iter().collect()
}

/// Bytes of the values at some indices; `None` if an index is out of range.
fn bytes_of<T: Serialize>(values: &[T], indices: &[u32]) -> Option<u64> {
    let bytes = |value: &T| rmp_serde::to_vec(value).ok().map(|bytes| bytes.len() as u64);
    let sizes: Vec<u64> = values.iter().map(bytes).collect::<Option<_>>()?;
    indices.iter().map(|&index| sizes.get(index as usize)).sum()
}

/// Appends the digits of a number.
fn append(text: &mut String, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(digits[start..].iter().map(|&digit| char::from(digit)));
}

/// The names so far.
#[derive(Default)]
struct Table<'g> {
    names: Names,
    index_of_name: rustc_hash::FxHashMap<&'g str, u32>,
    index_of_text: BTreeMap<(String, bool), u32>,
}

impl<'g> Table<'g> {
    fn index(&mut self, name: &'g str) -> u32 {
        if let Some(&index) = self.index_of_name.get(name) {
            return index;
        }
        let new = index_of(self.names.text.len());
        let (mut text, mut numbers) = (String::new(), Vec::new());
        split_numbers(name, &mut text, &mut numbers);
        // Numbers that begin with a zero, or have too many digits, are not what their digits say.
        let mut again = String::new();
        let mut written = numbers.iter();
        for (index, part) in text.split(NUMBER).enumerate() {
            if index > 0 {
                append(&mut again, written.next().copied().unwrap_or_default());
            }
            again.push_str(part);
        }
        let has_numbers = !numbers.is_empty() && again == name;
        if !has_numbers {
            (text, numbers) = (name.to_owned(), Vec::new());
        }
        let next = index_of(self.names.texts.len());
        let text_index = *self.index_of_text.entry((text.clone(), has_numbers)).or_insert(next);
        if text_index == next {
            self.names.texts.push(text);
            self.names.has_numbers.push(has_numbers);
        }
        self.names.text.push(text_index);
        self.names.first.push(index_of(self.names.numbers.len()));
        self.names.numbers.append(&mut numbers);
        self.index_of_name.insert(name, new);
        new
    }

    fn optional(&mut self, name: Option<&'g str>) -> u32 {
        name.map_or(ABSENT, |name| self.index(name))
    }

    fn finished(mut self) -> Names {
        self.names.first.push(index_of(self.names.numbers.len()));
        self.names
    }
}

fn index_of(count: usize) -> u32 {
    u32::try_from(count).ok().filter(|&index| index != ABSENT).expect("fewer than four billion")
}

/// The index of a value among those so far, by its bytes.
fn place<T: Serialize>(known: &mut BTreeMap<Vec<u8>, u32>, values: &mut Vec<T>, value: T) -> u32 {
    let bytes = rmp_serde::to_vec(&value).expect("documents have nothing that MessagePack cannot hold");
    let next = index_of(values.len());
    let found = *known.entry(bytes).or_insert(next);
    if found == next {
        values.push(value);
    }
    found
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::seed;
    use stagewright_workloads::{Options, family};

    use super::*;

    fn again(graph: &GraphDocument) -> GraphDocument {
        let bytes = write_packed(graph);
        assert!(detect(&bytes, &Sniff::default()));
        import("packed", &bytes, &ImportOptions::default()).expect("what is written is read").graph
    }

    #[test]
    fn a_packed_model_is_the_same_document() {
        for name in ["gnmt", "bert", "mixtral", "resnet"] {
            let graph = family(name).expect("a family").generate(None, &Options::default()).expect("a graph");
            assert_eq!(again(&graph), graph, "{name}");
        }
    }

    #[test]
    fn names_keep_their_digits() {
        let mut graph = GraphDocument::new(GRAPH_SCHEMA_2, "0");
        let names = [
            "0",
            "00",
            "a0",
            "a00",
            "a1",
            "a01b2",
            "99999999999999999999999",
            "18446744073709551615",
            "",
            "ä7é",
        ];
        graph.operators = names.iter().map(|name| OperatorDocument::named(*name)).collect();
        graph.operators[1].colocation = Some("a01b2".into());
        graph.operators[2].layer = Some(String::new());
        let consumers = vec!["a1".to_owned(), "nothing 3".to_owned()];
        let (producer, name) = ("a01b2".to_owned(), Some("t 5".to_owned()));
        graph.tensors =
            vec![TensorDocument { name, producer, consumers, bytes: 0.1, seconds: Default::default() }];
        assert_eq!(again(&graph), graph);
        assert_eq!(again(&GraphDocument::new(GRAPH_SCHEMA, "")), GraphDocument::new(GRAPH_SCHEMA, ""));
    }

    #[test]
    fn files_that_would_fill_the_memory_are_refused() {
        let mut graph = GraphDocument::new(GRAPH_SCHEMA_2, "bomb");
        graph.operators = vec![OperatorDocument::named("x".repeat(100_000))];
        let mut packed = PackedDocument::new(&graph);
        for column in
            [&mut packed.operators.name, &mut packed.operators.colocation, &mut packed.operators.other]
        {
            *column = vec![0; 100_000];
        }
        packed.operators.layer = vec![ABSENT; 100_000];
        let bytes = rmp_serde::to_vec_named(&packed).expect("room");
        let refused = import("packed", &bytes, &ImportOptions::default()).expect_err("a bomb");
        assert_eq!(refused.code, "F005");
        packed.operators.name[0] = 7;
        assert_eq!(packed.unpacked_bytes(), None);
    }

    #[test]
    fn damaged_files_are_refused_and_never_panic() {
        let graph = family("rnnlm").expect("a family").generate(None, &Options::default()).expect("a graph");
        let bytes = write_packed(&graph);
        let read = |bytes: &[u8]| import("packed", bytes, &ImportOptions::default());
        for len in (0..bytes.len()).step_by(97) {
            assert!(read(&bytes[..len]).is_err(), "cut to {len} bytes");
        }
        let mut rng = seed::stream(7, 1);
        for _ in 0..2000 {
            let mut bytes = bytes.clone();
            let index = rng.random_range(0..bytes.len());
            bytes[index] = rng.random();
            drop(read(&bytes));
        }
    }
}
