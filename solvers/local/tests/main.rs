//! The search for local plans against enumeration, the rules that people use, and llama.cpp itself.
#![allow(clippy::print_stdout, reason = "tables that `--nocapture` shows")]

mod agreement;
#[path = "../../../crates/llamacpp/tests/oracle/models.rs"]
mod kinds;
#[path = "../../../crates/structure/tests/gguf/models.rs"]
#[allow(dead_code, reason = "models of the tests of structures, of which some serve here")]
mod models;
mod oracle;
mod rules;
#[path = "../../../crates/llamacpp/tests/oracle/tool.rs"]
mod tool;
#[path = "../../../crates/structure/tests/gguf/writer.rs"]
#[allow(dead_code, reason = "a writer of the tests of structures, of which parts serve here")]
mod writer;
