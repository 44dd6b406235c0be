//! The documents of a model, its cluster and its pins, read together.

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    BatchDocument, ClusterDocument, ModelOptionsDocument, PinsDocument, RuntimeDocument,
};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::{Problem, ProblemError};
use stagewright_costs::{Coverage, Unmeasured};
use stagewright_formats::nearest::nearest_three;
use stagewright_formats::{Imported, expand_pins};
use stagewright_structure::Figures;

use crate::code::U002;
use crate::failure::{Failure, Result};
use crate::reading::{self, Model};
use crate::tasks::cluster::{ClusterSummary, is_same, made_for_another};
use crate::tasks::{ClusterSource, Request};

/// The documents of a problem, with their labels in errors.
#[derive(Clone)]
pub struct Documents {
    /// The model's label.
    pub label: String,
    /// The model as imported.
    pub model: Imported,
    /// The cluster's label, or the model's if the model contains the cluster.
    pub cluster_label: String,
    /// The cluster.
    pub cluster: ClusterDocument,
    /// Where the cluster comes from.
    pub cluster_source: ClusterSource,
    /// The pins, if a file was given.
    pub pins: Option<PinsDocument>,
    /// The import options to store in a plan; `None` if all are defaults.
    pub options: Option<ModelOptionsDocument>,
    /// Sources of the operators' seconds.
    pub coverage: Coverage,
    /// Figures of a language model.
    pub figures: Option<Figures>,
}

/// The parts of a problem except its objective.
pub struct Parts {
    /// The model's label.
    pub label: String,
    /// The model.
    pub graph: Graph,
    /// The cluster.
    pub cluster: Cluster,
    /// The pins; empty if none were given.
    pub pins: PinsDocument,
}

impl Documents {
    /// Reads the documents of a request, and returns notes on them. The cluster is the given one, or else the model's own, or
    /// else the one that a plan keeps. With `is_planned`, the question is about that plan. What was not measured has the prices of
    /// `unnamed`, unless the request names others.
    ///
    /// # Errors
    /// A model that is not valid, no cluster (U002), or measurements that contradict one another.
    pub fn read(
        request: Request,
        is_planned: bool,
        unnamed: Unmeasured<'_>,
        runtime: Option<&RuntimeDocument>,
    ) -> Result<(Documents, Vec<String>)> {
        let mut notes = Vec::new();
        let Request { model, cluster, kept_cluster, pins, mut options, costs, place, .. } = request;
        let Model { label, imported: mut model, figures } = reading::model(model, &options, &mut notes)?;
        let pins = match pins {
            Some(pins) => Some(expand_pins(&place("pins"), pins, &model.graph)?),
            None => None,
        };
        let given = cluster.map(|(label, cluster)| (ClusterSource::Given, label, cluster));
        let kept = kept_cluster
            .as_ref()
            .map(|(plan, cluster)| (ClusterSource::Plan, format!("{plan}: cluster"), cluster.clone()));
        let own = model.graph.cluster.clone().map(|own| (ClusterSource::Model, label.clone(), own));
        // The model's own cluster needs no trust in the plan.
        let defaults = [own, kept];
        let found = defaults.into_iter().fold(given, Option::or);
        let Some((cluster_source, cluster_label, mut cluster)) = found else {
            let cause = "no cluster given, and the model contains none";
            let help =
                format!("give one with {}: a file, or a name such as dgx-a100 or 8xa100", place("cluster"));
            return Err(Failure::new(U002, cause).at(label).help(help));
        };
        let document = &options.document;
        let place = |name: &str| place(name);
        let coverage =
            reading::join(&label, &mut model, &mut cluster, document, costs, unnamed, &mut notes, place)?;
        reading::state_prices(&mut options.document, &coverage);
        reading::state_reserve(&model.graph, &mut cluster, runtime);
        match (cluster_source, &kept_cluster) {
            (_, Some((plan, kept))) if is_planned && !is_same(&cluster, kept) => {
                notes.push(made_for_another(plan));
            }
            (ClusterSource::Plan, Some((plan, _))) if !is_planned => {
                notes.push(format!("no cluster is given, so that of {plan} applies"));
            }
            _ => {}
        }
        let options = options.kept();
        let documents = Documents {
            label,
            model,
            cluster_label,
            cluster,
            cluster_source,
            pins,
            options,
            coverage,
            figures,
        };
        Ok((documents, notes))
    }

    /// The cluster with its source, for reports.
    pub(in crate::tasks) fn cluster_summary(&self) -> ClusterSummary {
        ClusterSummary::new(self.cluster_source, &self.cluster, &self.cluster_label)
    }

    /// The samples and tokens in a batch of the model, if known.
    pub fn batch(&self) -> Option<BatchDocument> {
        reading::batch(&self.model.graph, self.options.as_ref())
    }

    /// Validates each document.
    ///
    /// # Errors
    /// The first document that is not valid.
    pub fn parts(self) -> Result<Parts> {
        let Documents { label, model, cluster_label, cluster, pins, .. } = self;
        let graph = Graph::from_document(model.graph).map_err(|error| Failure::graph(&label, &error))?;
        let path = if cluster_label == label { format!("{label}: cluster") } else { cluster_label };
        let cluster = Cluster::from_document(cluster).map_err(|error| Failure::cluster(&path, &error))?;
        Ok(Parts { label, graph, cluster, pins: pins.unwrap_or_default() })
    }

    /// Builds the problem that the documents form under an objective.
    ///
    /// # Errors
    /// A document that is not valid, or a problem that they do not form together.
    pub fn problem(self, objective: Objective) -> Result<Problem> {
        self.parts()?.problem(objective)
    }
}

impl Parts {
    /// Builds the problem that the parts form under an objective. An error in the pins suggests the nearest names.
    ///
    /// # Errors
    /// Parts that do not form a problem together.
    pub fn problem(self, objective: Objective) -> Result<Problem> {
        let Parts { label, graph, cluster, pins } = self;
        let names = Pinnable::new(&graph, &cluster, &pins);
        Problem::pinned(graph, cluster, objective, pins).map_err(|error| names.refused(&label, &error))
    }
}

/// Names that pins may use, for suggestions in errors; empty if there are no pins.
struct Pinnable {
    operators: Vec<String>,
    places: Vec<String>,
}

impl Pinnable {
    fn new(graph: &Graph, cluster: &Cluster, pins: &PinsDocument) -> Pinnable {
        if pins.0.is_empty() {
            return Pinnable { operators: Vec::new(), places: Vec::new() };
        }
        let kinds = &cluster.document().kinds;
        let kinds = kinds.iter().flat_map(|kind| [kind.name.clone(), kind.class.clone()]);
        let devices = cluster.devices().map(|device| cluster.device_name(device));
        Pinnable {
            operators: graph.operators().map(|op| graph.operator(op).name.clone()).collect(),
            places: kinds.chain(devices).collect(),
        }
    }

    /// The error for the problem, with the nearest names if a name is unknown.
    fn refused(&self, label: &str, error: &ProblemError) -> Failure {
        let plain = Failure::problem(label, error);
        let (name, known) = match error {
            ProblemError::UnknownPinnedOperator { name } => (name, &self.operators),
            ProblemError::UnknownPinTarget { target, .. } => (target, &self.places),
            _ => return plain,
        };
        let told = nearest_three(name, known.iter().map(String::as_str)).join(", ");
        plain.help(format!("{}; the nearest names are {told}", error.help()))
    }
}
