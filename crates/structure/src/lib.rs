//! Structures of language models: from what people hold to what graphs are made of.
//!
//! A [`Structure`] says what every layer of a model is, and has its tensors with their bytes. It is read from a Hugging
//! Face configuration ([`huggingface`]), from the headers of its weights ([`safetensors`]), or from a GGUF file
//! ([`gguf`]); no weight is ever read. [`tensors`] derives the tensors from the layers where no file gives them, and
//! [`cache`] what a sequence keeps between steps.
//!
//! Data flows one way: file → structure → tensors, cache, figures. Every reader takes a label that errors use as the name
//! of the input.

pub mod cache;
mod check;
mod document;
pub mod encoding;
mod figures;
pub mod gguf;
pub mod huggingface;
mod module;
pub mod safetensors;
mod structure;
mod tensor;
pub mod tensors;

pub use document::{SCHEMA, read_structure, write_structure};
pub use encoding::Encoding;
pub use figures::{ByEncoding, Figures};
pub use structure::*;
pub use tensor::{Role, Tensor};
