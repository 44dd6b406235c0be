//! Structures from configurations against published numbers.

mod huggingface;
