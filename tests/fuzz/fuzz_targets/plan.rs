//! Arbitrary bytes as a plan: an error, or a plan that round-trips through writing and reading.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use stagewright::formats::{Imported, import_graph, import_plan, write_plan};

static MODEL: LazyLock<Imported> = LazyLock::new(|| {
    let model = include_bytes!("../../../data/malformed/with/model.json");
    import_graph("model", model, None).expect("the model is sound")
});

fuzz_target!(|bytes: &[u8]| {
    if let Ok(plan) = import_plan("fuzz", bytes, &MODEL) {
        let text = write_plan(&plan);
        let again = import_plan("again", text.as_bytes(), &MODEL).expect("what is written is read");
        assert_eq!(again, plan);
    }
});
