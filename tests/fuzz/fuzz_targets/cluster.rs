//! Arbitrary bytes as a cluster: an error, or a cluster that round-trips through both notations.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stagewright::formats::{Notation, import_cluster, write_cluster};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(cluster) = import_cluster("fuzz", bytes) {
        for notation in [Notation::Json, Notation::Toml] {
            let text = write_cluster(&cluster, notation);
            let again = import_cluster("again", text.as_bytes()).expect("what is written is read");
            assert_eq!(again, cluster);
        }
    }
});
