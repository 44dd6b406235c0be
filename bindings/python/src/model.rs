//! Models and clusters.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};
use stagewright::code::{U001, U005};
use stagewright::core::document::{ClusterDocument, GraphDocument, ModelOptionsDocument};
use stagewright::core::graph::Graph;
use stagewright::failure::Failure;
use stagewright::figures::figures;
use stagewright::files::{self, Input, Opened};
use stagewright::formats::torch::EXPORTER;
use stagewright::formats::{Format, Imported, Notation, import_cluster, write_cluster, write_graph};
use stagewright::reading::{self, ModelOptions};
use stagewright::text::quoted;
use stagewright::workloads::{
    FAMILIES, Granularity, Optimizer, Options, Precision, Size, Sizes, WorkloadError, family,
};
use stagewright::{clusters, structures};

use crate::failure::{Result, arguments, json};

/// A model as it was read: a graph of operators and tensors, without a cluster.
#[pyclass(frozen, module = "stagewright")]
pub(crate) struct Model {
    pub(crate) label: String,
    pub(crate) imported: Imported,
    pub(crate) options: ModelOptionsDocument,
    pub(crate) notes: Vec<String>,
}

/// Name of the argument that corresponds to a field of a plan's `model`.
pub(crate) fn place(field: &str) -> String {
    match field {
        "tied_together" => "tied",
        "without_fusion" => "fusion",
        "set" => "sizes",
        other => other,
    }
    .to_owned()
}

/// The error for a file that cannot be read. Instances of the library get a hint, because the library is part of the
/// program and not of the extension.
fn unreadable(path: &Path, failure: Failure) -> Failure {
    match path.to_str().and_then(|path| path.strip_prefix("instance:")) {
        None => failure,
        Some(name) => failure.help(format!(
            "`stagewright instances show {} --model --out FILE` writes the model of an instance",
            quoted(name)
        )),
    }
}

impl Model {
    /// Reads a model from an input, with the options that the wrapper collected.
    fn new(opened: Opened, options: &str) -> Result<Model, Failure> {
        let given: Map<String, Value> = arguments(options)?;
        let options: ModelOptionsDocument = arguments(options)?;
        let given = given.keys().cloned().collect();
        let options = ModelOptions { document: options, given, place: Arc::new(place) };
        let mut notes = Vec::new();
        let reading::Model { label, imported, .. } = reading::model(opened, &options, &mut notes)?;
        // A model that is not a valid graph is refused immediately.
        Graph::from_document(imported.graph.clone()).map_err(|error| Failure::graph(&label, &error))?;
        Ok(Model { label, imported, options: options.document, notes })
    }
}

#[pymethods]
impl Model {
    /// Reads a model file in any format, compressed with gzip or not.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf, options: &str) -> Result<Model> {
        Ok(py.detach(|| {
            Model::new(reading::open(&path).map_err(|failure| unreadable(&path, failure))?, options)
        })?)
    }

    /// Reads a model from memory.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, label: String, bytes: Vec<u8>, options: &str) -> Result<Model> {
        Ok(py.detach(|| {
            let bytes = files::unpacked(&label, bytes)?;
            Model::new(Opened::Memory(Input { label, bytes }), options)
        })?)
    }

    /// The data from which another process restores a copy.
    fn state(&self, py: Python<'_>) -> Result<String> {
        let Model { label, imported, options, .. } = self;
        let (graph, format) = (&imported.graph, imported.format.entry().name);
        py.detach(|| json(&(label, format, graph, options)))
    }

    /// Restores a copy of a model from another process. Splits of the reference package that refer to node ids cannot
    /// be read for such a copy.
    #[staticmethod]
    fn restored(py: Python<'_>, state: &str) -> Result<Model> {
        Ok(py.detach(|| {
            let (label, format, graph, options): (String, String, GraphDocument, ModelOptionsDocument) =
                arguments(state)?;
            let format = Format::named(&format)
                .ok_or_else(|| Failure::new(U005, format!("unknown model format `{format}`")))?;
            Ok::<Model, Failure>(Model {
                label,
                imported: Imported { graph, format, ids: None },
                options,
                notes: Vec::new(),
            })
        })?)
    }

    #[getter]
    fn name(&self) -> &str {
        match self.imported.graph.name.as_str() {
            "" => &self.label,
            name => name,
        }
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.imported.format.entry().name
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    #[getter]
    fn operators(&self) -> Vec<&str> {
        self.imported.graph.operators.iter().map(|operator| operator.name.as_str()).collect()
    }

    #[getter]
    fn tensor_count(&self) -> usize {
        self.imported.graph.tensors.len()
    }

    /// The model as native JSON.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| write_graph(&self.imported.graph))
    }

    /// Writes the model as native JSON, atomically.
    fn save(&self, py: Python<'_>, path: PathBuf) -> Result<()> {
        let text = self.to_json(py);
        Ok(py.detach(|| files::replace(&path, |file| file.write_all(text.as_bytes())))?)
    }

    fn __len__(&self) -> usize {
        self.imported.graph.operators.len()
    }

    fn __repr__(&self) -> String {
        format!("<stagewright.Model {:?}, {} operators>", self.name(), self.__len__())
    }
}

