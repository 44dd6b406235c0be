//! Arbitrary bytes as a file of safetensors and as an index, beside a small mixture of experts: errors, or a structure with
//! the tensors of the file that round-trips.
#![no_main]

mod agreement;

use libfuzzer_sys::fuzz_target;
use stagewright::structure::huggingface::{Reading, read};
use stagewright::structure::safetensors::{Header, Index, compare, join};

const CONFIG: &[u8] = include_bytes!("../seeds/configuration/mixtral.json");

fuzz_target!(|bytes: &[u8]| {
    let mut structure = read("config", CONFIG, None, &Reading::default()).expect("a configuration");
    if let Ok(index) = Index::read("index", bytes) {
        let _ = compare(&structure, &index);
    }
    let joined = Header::read("fuzz", bytes, None).and_then(|header| join(&mut structure, "fuzz", &[header]));
    match joined {
        Ok(()) => agreement::check(&structure),
        Err(error) => assert!(error.to_string().starts_with("error[")),
    }
});
