//! Structures from configurations and files of weights, against published numbers.

mod caches;
mod established;
mod figures;
mod gguf;
mod hostile;
mod hostile_configs;
mod huggingface;
mod models;
mod newest;
mod overrides;
mod published;
mod safetensors;
mod unknown;
