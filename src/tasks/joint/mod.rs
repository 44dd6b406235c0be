//! Joint plans: operators divided over devices, with degrees of parallelism by stage and configurations by layer.
//!
//! A question is a training graph, whose plans minimise the time of an iteration, or a Piper file, whose plans minimise
//! the time per sample of the slowest stage.

mod calibrate;
mod check;
mod explain;
mod graph;
mod layers;
mod measured;
mod parallel;
mod priced;
mod rules;
mod text;

use std::io::{self, Write};

use stagewright_core::document::{
    ClusterDocument, CostsDocument, GraphDocument, JointBoundDocument, JointObjectiveDocument,
    JointObjectiveKind, JointPartsDocument, JointPlanDocument, ModelOptionsDocument, PiperDocument,
    PlanStatus, Schedule,
};
use stagewright_core::solver::SolveError;
use stagewright_costs::{Coverage, Unmeasured};
use stagewright_formats::runtimes::write_runtime;
use stagewright_formats::{Format, Imported, import_piper, is_piper};
use stagewright_joint::iteration;
use stagewright_report::comparison::{Comparison, Contender};
use stagewright_report::convergence::Convergence;
use stagewright_report::html;
use stagewright_report::html::joint::JointPage;
use stagewright_report::joint::{JointFigures, devices};

use super::answer::{Sheet, bound_json};
use super::cluster::{ClusterSummary, is_same, made_for_another};
use super::compare::Contest;
use super::options::no_effect;
use super::{
    Answer, Bounds, Checked, ClusterSource, Document, Entered, Explaining, Kind, Measurements, PlanFile,
    Request, Session, Shown, Size, SolverChoice, Task,
};
use crate::code::{U002, X001};
use crate::failure::{Failure, Result};
use crate::files::{Input, Opened};
use crate::reading::{self, Model, ModelOptions, Place};
use graph::Graph;
use layers::Layers;
pub use rules::contenders;

/// A request for a joint plan, or the documents of an existing one.
pub struct Joint {
    question: Question,
    place: Place,
}

/// The problem to solve, or the documents of a plan.
enum Question {
    Graph(Box<Graph>),
    Layers(Box<Layers>),
    Planned(Box<Planned>),
}

/// The documents of a plan.
struct Planned {
    model: PlannedModel,
    /// The cluster of the request with its label, which replaces the plan's.
    cluster: Option<(String, ClusterDocument)>,
    options: ModelOptionsDocument,
    costs: Vec<(String, CostsDocument)>,
    place: Place,
}

/// The documents of a plan of a training graph, prepared for each other.
struct Joined {
    graph: GraphDocument,
    cluster: ClusterDocument,
    /// Sources of the operators' seconds.
    coverage: Coverage,
    notes: Vec<String>,
}

/// The model of a plan, as it was read.
enum PlannedModel {
    Graph { label: String, imported: Box<Imported> },
    Layers { label: String, document: PiperDocument },
}

impl PlannedModel {
    fn label(&self) -> &str {
        match self {
            PlannedModel::Graph { label, .. } | PlannedModel::Layers { label, .. } => label,
        }
    }
}

impl Joint {
    /// Reads a question or, if there is a plan, the documents of that plan.
    ///
    /// # Errors
    /// Options without effect (U013), an invalid list of parallelism (U001), or invalid documents.
    pub(super) fn read(request: Request, plan: Option<&PlanFile<'_>>) -> Result<(Joint, Vec<String>)> {
        let place = request.place.clone();
        if let SolverChoice::Named(_) | SolverChoice::Own(..) = request.solver {
            return Err(no_effect("solver", "a joint plan", &place));
        }
        if let Some(plan) = plan {
            let (planned, notes) = Planned::read(request, plan)?;
            return Ok((Joint { question: Question::Planned(Box::new(planned)), place }, notes));
        }
        let given = request.parallel.clone().unwrap_or_default();
        let parallel = parallel::parallel(&given.parallel, &place)?;
        let format = request.options.document.format.as_deref();
        if format.is_none_or(|format| format == Format::Piper.entry().name)
            && let Opened::Memory(input) = &request.model
            && (format.is_some() || is_piper(&input.bytes))
        {
            let layers = Layers::read(input, &request, &given, parallel)?;
            return Ok((Joint { question: Question::Layers(Box::new(layers)), place }, Vec::new()));
        }
        let (graph, notes) = Graph::read(request, &given, parallel)?;
        let notes = super::placement::as_notes(notes);
        Ok((Joint { question: Question::Graph(Box::new(graph)), place }, notes))
    }

