//! Structures from configurations against published numbers, and with the headers of weights.

mod established;
mod hostile;
mod hostile_configs;
mod huggingface;
mod models;
mod newest;
mod published;
mod safetensors;
