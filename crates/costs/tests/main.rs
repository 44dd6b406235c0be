//! Integration tests of the crate.

mod malformed;
mod programs;