    /// Place of an option in errors.
    fn place(&self) -> &Place {
        &self.place
    }

    /// The model of a plan.
    fn planned(&self) -> Result<&PlannedModel> {
        match &self.question {
            Question::Planned(planned) => Ok(&planned.model),
            _ => Err(planned_for_none()),
        }
    }

    /// The training graph of a plan, with its label.
    fn planned_graph(&self) -> Option<(&str, &Imported)> {
        match self.planned() {
            Ok(PlannedModel::Graph { label, imported }) => Some((label, imported)),
            _ => None,
        }
    }

    /// The cluster of the request with the memory reserve of the plan, for a file of Piper.
    fn given_devices(&self) -> Result<Option<ClusterDocument>> {
        let Question::Planned(planned) = &self.question else { return Err(planned_for_none()) };
        Ok(planned.cluster.clone().map(|(_, mut cluster)| {
            reading::reserve(&mut cluster, &planned.options);
            cluster
        }))
    }

    /// The cluster of a report about a plan, with its source; `None` if the devices are those of a file of Piper.
    fn cluster_summary(&self, plan: &JointPlanDocument) -> Option<ClusterSummary> {
        let given = match &self.question {
            Question::Planned(planned) => planned.cluster.as_ref(),
            _ => None,
        };
        match (given, &plan.cluster) {
            (Some((label, cluster)), _) => Some(ClusterSummary::new(ClusterSource::Given, cluster, label)),
            (None, Some(cluster)) => Some(ClusterSummary::new(ClusterSource::Plan, cluster, "")),
            (None, None) => None,
        }
    }

    /// The graph and the cluster of a plan, prepared for each other, with notes on the costs and on a cluster that differs from
    /// the plan's.
    fn joined(&self, imported: &Imported, plan: &JointPlanDocument, label: &str) -> Result<Joined> {
        let Question::Planned(planned) = &self.question else { return Err(planned_for_none()) };
        let given = planned.cluster.as_ref().map(|(_, cluster)| cluster);
        let Some(mut cluster) = given.or(plan.cluster.as_ref()).cloned() else {
            return Err(Failure::new(U002, "no cluster given, and the plan contains none")
                .at(label)
                .help(format!("give one with {}", self.place()("cluster"))));
        };
        let (mut imported, mut notes) = (imported.clone(), Vec::new());
        let Planned { options, costs, place, model, .. } = &**planned;
        let place = |name: &str| place(name);
        let (costs, stated) = (costs.clone(), Unmeasured::Stated);
        let label_of_model = model.label();
        let coverage = reading::join(
            label_of_model,
            &mut imported,
            &mut cluster,
            options,
            costs,
            stated,
            &mut notes,
            place,
        )?;
        reading::state_reserve(&imported.graph, &mut cluster, plan.objective.runtime.as_ref());
        if plan.cluster.as_ref().is_some_and(|kept| !is_same(&cluster, kept)) {
            notes.push(made_for_another(label));
        }
        Ok(Joined { graph: imported.graph, cluster, coverage, notes: super::placement::as_notes(notes) })
    }

    fn solved(&self, session: &mut Session<'_>) -> Result<JointPlanDocument> {
        let mut context = session.context();
        match &self.question {
            Question::Graph(graph) => graph.solve(&mut context),
            Question::Layers(layers) => layers.solve(&mut context),
            Question::Planned(_) => Err(unplanned()),
        }
    }
}

/// A note if a plan leaves some of the devices without work; hosts do not count.
fn idle(plan: &JointPlanDocument) -> Option<String> {
    let (used, all) = devices(plan);
    let idle = all?.saturating_sub(used);
    (used > 0 && idle > 0).then(|| format!("note: devices without work: {idle} of {}", used + idle))
}

/// The error of a question that was read for a plan, which has no objective of its own.
fn unplanned() -> Failure {
    Failure::new(X001, "a plan's question is the plan's own")
}

/// The error of a question that was read without a plan.
fn planned_for_none() -> Failure {
    Failure::new(X001, "the question was read for no plan")
}

