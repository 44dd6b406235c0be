//! Layers, ports and edges of the XML.

use roxmltree::{Document, Node};
use rustc_hash::FxHashMap;
use stagewright_core::document::{BatchDocument, Precision};

use crate::batch::{self, Input};
use crate::code::M::{self, *};
use crate::error::{At, InputError, Result};
use crate::text::clamp;
use crate::work::{elements, is_amount};

/// Largest plausible dimension.
const LARGEST_DIM: u64 = 1 << 40;

/// A port.
pub(super) struct Port<'a> {
    pub(super) id: u32,
    pub(super) dims: Vec<u64>,
    /// Element type as the file writes it; empty for an input without a type and without a source.
    pub(super) element: &'a str,
    /// Bits per element; 0 for an input without a type and without a source.
    pub(super) bits: f64,
    pub(super) is_parameter: bool,
    /// Compute precision; `None` for wide integers.
    pub(super) precision: Option<Precision>,
}

impl Port<'_> {
    pub(super) fn elements(&self) -> f64 {
        elements(&self.dims)
    }

    pub(super) fn bytes(&self) -> f64 {
        (self.elements() * self.bits / 8.0).ceil()
    }
}

/// A layer.
pub(super) struct Layer<'a> {
    pub(super) node: Node<'a, 'a>,
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) inputs: Vec<Port<'a>>,
    pub(super) outputs: Vec<Port<'a>>,
    /// Source of every input: a layer and the index of its output.
    pub(super) sources: Vec<Option<(usize, usize)>>,
}

impl Layer<'_> {
    /// Whether an input holds running statistics, which are not trained.
    pub(super) fn has_statistic(&self, input: usize) -> bool {
        self.kind.starts_with("BatchNorm") && input >= 3
    }

    /// Whether the output keeps the first axes of the first input: a reduction over the last ones.
    pub(super) fn reduces_rows(&self) -> bool {
        let (Some(input), Some(output)) = (self.inputs.first(), self.outputs.first()) else { return false };
        let ones = output.dims.iter().rev().take_while(|&&dim| dim == 1).count();
        let kept = &output.dims[..output.dims.len() - ones];
        input.dims.len() > kept.len() && input.dims.starts_with(kept)
    }
}

/// The parsed file.
pub(super) struct Net<'a> {
    pub(super) label: &'a str,
    pub(super) document: &'a Document<'a>,
    /// Precision that floating-point numbers are cast to.
    pub(super) cast: Option<Precision>,
    pub(super) layers: Vec<Layer<'a>>,
}

impl<'a> Net<'a> {
    pub(super) fn fault(
        &self,
        code: M,
        node: Node<'_, '_>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> InputError {
        let position = self.document.text_pos_at(node.range().start);
        let place = At::Line { line: clamp(position.row as usize), column: clamp(position.col as usize) };
        InputError::new(code, self.label, place, message, help)
    }

    fn number<T: std::str::FromStr>(&self, node: Node<'_, '_>, attribute: &str) -> Result<T> {
        node.attribute(attribute).and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
            let found = node.attribute(attribute);
            let message = format!("`{attribute}` of <{}> is {found:?}", node.tag_name().name());
            self.fault(M006, node, message, "write a whole number that is not negative")
        })
    }

    pub(super) fn read_layers(&mut self, root: Node<'a, 'a>) -> Result<()> {
        for node in children(root, "layers").flat_map(|layers| children(layers, "layer")) {
            let kind = node.attribute("type").unwrap_or_default();
            if ["body", "then_body", "else_body"].iter().any(|body| children(node, body).next().is_some()) {
                let help = "convert the model with loops unrolled and branches resolved: a plan needs the work of \
                            each layer";
                return Err(self.fault(M011, node, format!("the {kind} has a body"), help));
            }
            let inputs = self.ports(node, "input")?;
            let outputs = self.ports(node, "output")?;
            let sources = vec![None; inputs.len()];
            let name = node.attribute("name").unwrap_or_default();
            self.layers.push(Layer { node, name, kind, inputs, outputs, sources });
        }
        Ok(())
    }

    fn ports(&self, layer: Node<'a, 'a>, side: &str) -> Result<Vec<Port<'a>>> {
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
                        return Err(self.fault(if open { M010 } else { M009 }, dim, message, help));
                    }
                }
            }
            let name = node.attribute("precision").or(element_type);
            let known = match name {
                Some(name) => {
                    element(name, self.cast).ok_or_else(|| format!("elements of type {name} have no size"))
                }
                // Version 10 omits the element type of inputs, which take the type of their source.
                None if side == "input" => Ok((0.0, false, None)),
                None => Err("the element type is missing".to_owned()),
            };
            let (bits, is_parameter, precision) = known.map_err(|message| {
                let help =
                    "cut the model after its operators on strings, and give every output its precision";
                self.fault(M008, node, message, help)
            })?;
            let (id, element) = (self.number(node, "id")?, name.unwrap_or_default());
            let port = Port { id, dims, element, bits, is_parameter, precision };
            // Checked with the widest type, since the type of an input may not be known yet.
            if !is_amount(8.0 * port.elements()) {
                let help = "check the program that wrote the file";
                return Err(self.fault(M009, node, format!("{:?} is not a tensor shape", port.dims), help));
            }
            ports.push(port);
        }
        Ok(ports)
    }

    pub(super) fn read_edges(&mut self, root: Node<'a, 'a>) -> Result<()> {
        let mut by_id: FxHashMap<u64, usize> = FxHashMap::default();
        for (index, layer) in self.layers.iter().enumerate() {
            let id = self.number(layer.node, "id")?;
            if let Some(first) = by_id.insert(id, index) {
                let message =
                    format!("the id {id} is already used by the layer `{}`", self.layers[first].name);
                return Err(self.fault(M001, layer.node, message, "give every layer a unique id"));
            }
        }
        for edge in children(root, "edges").flat_map(|edges| children(edges, "edge")) {
            let end = |layer: &str, port: &str, outputs: bool| {
                let index = by_id.get(&self.number(edge, layer)?).copied();
                let port: u32 = self.number(edge, port)?;
                let ports = |index: usize| {
                    if outputs { &self.layers[index].outputs } else { &self.layers[index].inputs }
                };
                index
                    .and_then(|index| Some((index, ports(index).iter().position(|other| other.id == port)?)))
                    .ok_or_else(|| {
                        let message = format!("no layer has `{layer}` and its port");
                        self.fault(M002, edge, message, "add the layer or remove the edge")
                    })
            };
            let from = end("from-layer", "from-port", true)?;
            let to = end("to-layer", "to-port", false)?;
            if self.layers[to.0].sources[to.1].replace(from).is_some() {
                let message = "two edges lead to one input";
                return Err(self.fault(M009, edge, message, "remove one of them"));
            }
            let Port { element, bits, precision, .. } = self.layers[from.0].outputs[from.1];
            let input = &mut self.layers[to.0].inputs[to.1];
            if input.bits == 0.0 {
                (input.element, input.bits, input.precision) = (element, bits, precision);
            }
        }
        Ok(())
    }
}

