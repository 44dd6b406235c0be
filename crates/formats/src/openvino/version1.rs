//! Documents of version 1, for comparison with earlier figures: constants belong to their readers.

use rustc_hash::FxHashMap;
use stagewright_core::document::{GRAPH_SCHEMA, GraphDocument, OperatorDocument, TensorDocument};

use super::cost;
use super::net::Net;
use crate::constants::{self, Use};
use crate::error::Result;
use crate::names;
use crate::readers::Readers;

pub(super) fn document(net: &Net<'_>, name: &str) -> Result<GraphDocument> {
    let computed = net.computed(|layer| layer.kind == "Const");
    let (placed, names) = net.placed(&computed)?;
    let place: FxHashMap<usize, usize> =
        placed.iter().enumerate().map(|(place, &layer)| (layer, place)).collect();
    let mut operators = Vec::with_capacity(placed.len());
    for (&index, name) in placed.iter().zip(&names) {
        operators.push(OperatorDocument {
            kind: Some(net.layers[index].kind.to_owned()),
            layer: names::layer(name),
            flop: net.flop(index)?,
            bytes_moved: Some(cost::bytes_moved(&net.layers[index])),
            ..OperatorDocument::named(name.clone())
        });
    }
    let mut readers = Readers::default();
    let mut uses = Vec::new();
    for (reader, &index) in placed.iter().enumerate() {
        let layer = &net.layers[index];
        for (input, &source) in layer.sources.iter().enumerate() {
            let Some(source) = source else { continue };
            if let Some(&producer) = place.get(&source.0) {
                readers.add(producer, source.1, reader);
            } else if !computed[source.0] {
                let (root, output) = net.root(source);
                let stored = &net.layers[root].outputs[output];
                let is_parameter = stored.is_parameter && !layer.has_statistic(input);
                uses.push(Use { reader, constant: root, bytes: stored.bytes(), is_parameter });
            }
        }
    }
    constants::give(uses.into_iter(), &mut operators, |constant| net.layers[constant].name);
    let tensor = |(producer, output, readers): (usize, usize, &[usize])| {
        let consumers = readers.iter().map(|&reader| names[reader].clone()).collect();
        let bytes = net.layers[placed[producer]].outputs[output].bytes();
        TensorDocument::new(&*names[producer], consumers, bytes)
    };
    let tensors = readers.iter().map(tensor).collect();
    Ok(GraphDocument { tensors, operators, ..GraphDocument::new(GRAPH_SCHEMA, name) })
}
