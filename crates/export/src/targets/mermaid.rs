//! Mermaid: a flowchart, operators coloured by device, layers as subgraphs.
//!
//! Nodes are numbered, and names appear only in quoted labels. All characters but letters, digits and a few
//! harmless marks are written as codes such as `#34;`, since Mermaid may otherwise read a label as HTML or
//! Markdown.
//!
//! Source: "Flowcharts - Basic Syntax" in the documentation of Mermaid, sections "Entity codes to escape
//! characters", "Subgraphs" and "Classes". Mermaid draws no more than 500 edges unless `maxEdges` is raised, and
//! no more than 50,000 characters unless `maxTextSize` is; read with Mermaid 11.17.

use crate::targets::drawing::{Drawing, RUNTIME};
use crate::{Export, Placed, Result, Target};

pub(super) static TARGET: Target = Target {
    name: "mermaid",
    summary: "Mermaid: operators coloured by device, layers as subgraphs",
    limits: "a drawing: calls, priorities, the schedule and shared weights are not shown; tensors only with --model",
    write,
    runtime: RUNTIME,
};

/// Mermaid's default limit on edges.
const MAX_EDGES: usize = 500;

/// Number of characters that Mermaid reads by default.
const LONGEST: usize = 50_000;

fn write(placed: &Placed) -> Result<Export> {
    let drawing = Drawing::new(placed);
    let mut text = String::from("flowchart TB\n  subgraph devices\n");
    for (device, name) in drawing.devices.iter().enumerate() {
        text.push_str(&format!("    d{device}[\"{}\"]:::device{device}\n", escaped(name)));
    }
    text.push_str("  end\n");
    for (number, (layer, operators)) in drawing.layers.iter().enumerate() {
        let inside = !layer.is_empty();
        if inside {
            text.push_str(&format!("  subgraph layer{number}[\"{}\"]\n", escaped(layer)));
        }
        let indent = if inside { "    " } else { "  " };
        for &index in operators {
            let operator = &placed.operators[index];
            text.push_str(&format!(
                "{indent}n{index}[\"{}\"]:::device{}\n",
                escaped(operator.name),
                operator.device
            ));
        }
        if inside {
            text.push_str("  end\n");
        }
    }
    for (from, to) in &drawing.edges {
        text.push_str(&format!("  n{from} --> n{to}\n"));
    }
    for (device, colour) in drawing.colours.iter().enumerate() {
        text.push_str(&format!("  classDef device{device} fill:{colour},stroke:#333333,color:#000000\n"));
    }
    let length = text.chars().count();
    let is_long =
        format!("the drawing has {length} characters, and Mermaid reads {LONGEST}: raise its maxTextSize");
    let edges = drawing.edges.len();
    let has_many =
        format!("the drawing has {edges} edges, and Mermaid draws {MAX_EDGES}: raise its maxEdges");
    Ok(Export::drawing(text)
        .also((edges > MAX_EDGES).then_some(has_many))
        .also((length > LONGEST).then_some(is_long)))
}

/// A label that Mermaid reads as plain text; an empty one becomes a blank.
fn escaped(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ',' | ' ');
    let code = |c: char| if plain(c) { c.to_string() } else { format!("#{};", u32::from(c)) };
    let text: String = text.chars().map(code).collect();
    if text.is_empty() { " ".into() } else { text }
}
