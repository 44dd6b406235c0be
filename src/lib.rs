//! Stagewright decides where every operator of a neural network runs.
pub mod formats;
