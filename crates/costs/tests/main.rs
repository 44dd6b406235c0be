//! Integration tests of the crate.

mod accuracy;
mod apply;
mod import;
mod look_up;
mod malformed;
mod published;
mod random;
mod tables;
