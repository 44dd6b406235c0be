//! Structures from configurations against published numbers.

mod hostile;
mod huggingface;
mod models;
mod newest;
mod published;
