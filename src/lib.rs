//! Stagewright decides where every operator of a neural network runs.

pub mod diagnose;
pub mod explain;
mod integer;
pub mod learned;
pub mod portfolio;
pub mod registry;

pub use stagewright_core as core;
pub use stagewright_core::text;
pub use stagewright_export as export;
pub use stagewright_formats as formats;
pub use stagewright_formats::{calls, clusters, fusion, layers, nearest, placement};
pub use stagewright_report as report;
pub use stagewright_train as train;
pub use stagewright_train::lock;
pub use stagewright_workloads as workloads;