impl Net<'_> {
    /// Contents of a batch. Samples are counted by the dimension that layouts call `N`; if no input has a layout with
    /// an `N`, by the first dimension of inputs without a layout.
    pub(super) fn batch(&self) -> Option<BatchDocument> {
        let parameters = || self.layers.iter().filter(|layer| layer.kind == "Parameter");
        let said = |layer: &Layer| samples(layout(layer.node)?, layer.outputs.first()?.dims.len());
        let first = parameters().all(|layer| said(layer).is_none()).then_some(0);
        let inputs = parameters().filter_map(|layer| {
            let port = layer.outputs.first()?;
            Some(Input {
                name: layer.name,
                is_integer: port.precision.is_none() && port.bits >= 32.0,
                dims: &port.dims,
                samples: if layout(layer.node).is_some() { said(layer) } else { first },
            })
        });
        batch::batch(&inputs.collect::<Vec<_>>())
    }
}

/// The layout of an input, such as `[N,C,H,W]`.
fn layout<'a>(parameter: Node<'a, 'a>) -> Option<&'a str> {
    let ports = children(parameter, "output").flat_map(|output| children(output, "port"));
    let attributes =
        ports.flat_map(|port| children(port, "rt_info")).flat_map(|info| children(info, "attribute"));
    attributes
        .filter(|attribute| attribute.attribute("name") == Some("layout"))
        .find_map(|attribute| attribute.attribute("layout"))
}

/// The dimension that a layout calls `N`; `...` stands for any number of dimensions.
fn samples(layout: &str, rank: usize) -> Option<usize> {
    let names: Vec<&str> = layout.trim_matches(['[', ']']).split(',').map(str::trim).collect();
    let position = names.iter().position(|&name| name == "N")?;
    let position =
        if names[..position].contains(&"...") { rank.checked_sub(names.len() - position)? } else { position };
    (position < rank).then_some(position)
}

/// Child elements with a name.
pub(super) fn children<'a>(node: Node<'a, 'a>, name: &str) -> impl Iterator<Item = Node<'a, 'a>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// Bits per element, whether constants of the type are parameters, and the compute precision, after casting
/// floating-point numbers.
fn element(name: &str, cast: Option<Precision>) -> Option<(f64, bool, Option<Precision>)> {
    let name = name.to_ascii_uppercase();
    let precision = match name.as_str() {
        "FP64" | "F64" => Some(Precision::Fp64),
        "FP32" | "F32" => Some(Precision::Fp32),
        "FP16" | "F16" => Some(Precision::Fp16),
        "BF16" => Some(Precision::Bf16),
        "F8E4M3" | "F8E5M2" | "F8E8M0" => Some(Precision::Fp8),
        "I8" | "U8" => Some(Precision::Int8),
        "I4" | "U4" | "NF4" | "F4E2M1" => Some(Precision::Int4),
        _ => None,
    };
    let has_fraction =
        matches!(precision, Some(Precision::Fp64 | Precision::Fp32 | Precision::Fp16 | Precision::Bf16));
    if let Some(precision) = precision {
        let precision = cast.filter(|_| has_fraction).unwrap_or(precision);
        return Some((bits(precision), true, Some(precision)));
    }
    Some(match name.as_str() {
        "U6" => (6.0, true, None),
        "U3" => (3.0, true, None),
        "U2" => (2.0, true, None),
        "U1" | "BIN" => (1.0, true, None),
        "I64" | "U64" => (64.0, false, None),
        "I32" | "U32" => (32.0, false, None),
        "I16" | "U16" => (16.0, false, None),
        "BOOL" | "BOOLEAN" => (8.0, false, None),
        _ => return None,
    })
}

fn bits(precision: Precision) -> f64 {
    match precision {
        Precision::Fp64 => 64.0,
        Precision::Fp32 | Precision::Tf32 => 32.0,
        Precision::Fp16 | Precision::Bf16 => 16.0,
        Precision::Fp8 | Precision::Int8 => 8.0,
        Precision::Fp4 | Precision::Int4 => 4.0,
    }
}
