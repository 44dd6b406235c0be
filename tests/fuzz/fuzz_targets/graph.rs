//! Arbitrary bytes as a model: an error, or a model that round-trips through writing and reading.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stagewright::formats::{
    FORMATS, Format, Gradients, ImportOptions, TimeUnit, import_graph, import_model, write_graph, write_reference,
};

fuzz_target!(|bytes: &[u8]| {
    for format in FORMATS.iter().map(|entry| Some(entry.format)).chain([None]) {
        let options = ImportOptions {
            format,
            time_unit: Some(TimeUnit::Microseconds),
            gradients: Gradients::Reversed,
            ..ImportOptions::default()
        };
        let imported = match import_model("fuzz", bytes, &options) {
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
