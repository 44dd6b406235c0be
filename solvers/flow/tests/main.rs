//! Integration tests of layer flow.

mod agreement;
mod published;
