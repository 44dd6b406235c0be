//! Structures from configurations against published numbers.

mod established;
mod hostile;
mod hostile_configs;
mod huggingface;
mod models;
mod newest;
mod published;
