//! Graphviz: a directed graph, operators coloured by device, layers as clusters.
//!
//! Nodes are numbered, and names appear only in labels, as quoted strings: `\"` is the only escape of the
//! language, a backslash starts an escape of the label, and labels may contain character references. So
//! quotes and backslashes are escaped, and ampersands and control characters are written as references.
//!
//! Source: "DOT Language", "escString" and "Character encodings" in the documentation of Graphviz.

use crate::targets::drawing::{Drawing, RUNTIME};
use crate::{Export, Placed, Result, Target};

pub(super) static TARGET: Target = Target {
    name: "dot",
    summary: "Graphviz: operators coloured by device, layers as clusters",
    limits: "a drawing: calls, priorities, the schedule and shared weights are not shown; tensors only with --model",
    write,
    runtime: RUNTIME,
};

fn write(placed: &Placed) -> Result<Export> {
    let drawing = Drawing::new(placed);
    let mut text = String::from("digraph plan {\n  rankdir=TB;\n  node [shape=box, style=filled];\n");
    text.push_str("  subgraph cluster_devices {\n    label=\"devices\";\n");
    for (device, (name, colour)) in drawing.devices.iter().zip(&drawing.colours).enumerate() {
        text.push_str(&format!("    d{device} [label={}, fillcolor=\"{colour}\"];\n", quoted(name)));
    }
    text.push_str("  }\n");
    for (number, (layer, operators)) in drawing.layers.iter().enumerate() {
        let inside = !layer.is_empty();
        if inside {
            text.push_str(&format!("  subgraph cluster_{number} {{\n    label={};\n", quoted(layer)));
        }
        let indent = if inside { "    " } else { "  " };
        for &index in operators {
            let operator = &placed.operators[index];
            text.push_str(&format!(
                "{indent}n{index} [label={}, fillcolor=\"{}\", class=\"d{}\"];\n",
                quoted(operator.name),
                drawing.colours[operator.device],
                operator.device
            ));
        }
        if inside {
            text.push_str("  }\n");
        }
    }
    for (from, to) in &drawing.edges {
        text.push_str(&format!("  n{from} -> n{to};\n"));
    }
    text.push_str("}\n");
    Ok(Export::drawing(text))
}

/// A label as a quoted string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '&' => quoted.push_str("&amp;"),
            c if c.is_control() => quoted.push_str(&format!("&#{};", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
