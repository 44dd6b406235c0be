//! Built-in workloads: published figures, invariants of every graph, and the command.

mod command;
mod figures;
mod graphs;

use stagewright::workloads::{Options, Size, Sizes, family};
use stagewright_core::document::{GraphDocument, OperatorDocument, Pass};

fn generate(name: &str, variant: &str, options: &Options) -> GraphDocument {
    family(name)
        .and_then(|family| family.generate(Some(variant), options))
        .unwrap_or_else(|error| panic!("{name} {variant}: {error}"))
}

/// Inference on one sample in single precision.
fn one(name: &str, variant: &str, sizes: Sizes) -> GraphDocument {
    generate(name, variant, &Options { sizes: sizes.with(Size::Batch, 1), ..Options::default() })
}

fn of_pass(graph: &GraphDocument, pass: Pass) -> impl Iterator<Item = &OperatorDocument> {
    graph.operators.iter().filter(move |operator| operator.pass == pass)
}

fn sum(graph: &GraphDocument, figure: impl Fn(&OperatorDocument) -> f64) -> f64 {
    graph.operators.iter().map(figure).sum()
}

/// Bytes of all parameters, including those with several readers.
fn parameter_bytes(graph: &GraphDocument) -> f64 {
    sum(graph, |operator| operator.parameter_bytes)
        + graph.parameters.iter().map(|shared| shared.bytes).sum::<f64>()
}

fn flop(operator: &OperatorDocument) -> f64 {
    operator.flop.unwrap_or(0.0)
}

/// Multiply-adds of the forward operators of the given kinds.
fn multiply_adds(graph: &GraphDocument, kinds: &[&str]) -> f64 {
    let counts = |operator: &&OperatorDocument| kinds.contains(&operator.kind.as_deref().unwrap_or(""));
    of_pass(graph, Pass::Forward).filter(counts).map(flop).sum::<f64>() / 2.0
}

/// Products with weights.
const WEIGHTED: [&str; 3] = ["linear", "conv2d", "grouped_conv2d"];

/// All products.
const PRODUCTS: [&str; 4] = ["linear", "conv2d", "grouped_conv2d", "matmul"];

fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs()
}
