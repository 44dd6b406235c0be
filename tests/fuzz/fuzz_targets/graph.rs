//! Any bytes as a model: an error or a model that survives being written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stagewright::formats::{Format, import_graph, write_graph, write_reference};

fuzz_target!(|bytes: &[u8]| {
    for format in [None, Some(Format::Native), Some(Format::Reference)] {
        let imported = match import_graph("fuzz", bytes, format) {
            Ok(imported) => imported,
            Err(error) => {
                assert!(error.to_string().starts_with("error["));
                continue;
            }
        };
        let text = write_graph(&imported.graph);
        let again =
            import_graph("again", text.as_bytes(), Some(Format::Native)).expect("what is written is read");
        assert_eq!(again.graph, imported.graph);
        if let Ok(text) = write_reference("fuzz", &imported.graph) {
            let again = import_graph("again", text.as_bytes(), None);
            if imported.format == Format::Reference {
                let again = again.expect("a reference model is one again");
                assert_eq!(again.graph.operators.len(), imported.graph.operators.len());
            }
        }
    }
});
