//! Measurements in the formats of the programs that made them.

pub mod aiconfigurator;
mod columns;
