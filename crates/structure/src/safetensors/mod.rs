//! Weights in safetensors: what headers and indices say, without the weights.
//!
//! A file begins with the length of its header as a 64-bit number, little-endian; the header is JSON with the type, the shape
//! and the place of every tensor ([`Header`]). A checkpoint of several files has an index, `model.safetensors.index.json`,
//! with the file of every tensor and the bytes of all ([`Index`]).
//!
//! With the headers of all files, [`join()`] gives the tensors of a structure their exact bytes and refuses weights that
//! contradict the configuration. With an index alone, [`compare`] compares names, and the bytes of all tensors with those
//! derived.
//!
//! The format is that of the crate `safetensors` 0.8.

mod header;
mod index;
mod join;
mod place;
mod stored;

pub use header::{Dtype, Entry, Header};
pub use index::Index;
pub use join::{compare, join};
