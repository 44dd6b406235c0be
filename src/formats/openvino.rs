//! The XML of OpenVINO's intermediate representation, versions 10 and 11.
//!
//! ```xml
//! <net name="model" version="11">
//!   <layers>
//!     <layer id="2" name="conv" type="Convolution" version="opset1">
//!       <data strides="1, 1" dilations="1, 1" pads_begin="0, 0" pads_end="0, 0" auto_pad="explicit"/>
//!       <input> <port id="0" precision="FP32"> <dim>1</dim> … </port> … </input>
//!       <output> <port id="2" precision="FP32"> <dim>1</dim> … </port> </output>
//!     </layer> …
//!   </layers>
//!   <edges> <edge from-layer="0" from-port="0" to-layer="2" to-port="0"/> … </edges>
//! </net>
//! ```
//!
//! Every port has its shape, so nothing is inferred, and the weights beside the XML are not read. Layers that depend on
//! a `Parameter` are operators, with FLOP and bytes moved for a roofline to price; the others are constants and belong
//! to their readers, as with ONNX. `Parameter` and `Result` themselves are not placed. A layer of a type that is not
//! known here has no FLOP and is priced by its bytes alone; one with a body of its own is an error.

use std::collections::{BTreeMap, VecDeque};

use roxmltree::{Document, Node, ParsingOptions};
use rustc_hash::FxHashMap;
use stagewright_core::document::{GRAPH_SCHEMA, GraphDocument, OperatorDocument, TensorDocument};

use super::constants::{self, Use};
use super::error::{At, InputError};
use super::options::ImportOptions;
use super::readers::Readers;
use super::text::{Sniff, clamp, text};
use super::work::{convolution, elements, is_amount, per_element, product};
use super::{Format, Imported, names};

/// A file with more elements than this is no model: each takes some hundred bytes of memory.
const MOST_ELEMENTS: u32 = 50_000_000;

/// Dimensions beyond this are a slip.
const LARGEST_DIM: u64 = 1 << 40;

/// Elements inside elements: a model has seven, one with bodies a few times as many.
const DEEPEST: usize = 256;

/// A port.
struct Port {
    id: u32,
    dims: Vec<u64>,
    bits: f64,
    is_parameter: bool,
}

impl Port {
    fn elements(&self) -> f64 {
        elements(&self.dims)
    }

    fn bytes(&self) -> f64 {
        (self.elements() * self.bits / 8.0).ceil()
    }
}

/// A layer.
struct Layer<'a> {
    node: Node<'a, 'a>,
    name: &'a str,
    kind: &'a str,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// Where every input comes from: a layer and the place of its output.
    sources: Vec<Option<(usize, usize)>>,
}

/// The importer's view of the file.
struct Net<'a> {
    label: &'a str,
    document: &'a Document<'a>,
    layers: Vec<Layer<'a>>,
}

pub(super) fn detect(bytes: &[u8], _json: &Sniff) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(super::HEAD as usize)]);
    head.trim_start_matches('\u{feff}').trim_start().starts_with('<') && head.contains("<net")
}

pub(super) fn import(label: &str, bytes: &[u8], _options: &ImportOptions) -> Result<Imported, InputError> {
    let text = text(label, bytes)?;
    let malformed = |message: String, at: At| {
        let help = "the file has to be the .xml of an OpenVINO model; check that it is whole";
        InputError::new("M006", label, at, message, help)
    };
    check_depth(text)
        .map_err(|at| malformed("elements are nested too deeply".into(), super::text::end_of(&text[..at])))?;
    let options = ParsingOptions { nodes_limit: MOST_ELEMENTS, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let at = match error {
            roxmltree::Error::UnclosedRootNode | roxmltree::Error::UnexpectedEndOfStream => {
                super::text::end_of(text)
            }
            _ => At::Line { line: error.pos().row, column: error.pos().col },
        };
        malformed(error.to_string(), at)
    })?;
    let root = document.root_element();
    if !root.has_tag_name("net") {
        return Err(malformed(format!("the file is a <{}>", root.tag_name().name()), At::Whole));
    }
    let mut net = Net { label, document: &document, layers: Vec::new() };
    net.read_layers(root)?;
    net.read_edges(root)?;
    if net.layers.is_empty() {
        return Err(InputError::new(
            "M004",
            label,
            At::Whole,
            "the model has no layers",
            "give at least one",
        ));
    }
    let name = root.attribute("name").filter(|name| !name.is_empty()).unwrap_or(names::stem(label));
    Ok(Imported { graph: net.graph(name)?, format: Format::OpenVino, ids: None })
}

