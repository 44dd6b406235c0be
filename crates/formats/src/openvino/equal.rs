//! Equal constants, of which a runtime holds one: those at the same place of the file of weights, and those that the
//! same operator computes from equal constants with the same attributes.

use rustc_hash::FxHashMap;

use super::net::{Layer, Net, children};

/// Key of a constant: equal constants have equal keys.
#[derive(PartialEq, Eq, Hash)]
struct Identity<'a> {
    kind: &'a str,
    version: Option<&'a str>,
    /// Attributes by name; for a stored constant, only its place in the file of weights.
    attributes: Vec<(&'a str, &'a str)>,
    /// Constants that replace the inputs, with their outputs.
    inputs: Vec<Option<(usize, usize)>>,
    /// Shape, bits per element and element type of the inputs and outputs; for a stored constant, only the bits.
    ports: Vec<(&'a [u64], u64, &'a str)>,
}

/// Per layer, the first constant of the file that is equal to it, or itself. `computed` marks layers that are not
/// constants. Takes time linear in the layers and their edges.
pub(super) fn firsts(net: &Net<'_>, computed: &[bool]) -> Vec<usize> {
    // Among equal constants, the one whose inputs are known first.
    let mut known: Vec<usize> = (0..net.layers.len()).collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); net.layers.len()];
    let mut open = vec![0_usize; net.layers.len()];
    for (index, layer) in net.layers.iter().enumerate().filter(|&(index, _)| !computed[index]) {
        for &(source, _) in sources(layer).iter().flatten() {
            readers[source].push(index);
            open[index] += 1;
        }
    }
    let mut found: FxHashMap<Identity<'_>, usize> = FxHashMap::default();
    // Inputs come before their readers; nodes on a cycle are equal to no others.
    let mut ready: Vec<usize> =
        (0..open.len()).rev().filter(|&index| !computed[index] && open[index] == 0).collect();
    while let Some(index) = ready.pop() {
        if let Some(identity) = identity(&net.layers[index], &known) {
            known[index] = *found.entry(identity).or_insert(index);
        }
        for &reader in &readers[index] {
            open[reader] -= 1;
            if open[reader] == 0 {
                ready.push(reader);
            }
        }
    }
    // A file need not list inputs before their readers.
    let mut firsts = known.clone();
    for (layer, &equal) in known.iter().enumerate() {
        firsts[equal] = firsts[equal].min(layer);
    }
    known.into_iter().map(|equal| firsts[equal]).collect()
}

/// Sources on whose values a layer depends: a shape depends on none.
fn sources<'a>(layer: &'a Layer<'_>) -> &'a [Option<(usize, usize)>] {
    if layer.kind == "ShapeOf" { &[] } else { &layer.sources }
}

