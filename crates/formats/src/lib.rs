//! File formats: bytes to documents, and documents to text.
//!
//! Models come in several formats, recognised by content and never by file name:
//!
//! | format | module | carries |
//! | --- | --- | --- |
//! | `stagewright.graph/2` and `/1` JSON | [`native`] | everything that a [`GraphDocument`] can express |
//! | the NeurIPS 2020 package's JSON | [`mod@reference`] | measured times, a cluster, colour classes |
//! | PipeDream's `graph.txt` | [`pipedream`] | measured times of both passes, bytes |
//! | Piper's JSON | [`piper`] | measured times, bytes, a cluster |
//! | ONNX | [`onnx`] | FLOP and bytes moved, from shapes |
//! | TensorFlow's CostGraphDef as text | [`cost_graph`] | measured or estimated times, bytes |
//! | OpenVINO IR | [`openvino`] | FLOP and bytes moved, from shapes |
//! | a language model's configuration, weights or structure | `language` | layers and tensors, from which a graph is drawn elsewhere |
//!
//! PyTorch programs are exported as native JSON by the script of [`torch`].
//!
//! A strategy problem ([`strategies`]) is not a model: it offers a choice of strategies for every operator, and has no
//! devices.
//!
//! Clusters, plans and pins have native formats of their own ([`cluster`], [`plan`], [`pins`]); a plan may
//! also be a split of the reference package.
//!
//! This module checks text, notation, schema, types, and the rules of foreign formats in the terms of those
//! formats. The rules of every model (no cycles, unique names, sensible costs) are checked by the graph and
//! cluster builders of the core, whatever the source.
//!
//! Nothing here opens a file. Every function takes a label, which errors use as the name of the input, and
//! every error is an [`InputError`] with a stable code. Most formats are read from bytes in memory; a format
//! whose files can be larger than memory is read as a stream, and only in the parts that the importer needs.
//!
//! # Adding a format
//!
//! Write a module with two functions: one recognises a file, by its bytes or by the first look at its JSON
//! that all formats share, and one imports it. Add a variant to [`Format`] and a row to [`FORMATS`].
//! CONTRIBUTING.md has the recipe, with the options and the tests.

mod assignment;
mod batch;
pub mod calls;
pub mod cluster;
pub mod clusters;
pub mod code;
pub mod cost_graph;
pub mod error;
pub mod fault;
pub mod flow;
mod foreign;
pub mod fusion;
pub mod joint;
mod language;
pub mod layers;
pub mod local;
pub(crate) mod names;
pub mod native;
pub mod nearest;
pub mod notation;
pub mod onnx;
pub mod openvino;
pub mod options;
mod packed;
pub mod pins;
pub mod pipedream;
pub mod piper;
pub mod placement;
pub mod plan;
mod readers;
pub mod recipes;
pub mod reference;
pub mod runtimes;
mod serving;
pub mod sibling;
pub mod strategies;
mod text;
pub mod torch;
mod unevaluated;
mod work;

use std::io::{Cursor, Read, Seek, SeekFrom};

use stagewright_core::document::GraphDocument;

pub use cluster::{import_cluster, write_cluster};
pub use error::{At, InputError, Place, Result};
pub use flow::{import_layer_flow, import_layer_plan, is_layer_flow, write_layer_plan};
pub use foreign::Foreign;
pub use joint::{import_joint_plan, is_joint_plan, write_joint_plan};
pub use local::{import_local_plan, write_local_plan};
pub use native::write_graph;
pub use notation::{Notation, read_json, read_toml};
pub use options::{Fusion, Gradients, ImportOptions, Tied, TimeUnit};
pub use packed::write_packed;
pub use pins::{expand_pins, import_pins, matching};
pub use piper::{import_piper, is_piper};
pub use plan::{PlanFile, import_plan, import_plan_alone, write_plan};
pub use reference::{ReferenceIds, write_reference};
pub use serving::{import_serving_plan, write_serving_plan};
pub use strategies::{import_strategies, import_strategy_plan, is_strategies, write_strategy_plan};
use text::Sniff;
pub use text::text as text_of;

use crate::code::{F006, F011};

/// A format of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `stagewright.graph/2` or `stagewright.graph/1`.
    Native,
    /// `stagewright.graph-packed/1`: the native format in columns, as MessagePack.
    Packed,
    /// JSON of the package of "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS
    /// 2020).
    Reference,
    /// The profiler's output of PipeDream (SOSP 2019).
    PipeDream,
    /// JSON of the package of "Piper: Multidimensional Planner for DNN Parallelization" (NeurIPS 2021).
    Piper,
    /// Open Neural Network Exchange.
    Onnx,
    /// TensorFlow's `CostGraphDef`, as protobuf text.
    CostGraph,
    /// The XML of OpenVINO's intermediate representation.
    OpenVino,
    /// Layers and tensors of a language model: a Hugging Face configuration, GGUF, or `stagewright.structure/1`.
    Language,
}

