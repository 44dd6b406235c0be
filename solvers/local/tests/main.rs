//! The search for local plans against enumeration, and against the rules that people use.
#![allow(clippy::print_stdout, reason = "tables that `--nocapture` shows")]

mod agreement;
#[path = "../../../crates/structure/tests/gguf/models.rs"]
#[allow(dead_code, reason = "models of the tests of structures, of which some serve here")]
mod models;
mod rules;
#[path = "../../../crates/structure/tests/gguf/writer.rs"]
#[allow(dead_code, reason = "a writer of the tests of structures, of which parts serve here")]
mod writer;
