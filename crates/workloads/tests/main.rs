//! Graphs of language models from their structures.

mod models;
#[path = "../../structure/tests/models.rs"]
mod newest;
mod weights;