/// Arguments of [`workload`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    variant: Option<String>,
    #[serde(default)]
    training: bool,
    optimizer: Option<String>,
    precision: Option<String>,
    granularity: Option<String>,
    batch: Option<u64>,
    sequence: Option<u64>,
    image: Option<u64>,
    hidden: Option<u64>,
    layers: Option<u64>,
    vocabulary: Option<u64>,
}

/// Looks up one of several values by name.
fn one_of<T: Copy>(argument: &str, name: &str, values: &[(&str, T)]) -> Result<T, Failure> {
    values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = values.iter().map(|(known, _)| *known).collect();
        Failure::new(U001, format!("unknown value `{name}`"))
            .at(argument)
            .help(format!("give one of {}", known.join(", ")))
    })
}

impl Workload {
    fn options(&self) -> Result<Options, Failure> {
        let given = [
            (Size::Batch, self.batch),
            (Size::Sequence, self.sequence),
            (Size::Image, self.image),
            (Size::Hidden, self.hidden),
            (Size::Layers, self.layers),
            (Size::Vocabulary, self.vocabulary),
        ];
        let mut sizes = Sizes::default();
        for (size, value) in given {
            if let Some(value) = value {
                sizes = sizes.with(size, value);
            }
        }
        let optimizer = self.optimizer.as_deref().unwrap_or(Optimizer::Adam.name());
        let optimizer = one_of("optimizer", optimizer, &Optimizer::ALL.map(|value| (value.name(), value)))?;
        let mut options =
            Options { sizes, training: self.training.then_some(optimizer), ..Options::default() };
        if let Some(name) = &self.precision {
            options.precision =
                one_of("precision", name, &Precision::ALL.map(|value| (value.name(), value)))?;
        }
        if let Some(name) = &self.granularity {
            options.granularity =
                one_of("granularity", name, &Granularity::ALL.map(|value| (value.name(), value)))?;
        }
        Ok(options)
    }
}

/// Generates the graph of a well-known model.
#[pyfunction]
pub(crate) fn workload(py: Python<'_>, name: &str, arguments: &str) -> Result<Model> {
    Ok(py.detach(|| generate(name, arguments))?)
}

/// The error of a workload, located at an argument instead of an option.
fn at_argument(error: WorkloadError) -> Failure {
    let place = error.place().to_lowercase();
    Failure::from(error).at(place.trim_start_matches("--"))
}

fn generate(name: &str, arguments: &str) -> Result<Model, Failure> {
    let given: Workload = crate::failure::arguments(arguments)?;
    let (family, options) = (family(name).map_err(at_argument)?, given.options()?);
    let graph = family.generate(given.variant.as_deref(), &options).map_err(at_argument)?;
    let imported = Imported { graph, format: Format::Native, ids: None };
    let (label, options) = (name.to_owned(), ModelOptionsDocument::default());
    Ok(Model { label, imported, options, notes: Vec::new() })
}

/// The families of [`workload`] with their variants.
#[pyfunction]
pub(crate) fn families() -> Vec<(&'static str, Vec<&'static str>)> {
    FAMILIES.iter().map(|family| (family.name(), family.variants())).collect()
}

/// Figures of a language model as JSON, and notes on its files.
#[pyfunction]
pub(crate) fn show(py: Python<'_>, path: PathBuf, options: &str) -> Result<(String, Vec<String>)> {
    let read = || {
        let options: ModelOptionsDocument = arguments(options)?;
        let mut notes = Vec::new();
        let structure = structures::structure(&path, &structures::reading(&options), &mut notes)?;
        Ok::<_, Failure>((figures(&structure, &options, place)?, notes))
    };
    let (figures, notes) = py.detach(read)?;
    Ok((json(&figures)?, notes))
}

/// Returns the cluster of a name, a shorthand or a file as JSON.
#[pyfunction]
pub(crate) fn cluster(name: &str) -> Result<String> {
    Ok(write_cluster(&cluster_of(name)?, Notation::Json))
}

/// A cluster by name, or from a file.
pub(crate) fn cluster_of(name: &str) -> Result<ClusterDocument, Failure> {
    if !name.contains(['/', '\\', '.']) && !Path::new(name).is_file() {
        return clusters::find(name).map_err(|error| Failure::from(error).at("cluster"));
    }
    let Input { label, bytes } = files::read(Path::new(name))?;
    Ok(import_cluster(&label, &bytes)?)
}

/// The script that exports PyTorch models.
#[pyfunction]
pub(crate) fn torch_exporter() -> &'static str {
    EXPORTER
}