/// A row of the table of formats.
#[derive(Debug)]
pub struct FormatEntry {
    /// The format.
    pub format: Format,
    /// Name on the command line.
    pub name: &'static str,
    /// Description for display.
    pub description: &'static str,
    /// Options that the format uses besides those of every format, by their names in a plan's `model`.
    pub options: &'static [&'static str],
    detect: fn(&[u8], &Sniff) -> bool,
    import: Import,
}

/// Import function of a format.
#[derive(Debug)]
enum Import {
    /// Reads the whole file from memory.
    Bytes(fn(&str, &[u8], &ImportOptions) -> Result<Imported>),
    /// Reads a stream, recognised by its first [`HEAD`] bytes.
    Stream(StreamImport),
    /// Is not read here: the file describes layers, from which the caller draws a graph.
    Elsewhere,
}

type StreamImport = fn(&str, &mut dyn Stream, &ImportOptions) -> Result<Imported>;

/// A file that is read in part.
pub trait Stream: Read + Seek {}

impl<T: Read + Seek> Stream for T {}

/// Number of bytes that suffice to recognise a format read as a stream.
const HEAD: u64 = 4096;

/// All formats, in order of detection.
pub const FORMATS: &[FormatEntry] = &[
    FormatEntry {
        format: Format::Language,
        name: "language",
        description: "language model: a Hugging Face folder or config.json, GGUF, or stagewright.structure/1 JSON",
        options: &[
            "phase",
            "batch",
            "sequence",
            "context",
            "sequences",
            "precision",
            "cache",
            "granularity",
            "expert_group",
            "optimizer",
            "all_logits",
            "prediction",
            "tower_tokens",
            "architecture",
            "set",
        ],
        detect: language::detect,
        import: Import::Elsewhere,
    },
    FormatEntry {
        format: Format::Native,
        name: "native",
        description: "stagewright.graph/2 or /1 JSON",
        options: &[],
        detect: native::detect,
        import: Import::Bytes(native::import),
    },
    FormatEntry {
        format: Format::Packed,
        name: "packed",
        description: "stagewright.graph-packed/1 MessagePack",
        options: &[],
        detect: packed::detect,
        import: Import::Bytes(packed::import),
    },
    FormatEntry {
        format: Format::Reference,
        name: "reference",
        description: "JSON of the NeurIPS 2020 device placement package (nodes, edges, maxFPGAs, …)",
        options: &[],
        detect: reference::detect,
        import: Import::Bytes(reference::import),
    },
    FormatEntry {
        format: Format::Piper,
        name: "piper",
        description: "JSON of the NeurIPS 2021 Piper package (nodes with TMPCs, maxDevices, …)",
        options: &["time_unit", "profile_class"],
        detect: piper::detect,
        import: Import::Bytes(piper::import),
    },
    FormatEntry {
        format: Format::PipeDream,
        name: "pipedream",
        description: "graph.txt of PipeDream's profiler",
        options: &["time_unit", "profile_class", "keep_input_costs", "gradients"],
        detect: pipedream::detect,
        import: Import::Bytes(pipedream::import),
    },
    FormatEntry {
        format: Format::Onnx,
        name: "onnx",
        description: "ONNX",
        options: &["batch", "dims", "context", "sequences", "precision", "without_fusion"],
        detect: onnx::detect,
        import: Import::Stream(onnx::import),
    },
    FormatEntry {
        format: Format::CostGraph,
        name: "cost-graph",
        description: "TensorFlow CostGraphDef as protobuf text",
        options: &["time_unit", "profile_class"],
        detect: cost_graph::detect,
        import: Import::Bytes(cost_graph::import),
    },
    FormatEntry {
        format: Format::OpenVino,
        name: "openvino",
        description: "OpenVINO IR XML",
        options: &["precision", "without_fusion"],
        detect: openvino::detect,
        import: Import::Bytes(openvino::import),
    },
];

impl Format {
    /// Row of [`FORMATS`].
    pub fn entry(self) -> &'static FormatEntry {
        FORMATS.iter().find(|entry| entry.format == self).unwrap_or(&FORMATS[0])
    }

    /// Whether the format uses an option, by the option's name in a plan's `model`.
    pub fn has_option(self, name: &str) -> bool {
        self.entry().options.contains(&name)
    }

    /// Finds a format by name; `None` if there is no such format.
    ///
    /// ```
    /// use stagewright_formats::Format;
    /// assert_eq!(Format::named("reference"), Some(Format::Reference));
    /// assert_eq!(Format::named("pickle"), None);
    /// ```
    pub fn named(name: &str) -> Option<Format> {
        FORMATS.iter().find(|entry| entry.name == name).map(|entry| entry.format)
    }
}

/// An imported model.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The model.
    pub graph: GraphDocument,
    /// Format of the file.
    pub format: Format,
    /// Node ids and colour classes of a reference model, used by its splits.
    pub ids: Option<ReferenceIds>,
}