impl Planned {
    fn read(request: Request, plan: &PlanFile<'_>) -> Result<(Planned, Vec<String>)> {
        if !request.objective.schedule.is_empty() {
            return Err(no_effect("schedule", "a joint plan", &request.place));
        }
        let is_of_layers = matches!(
            plan,
            PlanFile::Whole(_, Document::Joint(plan)) if plan.objective.kind == JointObjectiveKind::TimePerSample
        );
        let Request { model, cluster, options, costs, .. } = request;
        let mut notes = Vec::new();
        let model = match is_of_layers {
            true => {
                let Input { label, bytes } = model.whole()?;
                let document = import_piper(&label, &bytes)?;
                PlannedModel::Layers { label, document }
            }
            false => {
                let Model { label, imported, .. } = reading::model(model, &options, &mut notes)?;
                PlannedModel::Graph { label, imported: Box::new(imported) }
            }
        };
        let ModelOptions { document: options, place, .. } = options;
        let planned = Planned { model, cluster, options, costs, place };
        Ok((planned, super::placement::as_notes(notes)))
    }
}

impl Task for Joint {
    fn kind(&self) -> Kind {
        Kind::Joint
    }

    fn size(&self) -> Result<Size> {
        let count = |cluster: &ClusterDocument| cluster.kinds.iter().map(|kind| u64::from(kind.count)).sum();
        let parts = match &self.question {
            Question::Graph(graph) => graph.graph.operators.len(),
            Question::Layers(layers) => layers.layer_count(),
            Question::Planned(planned) => match &planned.model {
                PlannedModel::Graph { imported, .. } => imported.graph.operators.len(),
                PlannedModel::Layers { document, .. } => document.nodes.len(),
            },
        };
        Ok(Size { parts, devices: self.cluster().map(count) })
    }

    fn cluster(&self) -> Option<&ClusterDocument> {
        match &self.question {
            Question::Graph(graph) => Some(&graph.cluster),
            Question::Layers(layers) => layers.cluster(),
            Question::Planned(planned) => planned.cluster.as_ref().map(|(_, cluster)| cluster),
        }
    }

    fn plan(&self, file: PlanFile<'_>) -> Result<Document> {
        match file {
            PlanFile::Whole(_, document) => Ok(document),
            PlanFile::Placement { label, .. } => {
                Err(Failure::new(X001, "a placement is no joint plan").at(label))
            }
        }
    }

    fn difference(&self, plan: &Document) -> Option<&'static str> {
        let (objective, options) = match &self.question {
            Question::Graph(graph) => (&graph.objective, graph.options.as_ref()),
            Question::Layers(layers) => (&layers.objective, layers.options()),
            Question::Planned(_) => return None,
        };
        let Document::Joint(plan) = plan else { return Some("the plan is for a question of another kind") };
        let asked = JointObjectiveDocument { value_s: plan.objective.value_s, ..objective.clone() };
        let is_answer = plan.objective == asked && plan.options.as_ref() == options;
        (!is_answer).then_some("the plan is for another objective or for other options")
    }

    fn solve(&self, session: &mut Session<'_>) -> Result<Answer> {
        let plan = self.solved(session)?;
        let (figures, parts) = match &self.question {
            Question::Graph(graph) => (graph.figures(), graph.parts(&plan)),
            _ => (JointFigures::default(), None),
        };
        let idle = idle(&plan);
        let mut answer = Answer::new(Document::Joint(Box::new(plan)), JointSheet { figures, parts });
        answer.hints.extend(idle);
        Ok(answer)
    }

    fn bounds(&self, session: &mut Session<'_>) -> Result<Bounds> {
        let plan = self.solved(session)?;
        let json = bound_json(&plan.bound)?;
        Ok(Bounds {
            strongest: plan.bound.value_s,
            is_infeasible: plan.status == PlanStatus::Infeasible,
            is_cut_short: plan.bound.value_s.is_none(),
            shown: Shown::new(json, move |width| text::bound(&plan, width)),
        })
    }

    fn check(&self, plan: Document, label: &str, session: &mut Session<'_>) -> Result<Checked> {
        check::check(self, joint(plan)?, label, session)
    }

    fn explain(
        &self,
        plan: Document,
        label: &str,
        asked: Explaining<'_>,
        session: &mut Session<'_>,
    ) -> Result<Shown> {
        explain::explain(self, joint(plan)?, label, asked, session)
    }

    fn calibrated(&self, plan: Document, label: &str, measured: &Measurements) -> Result<String> {
        match measured {
            Measurements::Training(log) => {
                calibrate::calibrate(self, joint(plan)?, label, log).map(|runtime| write_runtime(&runtime))
            }
            Measurements::Serving(_) => {
                Err(Failure::new(X001, "benchmarks of serving beside a joint plan").at(label))
            }
        }
    }

    fn given(&self, name: &str, plan: PlanFile<'_>) -> Result<Contender> {
        let label = plan.label();
        rules::given(self, name, label, joint(self.plan(plan)?)?)
    }

    fn entrants(
        &self,
        list: &[String],
        _choice: &dyn Fn(&str) -> Result<SolverChoice>,
    ) -> Result<Vec<Entered>> {
        rules::entrants(self, list)
    }

    fn compare(&self, contest: Contest<'_>, session: &mut Session<'_>) -> Result<Comparison> {
        rules::compare(self, contest, session)
    }

    fn page(
        &self,
        comparison: &Comparison,
        _cluster: Option<&str>,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        rules::page(self, comparison, out)
    }
}

