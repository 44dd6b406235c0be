//! Integration tests of the crate.

mod accuracy;
mod apply;
mod fit;
mod import;
mod look_up;
mod malformed;
mod programs;
mod published;
mod random;
mod seeds;
mod tables;
mod training;
