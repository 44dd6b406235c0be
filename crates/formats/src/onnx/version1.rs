//! Documents of version 1, for comparison with earlier figures.
//!
//! | in the file | in the document |
//! | --- | --- |
//! | constant of a parameter's type | parameter bytes of its reader |
//! | running statistics of a `BatchNormalization`; integer and boolean constants | workspace of the reader: they take memory, but no gradient or replica needs them |
//! | constant of more than [`COPIED_BYTES`](crate::constants::COPIED_BYTES) with several readers | counted once, at the first, and its readers are colocated |
//! | smaller constant with several readers | a copy for each |
//! | output with readers | tensor |

use stagewright_core::document::{GRAPH_SCHEMA, GraphDocument, OperatorDocument, TensorDocument};

use super::walk::{Origin, Walked};
use super::{names, node_name, scope, value};
use crate::constants::{self, Use};
use crate::readers::Readers;

pub(super) fn document(name: &str, walked: &Walked<'_>) -> GraphDocument {
    let written =
        walked.operators.iter().enumerate().map(|(index, operator)| (node_name(operator.node), index as i64));
    let names = names::unique(written);
    let mut operators: Vec<OperatorDocument> = walked
        .operators
        .iter()
        .zip(&names)
        .map(|(operator, name)| OperatorDocument {
            kind: Some(operator.node.op_type().to_owned()),
            layer: scope(operator.node).or_else(|| names::layer(name)),
            flop: operator.flop,
            bytes_moved: Some(operator.bytes_moved),
            ..OperatorDocument::named(name.clone())
        })
        .collect();
    constants::give(uses(walked), &mut operators, |constant| walked.values[constant].name);
    let mut readers = Readers::default();
    for (reader, operator) in walked.operators.iter().enumerate() {
        for &value in &operator.reads {
            if let Origin::Operator(producer) = walked.values[value].origin {
                readers.add(producer, value, reader);
            }
        }
    }
    let tensor = |(producer, value, readers): (usize, usize, &[usize])| {
        let bytes = walked.values[value].value.bytes().unwrap_or(0.0);
        let consumers = readers.iter().map(|&reader| names[reader].clone()).collect();
        let name = Some(walked.values[value].name.to_owned());
        TensorDocument { name, ..TensorDocument::new(&*names[producer], consumers, bytes) }
    };
    let tensors = readers.iter().map(tensor).collect();
    GraphDocument { operators, tensors, ..GraphDocument::new(GRAPH_SCHEMA, name) }
}

/// Constants that operators read.
fn uses<'a>(walked: &'a Walked<'_>) -> impl Iterator<Item = Use> + 'a {
    walked.operators.iter().enumerate().flat_map(move |(reader, operator)| {
        let statistics = match operator.node.op_type() {
            "BatchNormalization" => operator.inputs.get(3..).unwrap_or_default(),
            _ => &[],
        };
        operator.reads.iter().filter_map(move |&value| {
            let Origin::Constant { root } = walked.values[value].origin else { return None };
            let constant = &walked.values[root].value;
            let is_statistic = statistics.contains(&Some(value));
            Some(Use {
                reader,
                constant: root,
                bytes: constant.bytes().unwrap_or(0.0),
                is_parameter: value::is_parameter(constant.elem) && !is_statistic,
            })
        })
    })
}