/// The joint plan of a document.
fn joint(plan: Document) -> Result<JointPlanDocument> {
    match plan {
        Document::Joint(plan) => Ok(*plan),
        other => Err(Failure::new(X001, format!("a plan of a {} is no joint plan", other.kind().name()))),
    }
}

/// Data besides the document that showing a joint plan needs.
struct JointSheet {
    figures: JointFigures,
    /// Times and bytes of every stage, broken down by part; `None` if the model has no parts.
    parts: Option<Vec<JointPartsDocument>>,
}

impl Sheet for JointSheet {
    fn text(&self, document: &Document, width: Option<u16>) -> String {
        match document {
            Document::Joint(plan) => text::plan(plan, self.figures, width),
            _ => String::new(),
        }
    }

    fn html(
        &self,
        document: &Document,
        _cluster: Option<&str>,
        _convergence: &Convergence,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        let Document::Joint(plan) = document else { return Ok(Ok(())) };
        let page = JointPage {
            model: &plan.model,
            cluster: plan.cluster.as_ref().map(|cluster| cluster.name.as_str()),
            document: plan,
            parts: self.parts.as_deref(),
            figures: self.figures,
            comparison: None,
        };
        Ok(html::joint::write(&page, out))
    }
}

/// Converts an objective into a request to the solver.
fn request_of(objective: &JointObjectiveDocument) -> iteration::Request {
    iteration::Request {
        parallel: objective.parallel.clone(),
        global_batch: objective.global_batch,
        microbatch: objective.microbatch,
        schedules: match objective.schedules.is_empty() {
            true => vec![Schedule::OneFOneB],
            false => objective.schedules.clone(),
        },
        chunks: objective.chunks,
        cut: objective.cut.clone(),
        runtime: objective.runtime.clone(),
    }
}

/// The error for a model, a cluster or a request that has no joint plan.
fn refused(label: &str, error: &iteration::ModelError, place: &Place) -> Failure {
    let at = match error {
        iteration::ModelError::Schedules => place("schedule"),
        iteration::ModelError::Runtime { .. } => place("runtime"),
        iteration::ModelError::Cut(_) => place("cut"),
        iteration::ModelError::Range { what: "the number of chunks", .. } => place("chunks"),
        iteration::ModelError::Range { .. }
        | iteration::ModelError::Combinations { .. }
        | iteration::ModelError::Mixed { .. } => place("parallel"),
        iteration::ModelError::Kind { .. } | iteration::ModelError::Kinds { .. } => place("cluster"),
        _ => label.to_owned(),
    };
    Failure::new(error.code(), error.to_string()).at(at).help(error.help())
}

/// The error for a failed solve.
fn failed(error: &SolveError, place: &Place) -> Failure {
    Failure::new(X001, error.to_string()).at(place("parallel"))
}

fn bound_document(value: Option<f64>, source: &str) -> JointBoundDocument {
    JointBoundDocument { value_s: value, source: if value.is_some() { source } else { "none" }.into() }
}