/// Recognises the format of a model.
pub fn detect(label: &str, bytes: &[u8]) -> Result<Format> {
    let text = text::text(label, bytes);
    let json = text.as_ref().map(|text| Sniff::new(text)).unwrap_or_default();
    if let Some(entry) = FORMATS.iter().find(|entry| (entry.detect)(bytes, &json)) {
        return Ok(entry.format);
    }
    if let Some(foreign) = Foreign::from_bytes(bytes) {
        return Err(foreign.refused(label));
    }
    text?;
    let known: Vec<&str> = FORMATS.iter().map(|entry| entry.description).collect();
    let help = format!("give a model in one of these formats: {}", known.join("; "));
    Err(InputError::new(F006, label, At::Whole, "unrecognised model format", help))
}

/// Reads a model in the given format, or in the detected one if `format` is `None`.
///
/// ```
/// use stagewright_formats::import_graph;
/// let model = br#"{"schema": "stagewright.graph/1", "operators": [{"name": "matmul", "seconds": {"gpu": 1e-3}}]}"#;
/// let imported = import_graph("model.json", model, None)?;
/// assert_eq!(imported.graph.operators[0].seconds["gpu"], 1e-3);
///
/// let error = import_graph("model.json", br#"{"operators": [{}]}"#, None).unwrap_err();
/// assert_eq!(error.code, "F003");
/// assert_eq!(error.place.to_string(), "model.json: operators[0]");
/// # Ok::<(), stagewright_formats::InputError>(())
/// ```
pub fn import_graph(label: &str, bytes: &[u8], format: Option<Format>) -> Result<Imported> {
    import_model(label, bytes, &ImportOptions { format, ..ImportOptions::default() })
}

/// Reads a model from memory with import options.
pub fn import_model(label: &str, bytes: &[u8], options: &ImportOptions) -> Result<Imported> {
    let format = match options.format {
        Some(format) => format,
        None => detect(label, bytes)?,
    };
    let imported = match format.entry().import {
        Import::Bytes(import) => import(label, bytes, options),
        Import::Stream(import) => import(label, &mut Cursor::new(bytes), options),
        Import::Elsewhere => Err(Foreign::Layers.refused(label)),
    };
    imported.map(|imported| options.finish(imported))
}

/// Reads a model from a file, holding no more of it in memory than its format needs.
///
/// # Errors
/// If the model is invalid, as for [`import_model`], or if the file cannot be read (F011).
pub fn import_file(label: &str, file: &mut dyn Stream, options: &ImportOptions) -> Result<Imported> {
    let failed = |error: std::io::Error| unreadable(label, &error);
    let mut bytes = head(file).map_err(failed)?;
    if let Some(import) = streamed(&bytes, options) {
        return import(label, file, options).map(|imported| options.finish(imported));
    }
    // Such files are large, and their head suffices to recognise them.
    if options.format.is_none()
        && let Some(foreign) = Foreign::from_bytes(&bytes)
    {
        return Err(foreign.refused(label));
    }
    bytes.clear();
    file.read_to_end(&mut bytes).map_err(failed)?;
    import_model(label, &bytes, options)
}

/// Whether a file is read as a stream, whatever its size, instead of being held in memory. Rewinds the file.
///
/// # Errors
/// If the first bytes of the file cannot be read.
pub fn is_streamed(file: &mut dyn Stream, options: &ImportOptions) -> std::io::Result<bool> {
    Ok(streamed(&head(file)?, options).is_some())
}

/// The kind of a file that is no model, by its first bytes. Rewinds the file.
///
/// # Errors
/// If the first bytes of the file cannot be read.
pub fn foreign(file: &mut dyn Stream) -> std::io::Result<Option<Foreign>> {
    Ok(Foreign::from_bytes(&head(file)?))
}

/// Reads the first bytes of a file, and rewinds the file.
fn head(file: &mut dyn Stream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    (&mut *file).take(HEAD).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(0)).map(|_| bytes)
}

/// Import function of the format that the start of a file identifies, if files of that format are read as streams.
fn streamed(head: &[u8], options: &ImportOptions) -> Option<StreamImport> {
    FORMATS.iter().find_map(|entry| match (options.format, &entry.import) {
        (Some(format), Import::Stream(import)) => (entry.format == format).then_some(*import),
        (None, Import::Stream(import)) => (entry.detect)(head, &Sniff::default()).then_some(*import),
        (_, Import::Bytes(_) | Import::Elsewhere) => None,
    })
}

fn unreadable(label: &str, error: &std::io::Error) -> InputError {
    let help = "check the path and the permissions of the file";
    InputError::new(F011, label, At::Whole, format!("the file cannot be read: {error}"), help)
}

/// Formats a document as pretty JSON, ending in a newline. The text depends on the document alone.
fn pretty_json<T: serde::Serialize>(document: &T) -> String {
    let mut text =
        serde_json::to_string_pretty(document).expect("documents have nothing that JSON cannot hold");
    text.push('\n');
    text
}