/// Identity of a constant; `None` if it is equal to no other: its place is unknown, or it is random.
fn identity<'a>(layer: &'a Layer<'_>, known: &[usize]) -> Option<Identity<'a>> {
    if layer.kind.starts_with("Random") || matches!(layer.kind, "Multinomial" | "Bernoulli") {
        return None;
    }
    let data = children(layer.node, "data").flat_map(|data| data.attributes());
    let mut attributes: Vec<(&str, &str)> =
        data.map(|attribute| (attribute.name(), attribute.value())).collect();
    let ports = layer.inputs.iter().chain(&layer.outputs);
    let mut ports: Vec<(&[u64], u64, &str)> =
        ports.map(|port| (&port.dims[..], port.bits.to_bits(), port.element)).collect();
    if layer.kind == "Const" {
        attributes.retain(|(name, _)| matches!(*name, "offset" | "size"));
        if attributes.len() != 2 {
            return None;
        }
        // The same bytes may have another shape, and another type of as many bits.
        ports.iter_mut().for_each(|(dims, _, element)| (*dims, *element) = (&[], ""));
    }
    attributes.sort_unstable();
    let inputs = sources(layer).iter().map(|source| source.map(|(layer, output)| (known[layer], output)));
    let version = layer.node.attribute("version");
    Some(Identity { kind: layer.kind, version, attributes, inputs: inputs.collect(), ports })
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::GraphDocument;

    use crate::import_graph;

    const SHAPE: [u64; 2] = [64, 64];

    fn port(id: usize, precision: &str, dims: &[u64]) -> String {
        let dims: String = dims.iter().map(|dim| format!("<dim>{dim}</dim>")).collect();
        format!(r#"<port id="{id}" precision="{precision}">{dims}</port>"#)
    }

    /// A model under construction: layers and edges.
    #[derive(Default)]
    struct Model(usize, String, String);

    impl Model {
        fn layer(&mut self, kind: &str, data: &str, inputs: &[(usize, &str, &[u64])], output: &str) -> usize {
            let id = self.0;
            self.0 += 1;
            let mut ports = String::new();
            for (index, (source, precision, dims)) in inputs.iter().enumerate() {
                ports += &port(index, precision, dims);
                self.2 += &format!(
                    r#"<edge from-layer="{source}" from-port="9" to-layer="{id}" to-port="{index}"/>"#
                );
            }
            self.1 += &format!(
                r#"<layer id="{id}" name="{kind} {id}" type="{kind}"><data {data}/>
                <input>{ports}</input><output>{output}</output></layer>"#
            );
            id
        }

        fn constant(&mut self, precision: &str, dims: &[u64], offset: &str, size: u64) -> usize {
            let data = format!(r#"{offset} size="{size}""#);
            self.layer("Const", &data, &[], &port(9, precision, dims))
        }

        /// A chain of sums with constants.
        fn chain(mut self, constants: &[usize]) -> GraphDocument {
            let output = port(9, "FP32", &SHAPE);
            let mut before = self.layer("Parameter", r#"element_type="f32""#, &[], &output);
            for &constant in constants {
                let inputs: [(usize, &str, &[u64]); 2] =
                    [(before, "FP32", &SHAPE), (constant, "FP32", &SHAPE)];
                before = self.layer("Add", "", &inputs, &output);
            }
            let Model(_, layers, edges) = self;
            let net = format!(
                r#"<net name="m" version="11"><layers>{layers}</layers><edges>{edges}</edges></net>"#
            );
            import_graph("m.xml", net.as_bytes(), None).unwrap_or_else(|error| panic!("{error}")).graph
        }

        /// Bytes and readers of the parameters of a chain of sums with constants.
        fn sums(self, constants: &[usize]) -> Vec<(f64, usize)> {
            let graph = self.chain(constants);
            let shared = graph.parameters.iter().map(|parameter| (parameter.bytes, parameter.readers.len()));
            let own = graph.operators.iter().filter(|operator| operator.parameter_bytes > 0.0);
            shared.chain(own.map(|operator| (operator.parameter_bytes, 1))).collect()
        }
    }

    #[test]
    fn the_same_place_of_the_file_is_one_weight() {
        let mut model = Model::default();
        let places = [r#"offset="0""#, r#"offset="0""#, r#"offset="16384""#, "", ""];
        let constants = places.map(|place| model.constant("FP32", &SHAPE, place, 16384));
        assert_eq!(model.sums(&constants), [(16384.0, 2), (16384.0, 1), (16384.0, 1), (16384.0, 1)]);
    }

    #[test]
    fn equal_expressions_of_equal_constants_count_once() {
        let mut model = Model::default();
        let expanded = ["numpy", "numpy", "explicit"].map(|mode| {
            let row = model.constant("FP32", &[1, 64], r#"offset="0""#, 256);
            let shape = model.constant("I64", &[2], r#"offset="256""#, 16);
            let inputs: [(usize, &str, &[u64]); 2] = [(row, "FP32", &[1, 64]), (shape, "I64", &[2])];
            model.layer("Broadcast", &format!(r#"mode="{mode}""#), &inputs, &port(9, "FP32", &SHAPE))
        });
        // The row, and the additional bytes of its two expansions.
        assert_eq!(model.sums(&expanded), [(256.0, 3), (16128.0, 2), (16128.0, 1)]);
    }

    /// Expands a row to a square.
    fn expanded(model: &mut Model, precision: &str, row: usize, shape: usize) -> usize {
        let inputs: [(usize, &str, &[u64]); 2] = [(row, precision, &[1, 64]), (shape, "I64", &[2])];
        model.layer("Broadcast", r#"mode="numpy""#, &inputs, &port(9, precision, &SHAPE))
    }

    #[test]
    fn the_same_bytes_of_another_type_make_other_constants() {
        for (first, second, bytes) in [("FP32", "I32", 4), ("I32", "U32", 4), ("FP16", "BF16", 2)] {
            let mut model = Model::default();
            let shape = model.constant("I64", &[2], r#"offset="256""#, 16);
            let squares = [first, second].map(|precision| {
                let row = model.constant(precision, &[1, 64], r#"offset="0""#, 64 * bytes);
                expanded(&mut model, precision, row, shape)
            });
            let held = model.sums(&squares);
            let of_squares = held.iter().filter(|(held, _)| *held > 64.0 * bytes as f64);
            let readers: Vec<usize> = of_squares.map(|&(_, readers)| readers).collect();
            assert_eq!(readers, [1, 1], "{first} and {second}: {held:?}");
        }
    }

    /// The inputs of a layer may be listed after those of a later layer.
    #[test]
    fn the_first_of_the_file_stands_for_all() {
        let mut model = Model::default();
        let row = |model: &mut Model| model.constant("FP32", &[1, 64], r#"offset="0""#, 256);
        let early = row(&mut model);
        let shape = model.constant("I64", &[2], r#"offset="256""#, 16);
        let late = row(&mut model);
        let squares = [late, early].map(|row| expanded(&mut model, "FP32", row, shape));
        let graph = model.chain(&squares);
        let names: Vec<&str> = graph.parameters.iter().map(|shared| shared.name.as_str()).collect();
        assert_eq!(names, ["Const 0", "Broadcast 3"]);
    }
}
