//! GGUF files.

mod files;
mod hostile;
mod hybrids;
mod layers;
mod models;
mod published;
mod shards;
mod variants;
mod writer;
