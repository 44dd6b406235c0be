//! Structures from configurations against published numbers, and with the headers of weights.

mod huggingface;
mod safetensors;
