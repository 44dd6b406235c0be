//! Reports of a solution: plan documents, text tables, CSV and HTML.

pub mod comparison;
pub mod convergence;
pub mod devices;
pub mod document;
pub mod grid;
pub mod html;
pub mod joint;
pub mod local;
pub mod records;
pub mod run;
pub mod schedule;
pub mod serving;
pub mod steady;
pub mod step;
pub mod table;
pub mod throughput;
pub mod wrap;

pub use stagewright_core::units;
