//! What holds for every structure, whatever it was read from.

use serde_json::Value;
use stagewright::structure::{Encoding, Figures, Structure, read_structure, write_structure};

/// Checks that a structure reads back as it was written, and that its figures are finite and not negative.
pub fn check(structure: &Structure) {
    let text = write_structure(structure);
    let again = read_structure("again", text.as_bytes()).expect("what is written is read");
    assert_eq!(again.as_ref(), Some(structure));
    for context in [0, 1, 1 << 20] {
        let figures = Figures::new(structure, context, Encoding::FP8);
        let Value::Object(figures) = serde_json::to_value(figures).expect("figures are JSON") else {
            unreachable!()
        };
        for (name, figure) in figures {
            // Numbers that are not finite become null; a context may be unknown.
            assert!(!figure.is_null() || name == "context", "{name} is not finite");
            assert!(figure.as_f64().is_none_or(|number| number >= 0.0), "{name} is {figure}");
        }
    }
}
