//! Constants of runtimes that train models: those of `data/runtimes.toml` by name, and files in JSON or TOML.

use std::sync::LazyLock;

use serde::de::Error as _;
use stagewright_core::document::RuntimeDocument;

use super::error::Result;
use super::notation::Notation;
use super::text::text;

/// Name of the runtime of a joint plan if none is given.
pub const DEFAULT: &str = "megatron";

/// Name of the absence of a runtime: nothing overlaps and nothing is lost.
pub const IDEAL: &str = "ideal";

static RUNTIMES: LazyLock<Vec<RuntimeDocument>> = LazyLock::new(|| {
    let text = include_str!("../../../data/runtimes.toml");
    read_all(text).unwrap_or_else(|error| panic!("data/runtimes.toml: {error}"))
});

fn read_all(text: &str) -> std::result::Result<Vec<RuntimeDocument>, toml::de::Error> {
    let file: toml::Table = text.parse()?;
    let table = |name: &str| file.get(name).and_then(toml::Value::as_table).cloned();
    let missing = toml::de::Error::custom("a table `common` and a table `runtimes` are needed");
    let (common, runtimes) = table("common").zip(table("runtimes")).ok_or(missing)?;
    let read = |(name, own): (String, toml::Value)| {
        let mut all = common.clone();
        all.insert("name".into(), name.into());
        all.extend(own.try_into::<toml::Table>()?);
        all.try_into()
    };
    runtimes.into_iter().map(read).collect()
}

/// The runtimes of `data/runtimes.toml`, by their names.
pub fn runtimes() -> &'static [RuntimeDocument] {
    &RUNTIMES
}

/// The runtime of a name.
pub fn runtime(name: &str) -> Option<&'static RuntimeDocument> {
    RUNTIMES.iter().find(|runtime| runtime.name == name)
}

/// Reads a runtime, in either notation.
///
/// # Errors
/// If a constant is missing or unknown.
pub fn import_runtime(label: &str, bytes: &[u8]) -> Result<RuntimeDocument> {
    let text = text(label, bytes)?;
    Notation::of(text).read(label, text)
}

/// Writes a runtime as TOML, which [`import_runtime`] reads.
pub fn write_runtime(runtime: &RuntimeDocument) -> String {
    toml::to_string(runtime).expect("a runtime has only texts, numbers and switches")
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT, import_runtime, runtime, runtimes, write_runtime};

    #[test]
    fn shipped_runtimes_are_in_range_and_name_their_source() {
        assert!(runtime(DEFAULT).is_some());
        for runtime in runtimes() {
            assert_eq!(runtime.fault(), None, "{}", runtime.name);
            assert!(runtime.source.is_some(), "{}", runtime.name);
        }
    }

    #[test]
    fn a_file_is_a_runtime() {
        let megatron = runtime(DEFAULT).expect("it is shipped");
        let text = serde_json::to_string(megatron).expect("a document");
        assert_eq!(import_runtime("own.json", text.as_bytes()).as_ref(), Ok(megatron));
        assert!(import_runtime("own.json", b"{\"name\": \"own\"}").is_err());
        for runtime in runtimes() {
            let written = write_runtime(runtime);
            assert_eq!(import_runtime("own.toml", written.as_bytes()).as_ref(), Ok(runtime), "{written}");
        }
    }
}
