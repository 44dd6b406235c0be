//! Equal constants, of which a runtime holds one: those at the same place of the file of weights, and those that
//! the same operator computes from equal ones with the same attributes.

use rustc_hash::FxHashMap;

use super::net::{Layer, Net, children};

/// What equal constants have in common.
#[derive(PartialEq, Eq, Hash)]
struct Identity<'a> {
    kind: &'a str,
    version: Option<&'a str>,
    /// Attributes by name; of a stored constant, its place alone.
    attributes: Vec<(&'a str, &'a str)>,
    /// First constants equal to the inputs, with their outputs.
    inputs: Vec<Option<(usize, usize)>>,
    /// Shapes of the inputs and outputs, and bits of an element.
    ports: Vec<(&'a [u64], u64)>,
}

/// Per layer, the first constant that is equal to it, or itself. `computed` marks layers that are no constants. Takes
/// time linear in the layers and their edges.
pub(super) fn firsts(net: &Net<'_>, computed: &[bool]) -> Vec<usize> {
    let mut firsts: Vec<usize> = (0..net.layers.len()).collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); net.layers.len()];
    let mut open = vec![0_usize; net.layers.len()];
    for (at, layer) in net.layers.iter().enumerate().filter(|&(at, _)| !computed[at]) {
        for &(source, _) in sources(layer).iter().flatten() {
            readers[source].push(at);
            open[at] += 1;
        }
    }
    let mut found: FxHashMap<Identity<'_>, usize> = FxHashMap::default();
    // Inputs come before their readers; what is part of a cycle is equal to nothing.
    let mut ready: Vec<usize> = (0..open.len()).rev().filter(|&at| !computed[at] && open[at] == 0).collect();
    while let Some(at) = ready.pop() {
        if let Some(identity) = identity(&net.layers[at], &firsts) {
            firsts[at] = *found.entry(identity).or_insert(at);
        }
        for &reader in &readers[at] {
            open[reader] -= 1;
            if open[reader] == 0 {
                ready.push(reader);
            }
        }
    }
    firsts
}

/// Sources on whose values a layer depends: a shape depends on none.
fn sources<'a>(layer: &'a Layer<'_>) -> &'a [Option<(usize, usize)>] {
    if layer.kind == "ShapeOf" { &[] } else { &layer.sources }
}

/// Identity of a constant; `None` if it is equal to no other: its place is unknown, or it is random.
fn identity<'a>(layer: &'a Layer<'_>, firsts: &[usize]) -> Option<Identity<'a>> {
    if layer.kind.starts_with("Random") || matches!(layer.kind, "Multinomial" | "Bernoulli") {
        return None;
    }
    let data = children(layer.node, "data").flat_map(|data| data.attributes());
    let mut attributes: Vec<(&str, &str)> =
        data.map(|attribute| (attribute.name(), attribute.value())).collect();
    let mut ports: Vec<(&[u64], u64)> =
        layer.inputs.iter().chain(&layer.outputs).map(|port| (&port.dims[..], port.bits.to_bits())).collect();
    if layer.kind == "Const" {
        attributes.retain(|(name, _)| matches!(*name, "offset" | "size"));
        if attributes.len() != 2 {
            return None;
        }
        // The same bytes may have another shape.
        ports.iter_mut().for_each(|(dims, _)| *dims = &[]);
    }
    attributes.sort_unstable();
    let inputs = sources(layer).iter().map(|source| source.map(|(at, output)| (firsts[at], output)));
    let version = layer.node.attribute("version");
    Some(Identity { kind: layer.kind, version, attributes, inputs: inputs.collect(), ports })
}