/// The place of the first element that is nested too deeply, if any. A parser may recurse, this does not.
fn check_depth(text: &str) -> Result<(), usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut end) = (0_usize, 0);
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'<') {
        match bytes.get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') | None => {}
            Some(_) => {
                if end <= at {
                    // Where the tag does not end, the parser says so.
                    let Some(length) = text[at..].find('>') else { return Ok(()) };
                    end = at + length;
                }
                depth += usize::from(bytes[end - 1] != b'/');
                if depth > DEEPEST {
                    return Err(at);
                }
            }
        }
    }
    Ok(())
}

impl<'a> Net<'a> {
    fn fault(
        &self,
        code: &'static str,
        node: Node<'_, '_>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> InputError {
        let position = self.document.text_pos_at(node.range().start);
        let at = At::Line { line: clamp(position.row as usize), column: clamp(position.col as usize) };
        InputError::new(code, self.label, at, message, help)
    }

    fn number<T: std::str::FromStr>(&self, node: Node<'_, '_>, attribute: &str) -> Result<T, InputError> {
        node.attribute(attribute).and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
            let found = node.attribute(attribute);
            let message = format!("`{attribute}` of <{}> is {found:?}", node.tag_name().name());
            self.fault("M006", node, message, "write a whole number that is not negative")
        })
    }

    fn read_layers(&mut self, root: Node<'a, 'a>) -> Result<(), InputError> {
        for node in children(root, "layers").flat_map(|layers| children(layers, "layer")) {
            let kind = node.attribute("type").unwrap_or_default();
            if children(node, "body").chain(children(node, "then_body")).next().is_some() {
                let help = "convert the model with loops unrolled and branches decided: a plan needs the work of \
                            each layer";
                return Err(self.fault("M011", node, format!("the {kind} has a body of its own"), help));
            }
            let inputs = self.ports(node, "input")?;
            let outputs = self.ports(node, "output")?;
            let sources = vec![None; inputs.len()];
            let name = node.attribute("name").unwrap_or_default();
            self.layers.push(Layer { node, name, kind, inputs, outputs, sources });
        }
        Ok(())
    }

    fn ports(&self, layer: Node<'a, 'a>, side: &str) -> Result<Vec<Port>, InputError> {
        let element_type = children(layer, "data").find_map(|data| data.attribute("element_type"));
        let mut ports = Vec::new();
        for node in children(layer, side).flat_map(|side| children(side, "port")) {
            let mut dims = Vec::new();
            for dim in children(node, "dim") {
                let text = dim.text().unwrap_or_default().trim();
                match text.parse::<u64>() {
                    Ok(size) if size <= LARGEST_DIM => dims.push(size),
                    _ => {
                        let message = format!(
                            "a dimension of the layer `{}` is `{text}`",
                            layer.attribute("name").unwrap_or_default()
                        );
                        let help = format!(
                            "fix the shapes with: python3 -c \"import openvino as ov; m = ov.Core().read_model('{}'); \
                             m.reshape([1, 3, 224, 224]); ov.save_model(m, 'fixed.xml')\"",
                            self.label
                        );
                        let open =
                            matches!(text.chars().next(), None | Some('-' | '?')) || text.contains("..");
                        return Err(self.fault(if open { "M010" } else { "M009" }, dim, message, help));
                    }
                }
            }
            let precision = node.attribute("precision").or(element_type).unwrap_or("FP32");
            let Some((bits, is_parameter)) = self::precision(precision) else {
                let help = "cut the model where numbers begin";
                return Err(self.fault(
                    "M008",
                    node,
                    format!("elements of type {precision} have no size"),
                    help,
                ));
            };
            let port = Port { id: self.number(node, "id")?, dims, bits, is_parameter };
            if !is_amount(port.bytes()) {
                let help = "check what wrote the file";
                return Err(self.fault(
                    "M009",
                    node,
                    format!("{:?} is no shape of a tensor", port.dims),
                    help,
                ));
            }
            ports.push(port);
        }
        Ok(ports)
    }

    fn read_edges(&mut self, root: Node<'a, 'a>) -> Result<(), InputError> {
        let mut by_id: FxHashMap<u64, usize> = FxHashMap::default();
        for (at, layer) in self.layers.iter().enumerate() {
            let id = self.number(layer.node, "id")?;
            if let Some(first) = by_id.insert(id, at) {
                let message =
                    format!("the id {id} belongs to the layer `{}` already", self.layers[first].name);
                return Err(self.fault("M001", layer.node, message, "give every layer an id of its own"));
            }
        }
        for edge in children(root, "edges").flat_map(|edges| children(edges, "edge")) {
            let end = |layer: &str, port: &str, outputs: bool| {
                let at = by_id.get(&self.number(edge, layer)?).copied();
                let port: u32 = self.number(edge, port)?;
                let ports =
                    |at: usize| if outputs { &self.layers[at].outputs } else { &self.layers[at].inputs };
                at.and_then(|at| Some((at, ports(at).iter().position(|other| other.id == port)?))).ok_or_else(
                    || {
                        let message = format!("`{layer}` and its port name what no layer has");
                        self.fault("M002", edge, message, "add the layer or take the edge out")
                    },
                )
            };
            let from = end("from-layer", "from-port", true)?;
            let to = end("to-layer", "to-port", false)?;
            self.layers[to.0].sources[to.1] = Some(from);
        }
        Ok(())
    }

    /// Whether each layer depends on a `Parameter` or on state.
    fn computed(&self) -> Vec<bool> {
        let mut successors: Vec<Vec<usize>> = vec![Vec::new(); self.layers.len()];
        for (at, layer) in self.layers.iter().enumerate() {
            layer.sources.iter().flatten().for_each(|&(source, _)| successors[source].push(at));
        }
        let mut computed: Vec<bool> = self
            .layers
            .iter()
            .map(|layer| layer.kind != "Const" && layer.sources.iter().flatten().next().is_none())
            .collect();
        let mut queue: VecDeque<usize> = (0..computed.len()).filter(|&at| computed[at]).collect();
        while let Some(at) = queue.pop_front() {
            for &reader in &successors[at] {
                if !std::mem::replace(&mut computed[reader], true) {
                    queue.push_back(reader);
                }
            }
        }
        computed
    }

    /// The constant behind an input: through conversions and other views, the one that is stored.
    fn root(&self, mut from: (usize, usize)) -> (usize, usize) {
        // A chain of views longer than there are layers goes in a circle.
        for _ in 0..self.layers.len() {
            let layer = &self.layers[from.0];
            let next = layer.sources.first().copied().flatten();
            match next {
                Some(next)
                    if matches!(
                        layer.kind,
                        "Convert" | "Reshape" | "Squeeze" | "Unsqueeze" | "Transpose"
                    ) =>
                {
                    from = next;
                }
                _ => break,
            }
        }
        from
    }

    fn graph(&self, name: &str) -> Result<GraphDocument, InputError> {
        let computed = self.computed();
        let placed: Vec<usize> = (0..self.layers.len())
            .filter(|&at| computed[at] && !matches!(self.layers[at].kind, "Parameter" | "Result"))
            .collect();
        if placed.is_empty() {
            let message = "no layer depends on a parameter: there is nothing to place";
            return Err(InputError::new(
                "M004",
                self.label,
                At::Whole,
                message,
                "check that the model is whole",
            ));
        }
        let place: FxHashMap<usize, usize> =
            placed.iter().enumerate().map(|(place, &at)| (at, place)).collect();
        let names = names::unique(placed.iter().map(|&at| (self.layers[at].name, at as i64)));
        let mut operators = Vec::with_capacity(placed.len());
        for (&at, name) in placed.iter().zip(&names) {
            let flop = flop(&self.layers[at]);
            if flop.is_some_and(|flop| !is_amount(flop)) {
                let help = "check the attributes of the layer";
                return Err(self.fault("M009", self.layers[at].node, "the layer has no end of work", help));
            }
            operators.push(OperatorDocument {
                kind: Some(self.layers[at].kind.to_owned()),
                layer: names::layer(name),
                flop,
                bytes_moved: Some(bytes_moved(&self.layers[at])),
                ..OperatorDocument::named(name.clone())
            });
        }
        let mut readers = Readers::default();
        let mut uses = Vec::new();
        for (reader, &at) in placed.iter().enumerate() {
            let layer = &self.layers[at];
            for (input, &source) in layer.sources.iter().enumerate() {
                let Some(source) = source else { continue };
                if let Some(&producer) = place.get(&source.0) {
                    readers.add(producer, source.1, reader);
                } else if !computed[source.0] {
                    let (root, output) = self.root(source);
                    let stored = &self.layers[root].outputs[output];
                    let statistic = layer.kind.starts_with("BatchNorm") && input >= 3;
                    let is_parameter = stored.is_parameter && !statistic;
                    uses.push(Use { reader, constant: root, bytes: stored.bytes(), is_parameter });
                }
            }
        }
        constants::give(uses.into_iter(), &mut operators, |constant| self.layers[constant].name);
        let tensor = |(producer, output, readers): (usize, usize, &[usize])| TensorDocument {
            name: None,
            producer: names[producer].clone(),
            consumers: readers.iter().map(|&reader| names[reader].clone()).collect(),
            bytes: self.layers[placed[producer]].outputs[output].bytes(),
            seconds: BTreeMap::new(),
        };
        Ok(GraphDocument {
            schema: GRAPH_SCHEMA.to_owned(),
            name: name.to_owned(),
            operators,
            tensors: readers.iter().map(tensor).collect(),
            cluster: None,
            pipedream_skips: Vec::new(),
        })
    }
}

