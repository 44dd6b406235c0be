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
//! Every port states its shape, so nothing is inferred, and the weights beside the XML are not read. Layers
//! that depend on a `Parameter` are operators, with FLOP and bytes moved for the roofline; the others are
//! constants, as with ONNX. `Parameter` and `Result` themselves are not placed. A layer of unknown type has
//! no FLOP and is priced by its bytes alone, which the command line reports; a layer with a body of its own
//! is an error.

mod cost;
mod document;
mod equal;
mod net;

use std::collections::VecDeque;

use roxmltree::{Document, ParsingOptions};

use super::error::{At, InputError, Result};
use super::options::ImportOptions;
use super::text::{Sniff, end_of, text};
use super::work::is_amount;
use super::{Format, Imported, names};
use crate::code::{M004, M006, M009};
use net::{Layer, Net};

/// Largest number of XML elements of a model: each takes some hundred bytes of memory.
const MAX_ELEMENTS: u32 = 50_000_000;

/// Deepest nesting of elements: a model has seven levels, one with bodies a few times as many.
const DEEPEST: usize = 256;

/// Largest number of attributes of an element: no operator has a quarter as many.
const MAX_ATTRIBUTES: usize = 256;

pub(super) fn detect(bytes: &[u8], _json: &Sniff) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(super::HEAD as usize)]);
    head.trim_start_matches('\u{feff}').trim_start().starts_with('<') && head.contains("<net")
}

pub(super) fn import(label: &str, bytes: &[u8], options: &ImportOptions) -> Result<Imported> {
    let text = text(label, bytes)?;
    let malformed = |message: String, place: At| {
        let help = "give the .xml of an OpenVINO model; check that it is complete";
        InputError::new(M006, label, place, message, help)
    };
    check_elements(text).map_err(|(offset, what)| malformed(what.into(), end_of(&text[..offset])))?;
    let parsing = ParsingOptions { nodes_limit: MAX_ELEMENTS, ..ParsingOptions::default() };
    let xml = Document::parse_with_options(text, parsing).map_err(|error| {
        let place = match error {
            roxmltree::Error::UnclosedRootNode | roxmltree::Error::UnexpectedEndOfStream => end_of(text),
            _ => At::Line { line: error.pos().row, column: error.pos().col },
        };
        malformed(error.to_string(), place)
    })?;
    let root = xml.root_element();
    if !root.has_tag_name("net") {
        return Err(malformed(format!("the file is a <{}>", root.tag_name().name()), At::Whole));
    }
    let mut net = Net { label, document: &xml, cast: options.precision, layers: Vec::new() };
    net.read_layers(root)?;
    net.read_edges(root)?;
    if net.layers.is_empty() {
        return Err(InputError::empty(label, "the model has no layers"));
    }
    let name = root.attribute("name").filter(|name| !name.is_empty()).unwrap_or(names::stem(label));
    let graph = document::document(&net, name, options.fusion)?;
    Ok(Imported { graph, format: Format::OpenVino, ids: None })
}

/// Rejects the first element that is nested too deeply or has too many attributes, with its offset and the
/// reason. The parser compares every attribute of an element with every other, and readers of nested elements
/// may recurse; this check does neither.
fn check_elements(text: &str) -> Result<(), (usize, &'static str)> {
    let (mut offset, mut depth) = (0, 0_usize);
    // The parser reports unclosed tags.
    let after = |from: usize, end: &str| text[from..].find(end).map_or(text.len(), |found| from + found);
    while let Some(found) = text[offset..].find('<') {
        let start = offset + found;
        let rest = &text[start..];
        offset = if rest.starts_with("<!--") {
            after(start + 4, "-->")
        } else if rest.starts_with("<![CDATA[") {
            after(start, "]]>")
        } else if rest.starts_with("<?") || rest.starts_with("<!") {
            start + 2
        } else if rest.starts_with("</") {
            depth = depth.saturating_sub(1);
            start + 2
        } else {
            let (mut quote, mut attributes, mut previous) = (None, 0, b'<');
            let end = rest.bytes().position(|byte| {
                match quote {
                    Some(open) if open == byte => quote = None,
                    Some(_) => {}
                    None if matches!(byte, b'"' | b'\'') => quote = Some(byte),
                    None if byte == b'>' => return true,
                    None => attributes += usize::from(byte == b'='),
                }
                previous = byte;
                false
            });
            if attributes > MAX_ATTRIBUTES {
                return Err((start, "an element has too many attributes"));
            }
            depth += usize::from(previous != b'/');
            if depth > DEEPEST {
                return Err((start, "elements are nested too deeply"));
            }
            end.map_or(text.len(), |end| start + end)
        };
    }
    Ok(())
}

impl Net<'_> {
    /// Whether each layer depends on a `Parameter` or on state, other than through layers for which `is_fixed` is true.
    fn computed(&self, is_fixed: impl Fn(&Layer<'_>) -> bool) -> Vec<bool> {
        let mut successors: Vec<Vec<usize>> = vec![Vec::new(); self.layers.len()];
        for (index, layer) in self.layers.iter().enumerate() {
            layer.sources.iter().flatten().for_each(|&(source, _)| successors[source].push(index));
        }
        let mut computed: Vec<bool> = self
            .layers
            .iter()
            .map(|layer| !is_fixed(layer) && layer.sources.iter().flatten().next().is_none())
            .collect();
        let mut queue: VecDeque<usize> = (0..computed.len()).filter(|&index| computed[index]).collect();
        while let Some(index) = queue.pop_front() {
            for &reader in &successors[index] {
                if !is_fixed(&self.layers[reader]) && !std::mem::replace(&mut computed[reader], true) {
                    queue.push_back(reader);
                }
            }
        }
        computed
    }

    /// Follows an input through conversions and other views to its stored constant.
    fn root(&self, mut from: (usize, usize)) -> (usize, usize) {
        // A chain of views longer than the number of layers is a cycle.
        for _ in 0..self.layers.len() {
            let layer = &self.layers[from.0];
            match layer.sources.first().copied().flatten() {
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

    /// Layers to place, and their names.
    ///
    /// # Errors
    /// If no layer depends on a parameter.
    fn placed(&self, computed: &[bool]) -> Result<(Vec<usize>, Vec<String>)> {
        let placed: Vec<usize> = (0..self.layers.len())
            .filter(|&index| computed[index] && !matches!(self.layers[index].kind, "Parameter" | "Result"))
            .collect();
        if placed.is_empty() {
            let message = "no layer depends on a parameter: there is nothing to place";
            let help = "check that the model is whole";
            return Err(InputError::new(M004, self.label, At::Whole, message, help));
        }
        let names = names::unique(placed.iter().map(|&index| (self.layers[index].name, index as i64)));
        Ok((placed, names))
    }

    /// FLOP of a layer; `None` if its type is unknown.
    fn flop(&self, index: usize) -> Result<Option<f64>> {
        let flop = cost::flop(&self.layers[index]);
        if flop.is_some_and(|flop| !is_amount(flop)) {
            let help = "check the attributes of the layer";
            return Err(self.fault(
                M009,
                self.layers[index].node,
                "the work of the layer is not finite",
                help,
            ));
        }
        Ok(flop)
    }
}
