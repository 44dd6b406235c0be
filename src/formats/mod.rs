//! File formats: bytes to documents, and documents to text.
//!
//! A model comes in one of several formats, recognised by what is in the file and never by its name:
//!
//! | format | module | carries |
//! | --- | --- | --- |
//! | `stagewright.graph/1` JSON | [`native`] | whatever a [`GraphDocument`] can say |
//! | the NeurIPS 2020 package's JSON | [`mod@reference`] | measured times, a cluster, colour classes |
//!
//! Clusters, plans and pins have native formats of their own ([`cluster`], [`plan`], [`pins`]); a plan may
//! also be a split of the reference package.
//!
//! What is done here is reading: text, notation, schema, types, and the rules of foreign formats in the terms
//! of those formats. What holds of any model (no cycles, unique names, costs that make sense) is checked by
//! the graph and cluster builders of the core, whatever the source.
//!
//! Nothing here touches a file. Every function takes a label, which is what errors call the input, and every
//! error is an [`InputError`] with a stable code.
//!
//! # Adding a format
//!
//! Write a module with two functions, one that recognises a file (by its bytes, or by the first look at it as
//! JSON that all formats share) and one that imports it; add a variant to [`Format`] and a row to [`FORMATS`].
//! Nothing else needs to know.

pub mod cluster;
pub mod error;
pub mod native;
pub mod notation;
pub mod pins;
pub mod plan;
pub mod reference;
mod text;

use stagewright_core::document::GraphDocument;

pub use cluster::{import_cluster, write_cluster};
pub use error::{At, InputError, Place};
pub use native::write_graph;
pub use notation::Notation;
pub use pins::import_pins;
pub use plan::{import_plan, write_plan};
pub use reference::{ReferenceIds, write_reference};
use text::Sniff;

/// A format of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `stagewright.graph/1`.
    Native,
    /// JSON of the package of "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020).
    Reference,
}

/// A row of the table of formats.
#[derive(Debug)]
pub struct FormatEntry {
    /// The format.
    pub format: Format,
    /// What it is called on a command line.
    pub name: &'static str,
    /// What it is, for people.
    pub description: &'static str,
    detect: fn(&[u8], &Sniff) -> bool,
    import: fn(&str, &[u8]) -> Result<Imported, InputError>,
}

/// The formats, in the order in which they are tried.
pub const FORMATS: &[FormatEntry] = &[
    FormatEntry {
        format: Format::Native,
        name: "native",
        description: "stagewright.graph/1 JSON",
        detect: native::detect,
        import: native::import,
    },
    FormatEntry {
        format: Format::Reference,
        name: "reference",
        description: "JSON of the NeurIPS 2020 device placement package (nodes, edges, maxFPGAs, …)",
        detect: reference::detect,
        import: reference::import,
    },
];

impl Format {
    /// Its row of [`FORMATS`].
    pub fn entry(self) -> &'static FormatEntry {
        FORMATS.iter().find(|entry| entry.format == self).unwrap_or(&FORMATS[0])
    }

    /// The format of a name; none where no format is called that.
    ///
    /// ```
    /// use stagewright::formats::Format;
    /// assert_eq!(Format::named("reference"), Some(Format::Reference));
    /// assert_eq!(Format::named("gguf"), None);
    /// ```
    pub fn named(name: &str) -> Option<Format> {
        FORMATS.iter().find(|entry| entry.name == name).map(|entry| entry.format)
    }
}

/// A model as it was imported.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The model.
    pub graph: GraphDocument,
    /// The format it came in.
    pub format: Format,
    /// The node ids and colour classes of a reference model, which its splits speak of.
    pub ids: Option<ReferenceIds>,
}

/// Recognises the format of a model.
pub fn detect(label: &str, bytes: &[u8]) -> Result<Format, InputError> {
    let text = text::text(label, bytes);
    let json = text.as_ref().map(|text| Sniff::of(text)).unwrap_or_default();
    match FORMATS.iter().find(|entry| (entry.detect)(bytes, &json)) {
        Some(entry) => Ok(entry.format),
        None => {
            text?;
            let known: Vec<&str> = FORMATS.iter().map(|entry| entry.description).collect();
            let help = format!("give a model in one of these formats: {}", known.join("; "));
            let message = "the content is of no format of models that is known here";
            Err(InputError::new("F006", label, At::Whole, message, help))
        }
    }
}

/// Reads a model, in the given format or else in the one it is recognised as.
///
/// ```
/// use stagewright::formats::import_graph;
/// let model = br#"{"schema": "stagewright.graph/1", "operators": [{"name": "matmul", "seconds": {"gpu": 1e-3}}]}"#;
/// let imported = import_graph("model.json", model, None)?;
/// assert_eq!(imported.graph.operators[0].seconds["gpu"], 1e-3);
///
/// let error = import_graph("model.json", br#"{"operators": [{}]}"#, None).unwrap_err();
/// assert_eq!(error.code, "F003");
/// assert_eq!(error.place.to_string(), "model.json: operators[0]");
/// # Ok::<(), stagewright::formats::InputError>(())
/// ```
pub fn import_graph(label: &str, bytes: &[u8], format: Option<Format>) -> Result<Imported, InputError> {
    let format = match format {
        Some(format) => format,
        None => detect(label, bytes)?,
    };
    (format.entry().import)(label, bytes)
}

/// A document as pretty JSON, ending in a newline. The text depends on the document alone.
fn pretty_json<T: serde::Serialize>(document: &T) -> String {
    let mut text =
        serde_json::to_string_pretty(document).expect("documents have nothing that JSON cannot hold");
    text.push('\n');
    text
}
