//! Structures from configurations against published numbers.

mod established;
mod hostile_configs;
mod huggingface;
