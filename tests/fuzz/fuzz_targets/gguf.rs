//! Arbitrary bytes as a GGUF file without further shards: an error, or a structure that round-trips.
#![no_main]

mod agreement;

use std::io::{Cursor, Error, ErrorKind};

use libfuzzer_sys::fuzz_target;
use stagewright::structure::gguf::read;

fuzz_target!(|bytes: &[u8]| {
    let mut none = |_: &str| Err(Error::from(ErrorKind::NotFound));
    match read("fuzz", Box::new(Cursor::new(bytes)), &mut none) {
        Ok(structure) => agreement::check(&structure),
        Err(error) => assert!(error.to_string().starts_with("error[")),
    }
});
