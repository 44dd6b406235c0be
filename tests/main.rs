//! The program and the library, tested as users use them.

/// The folder of the workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

mod agreement;
mod bounds;
mod browser;
mod certificates;
mod citation;
mod cli;
mod clusters;
mod compare;
mod convex;
mod demo;
mod examples;
mod expert;
mod explain;
mod export;
mod formats;
mod importers;
mod known_optima;
mod language;
mod latency;
mod limits;
#[cfg(feature = "onnxruntime")]
mod machine;
mod makespan;
mod malformed;
mod memory_bound;
mod models;
mod readme;
mod reference;
mod regression;
mod reports;
mod robust;
mod schema;
mod seeds;
mod selection;
mod simulate;
mod terminal;
mod train;
mod train_data;
mod windows;
mod workloads;
