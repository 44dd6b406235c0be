//! Rules of llama.cpp on GGUF files made here.

mod bench;
mod fixture;
mod judge;
mod machine;
mod memory;
#[path = "../../structure/tests/gguf/models.rs"]
#[allow(dead_code, reason = "models of the tests of structures, of which some serve here")]
mod models;
mod oracle;
mod place;
mod setting;
mod speed;
#[path = "../../structure/tests/gguf/writer.rs"]
#[allow(dead_code, reason = "a writer of the tests of structures, of which parts serve here")]
mod writer;
