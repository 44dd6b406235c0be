//! Training graphs of the models of published runs.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use serde_json::json;
use stagewright_core::document::{ClassDocument, ClusterDocument, GraphDocument, Schedule, devices};
use stagewright_formats::layers::layer_names;
use stagewright_joint::iteration::{Problem, Request};
use stagewright_structure::{SCHEMA, read_structure};
use stagewright_workloads::Optimizer;
use stagewright_workloads::language::{LanguageOptions, Phase, graph};

/// Widths of a language model whose layers are all alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Model {
    pub(crate) layers: u64,
    pub(crate) hidden: u64,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    /// Inner width of a feed-forward block, or of an expert.
    pub(crate) inner: u64,
    pub(crate) is_gated: bool,
    pub(crate) vocabulary: u64,
    pub(crate) is_tied: bool,
    /// Experts of a layer; 0 of a dense model.
    pub(crate) experts: u64,
    /// Experts of a token.
    pub(crate) active: u64,
}

impl Model {
    /// A dense model with gated blocks, keys of every head and a head of its own.
    pub(crate) fn llama(layers: u64, hidden: u64, heads: u64, inner: u64, vocabulary: u64) -> Model {
        Model {
            layers,
            hidden,
            heads,
            kv_heads: heads,
            inner,
            is_gated: true,
            vocabulary,
            is_tied: false,
            experts: 0,
            active: 0,
        }
    }

    /// The model as a document of a structure.
    fn structure(&self) -> String {
        let width = self.hidden.checked_div(self.heads).unwrap_or(0);
        let rotary = if self.is_gated { width } else { 0 };
        let mut layer = json!({
            "mixer": {
                "kind": "attention", "heads": self.heads, "kv_heads": self.kv_heads,
                "key": width, "value": width, "rotary": rotary,
            },
            "norms": 2,
        });
        if self.experts > 0 {
            layer["mixture"] = json!({
                "experts": self.experts, "active": self.active, "inner": self.inner, "gated": self.is_gated,
            });
        } else {
            layer["dense"] = json!({ "inner": self.inner, "gated": self.is_gated });
        }
        let structure = json!({
            "schema": SCHEMA, "name": "published", "architecture": "llama",
            "hidden": self.hidden, "vocabulary": self.vocabulary,
            "norm": if self.is_gated { "rms" } else { "layer" },
            "layers": vec![layer; self.layers as usize], "final_norm": true, "head": { "tied": self.is_tied },
        });
        structure.to_string()
    }
}

/// A graph that runs need.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Drawn {
    pub(crate) model: Model,
    pub(crate) sequence: u64,
    /// Whether products of layers run in 8 bits.
    pub(crate) is_fp8: bool,
}

/// A training graph with its layers in forward order, and whether each is numbered.
#[derive(Debug)]
pub(crate) struct Drawing {
    pub(crate) graph: GraphDocument,
    pub(crate) layers: Vec<(String, bool)>,
}

/// Draws a training graph.
///
/// # Errors
/// A reason, if the sizes make no model.
pub(crate) fn draw(drawn: &Drawn) -> Result<Arc<Drawing>, String> {
    let Model { layers, hidden, heads, .. } = drawn.model;
    if layers > 1000 || !hidden.is_multiple_of(heads) {
        return Err("heads do not divide the hidden width".into());
    }
    let structure =
        read_structure("model", drawn.model.structure().as_bytes()).map_err(|error| error.to_string())?;
    let structure = structure.ok_or("the model is no structure")?;
    let options = LanguageOptions {
        phase: Phase::Training(Optimizer::Adam),
        sequence: drawn.sequence,
        expert_group: NonZeroU64::MAX,
        fp8_products: drawn.is_fp8,
        ..LanguageOptions::default()
    };
    let graph = graph(&structure, &options).map_err(|error| error.to_string())?;
    let names = layer_names(&graph);
    let layers = in_order(&graph, &names)?;
    Ok(Arc::new(Drawing { graph, layers }))
}

/// Layers in the order of the forward pass.
fn in_order(graph: &GraphDocument, names: &[Option<(String, bool)>]) -> Result<Vec<(String, bool)>, String> {
    let numbered: BTreeMap<&str, bool> =
        names.iter().flatten().map(|(name, is_numbered)| (name.as_str(), *is_numbered)).collect();
    // Layers do not depend on the devices.
    let mut cluster = ClusterDocument::new("any");
    let any =
        ClassDocument { peak_flops: Some(1.0), memory_bandwidth: Some(1.0), ..ClassDocument::default() };
    cluster.classes.insert("any".into(), any);
    cluster.kinds.push(devices("any", 1).memory(1.0).link(1.0, 0.0));
    let schedules = vec![Schedule::OneFOneB];
    let request = Request {
        parallel: BTreeMap::new(),
        global_batch: 1,
        microbatch: None,
        schedules,
        chunks: None,
        cut: None,
        runtime: None,
    };
    let problem = Problem::new(graph, names, &cluster, request).map_err(|error| error.to_string())?;
    let layers = problem.layers().into_iter();
    Ok(layers.map(|(name, _)| (name.to_owned(), numbered.get(name).copied().unwrap_or(false))).collect())
}
