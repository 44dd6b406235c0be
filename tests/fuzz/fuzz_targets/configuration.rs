//! Arbitrary bytes as a configuration, alone and beside a quantisation: an error, or a structure that round-trips.
#![no_main]

mod agreement;

use libfuzzer_sys::fuzz_target;
use stagewright::structure::huggingface::{Reading, read};

fuzz_target!(|bytes: &[u8]| {
    for beside in [None, Some(("quantisation", bytes))] {
        match read("fuzz", bytes, beside, &Reading::default()) {
            Ok(structure) => agreement::check(&structure),
            Err(error) => assert!(error.to_string().starts_with("error[")),
        }
    }
});
