//! Graphs of language models from their structures.

mod caches;
mod layers;
mod limits;
mod models;
#[path = "../../structure/tests/models.rs"]
mod newest;
mod published;
mod training;
mod weights;
mod work;
