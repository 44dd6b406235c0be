//! Structures from configurations and files of weights, against published numbers.

mod gguf;
mod huggingface;