fn children<'a>(node: Node<'a, 'a>, name: &str) -> impl Iterator<Item = Node<'a, 'a>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// Bits of an element, and whether constants of the type are parameters.
fn precision(name: &str) -> Option<(f64, bool)> {
    Some(match name.to_ascii_uppercase().as_str() {
        "FP64" | "F64" => (64.0, true),
        "FP32" | "F32" => (32.0, true),
        "FP16" | "F16" | "BF16" => (16.0, true),
        "I8" | "U8" | "F8E4M3" | "F8E5M2" | "F8E8M0" => (8.0, true),
        "I4" | "U4" | "NF4" | "F4E2M1" => (4.0, true),
        "U6" => (6.0, true),
        "U3" => (3.0, true),
        "U2" => (2.0, true),
        "U1" | "BIN" => (1.0, true),
        "I64" | "U64" => (64.0, false),
        "I32" | "U32" => (32.0, false),
        "I16" | "U16" => (16.0, false),
        "BOOL" | "BOOLEAN" => (8.0, false),
        _ => return None,
    })
}

fn flop(layer: &Layer<'_>) -> Option<f64> {
    let input = |at: usize| layer.inputs.get(at);
    let output = layer.outputs.first().map_or(0.0, Port::elements);
    let flag = |name: &str| {
        children(layer.node, "data")
            .find_map(|data| data.attribute(name))
            .is_some_and(|flag| flag == "true" || flag == "1")
    };
    Some(match layer.kind {
        "Convolution" | "BinaryConvolution" => {
            let weights = &input(1)?.dims;
            convolution(output, *weights.get(1)?, weights.get(2..)?)
        }
        // Weights begin with the number of groups.
        "GroupConvolution" => {
            let weights = &input(1)?.dims;
            convolution(output, *weights.get(2)?, weights.get(3..)?)
        }
        // Input channels come first, then output channels.
        "ConvolutionBackpropData" => {
            let weights = &input(1)?.dims;
            convolution(input(0)?.elements(), *weights.get(1)?, weights.get(2..)?)
        }
        "GroupConvolutionBackpropData" => {
            let weights = &input(1)?.dims;
            convolution(input(0)?.elements(), *weights.get(2)?, weights.get(3..)?)
        }
        "MatMul" => {
            let dims = &input(0)?.dims;
            let from_end = if flag("transpose_a") && dims.len() > 1 { 2 } else { 1 };
            product(output, *dims.get(dims.len().checked_sub(from_end)?)?)
        }
        "ScaledDotProductAttention" => {
            let (query, key) = (&input(0)?.dims, &input(1)?.dims);
            let (size, keys) = (*query.last()?, *key.get(key.len().checked_sub(2)?)?);
            let scores = input(0)?.elements() / (size as f64).max(1.0) * keys as f64;
            product(scores, size) + per_element("softmax")? * scores + product(output, keys)
        }
        "MaxPool" | "AvgPool" => {
            let kernel = children(layer.node, "data").find_map(|data| data.attribute("kernel"))?;
            let sizes: Option<Vec<f64>> = kernel.split(',').map(|size| size.trim().parse().ok()).collect();
            output * sizes?.into_iter().filter(|size: &f64| size.is_finite() && *size >= 0.0).product::<f64>()
        }
        "LRN" => {
            let size = children(layer.node, "data").find_map(|data| data.attribute("size"))?;
            output * (2.0 * size.trim().parse::<u32>().ok()? as f64 + 4.0)
        }
        "TopK" | "AdaptiveAvgPool" | "AdaptiveMaxPool" => input(0)?.elements(),
        kind if kind.starts_with("Reduce") => input(0)?.elements(),
        kind => per_element(&kind.to_ascii_lowercase())? * output,
    })
}

/// Bytes read and written. What only renames bytes moves none, and what takes a part reads that part.
fn bytes_moved(layer: &Layer<'_>) -> f64 {
    let total = |ports: &[Port]| ports.iter().map(Port::bytes).sum::<f64>();
    match layer.kind {
        "Reshape" | "Squeeze" | "Unsqueeze" => 0.0,
        "Gather" | "GatherElements" | "GatherND" | "Slice" | "StridedSlice" | "Split" | "VariadicSplit" => {
            2.0 * total(&layer.outputs) + total(layer.inputs.get(1..).unwrap_or_default())
        }
        _ => total(&layer.inputs) + total(&layer.outputs),
    }
}
