//! A model from a file, on a cluster by name: `cargo run --example onnx -- [MODEL] [CLUSTER]`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use stagewright::formats::{ImportOptions, import_model};
use stagewright::prelude::*;
use stagewright::{clusters, export, report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or_else(|| "data/demo/gpt2.onnx".into());
    let cluster = arguments.next().unwrap_or_else(|| "4xt4:fp32".into());
    plan(&model, &cluster)
}

pub(crate) fn plan(model: &str, cluster: &str) -> Result<(), Box<dyn std::error::Error>> {
    let options = ImportOptions { batch: Some(8), ..ImportOptions::default() };
    let imported = import_model(model, &std::fs::read(model)?, &options)?;
    let graph = Graph::from_document(imported.graph)?;
    let cluster = Cluster::from_document(clusters::find(cluster)?)?;
    let problem = Problem::new(graph, cluster, Objective::default())?;

    let solution = solve(&problem, &Options::default().gap(0.01))?;
    let provenance = report::document::Provenance { solver: solution.solver.into(), seconds: 0.0, seed: 0 };
    let document = report::document::plan_document(&problem, &solution, provenance);
    print!("{}", report::table::plan(&document, problem.cluster().document(), None));

    // Exports the plan as a drawing for Graphviz. `target` also accepts runtimes.
    let placed = export::Placed::new(&document, Some(problem.graph()), Some(problem.cluster().document()))?;
    let written = export::target("dot")?.export(&placed)?;
    println!("\n{}", written.text.lines().take(12).collect::<Vec<_>>().join("\n"));
    Ok(())
}
