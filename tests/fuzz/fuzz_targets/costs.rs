//! Arbitrary bytes as measurements: an error, or a document that round-trips through writing and reading.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stagewright_core::document::TransferKind;
use stagewright_costs::import::{Options, import, native};

fuzz_target!(|bytes: &[u8]| {
    let given = Options {
        class: Some("gpu".into()),
        devices: Some(8),
        transfer: Some(TransferKind::AllGather),
        ..Options::default()
    };
    for options in [Options::default(), given] {
        match import("fuzz", bytes, &options) {
            Ok(costs) => {
                let text = native::write(&costs);
                assert_eq!(native::import("again", text.as_bytes()), Ok(costs));
            }
            Err(error) => assert!(error.to_string().starts_with("error[")),
        }
    }
});
