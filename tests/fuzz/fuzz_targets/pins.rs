//! Arbitrary bytes as pins: an error or pins.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stagewright::formats::import_pins;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = import_pins("fuzz", bytes) {
        assert!(error.to_string().starts_with("error["));
    }
});
