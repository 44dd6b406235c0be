//! Questions of every kind in one type.
//!
//! | kind | asked about | answered by |
//! | --- | --- | --- |
//! | [`Kind::Placement`] | a graph on a cluster, under an objective | a device for every operator |
//! | [`Kind::Joint`] | a training graph, or a file of Piper, with the parallelism to use | stages with degrees and configurations |
//! | [`Kind::Local`] | a GGUF file on one machine, with `local` | a command line of llama.cpp |
//! | [`Kind::LayerFlow`] | a file of nodes that may hold layers, with their rates and links | layers on nodes |
//! | [`Kind::Serving`] | a language model with `serve`, requests and limits | replicas on devices |
//! | [`Kind::Strategies`] | a file of strategies with their costs | a strategy for every node |
//!
//! [`kind`] determines which kind is meant, [`read`] turns the input into a [`Task`], and the task solves, bounds,
//! checks and explains. A new kind is a module here with an implementation of [`Task`], a variant of [`Kind`] and of
//! [`Document`], and its column in [`options`].

mod answer;
mod cluster;
mod compare;
mod document;
mod export;
pub mod flow;
pub mod joint;
pub mod local;
pub mod options;
pub mod placement;
mod request;
pub mod serving;
pub mod strategies;

use std::io::{self, Read, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stagewright_core::document::ClusterDocument;
use stagewright_core::solver::{Context, Event, Observer, Stop};
use stagewright_costs::training::{self, Log};
use stagewright_formats::strategies::HEAD;
use stagewright_formats::{is_layer_flow, is_strategies};
use stagewright_report::comparison::{Comparison, Contender};
use stagewright_report::units::seconds;
use stagewright_serving::benchmark::{self, Benchmark};

use crate::code::{U013, X001};
use crate::failure::{Failure, Result};
use crate::files::{Input, Opened};
use crate::solve::Options;
use placement::Chosen;

use answer::json;
pub use answer::{Answer, Bounds, Checked, Shown};
pub use cluster::ClusterSource;
pub use compare::{
    Contest, Entered, check_names, comparisons_csv, comparisons_json, comparisons_latex, comparisons_table,
};
pub use document::{Document, PlanFile};
pub use export::{export, has_target};
pub use local::LocalOptions;
pub use request::{
    ObjectiveOptions, ParallelOptions, Request, SelectionOptions, SolverChoice, is_same_objective,
    objective_of,
};
pub use serving::{
    ServingComparison, ServingOptions, ServingRow, serving_contenders, serving_csv, serving_json,
    serving_table,
};

/// The kind of a question, and of the plan that answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A device for every operator.
    Placement,
    /// Operators divided over devices, with degrees of parallelism by stage.
    Joint,
    /// A language model under llama.cpp on one machine.
    Local,
    /// A strategy for every node, under a memory limit.
    Strategies,
    /// Layers on nodes that serve a model together.
    LayerFlow,
    /// Replicas of a language model that engines serve.
    Serving,
}

impl Kind {
    /// Name of the question, as in "does not apply to a joint plan".
    pub fn name(self) -> &'static str {
        match self {
            Kind::Placement => "placement",
            Kind::Joint => "joint plan",
            Kind::Local => "local plan",
            Kind::Strategies => "strategy problem",
            Kind::LayerFlow => "layer flow",
            Kind::Serving => "serving plan",
        }
    }

    /// Formats a value for display: a time, a cost, or a rate.
    pub fn amount(self, value: f64) -> String {
        match self {
            Kind::Placement | Kind::Joint | Kind::Local => seconds(value),
            Kind::Strategies => format!("{value:.0}"),
            Kind::LayerFlow => format!("{value:.2} tokens/s"),
            // The unit is that of the goal, which only the plan knows.
            Kind::Serving => format!("{value:.3}"),
        }
    }
}

/// Size of a question: the number of its operators, layers or nodes, and of its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of operators, layers or nodes.
    pub parts: usize,
    /// Number of devices; `None` if the question has none, or its file states them.
    pub devices: Option<u64>,
}

/// A question that was read and can be answered.
pub trait Task: Send + Sync {
    /// The kind of the question.
    fn kind(&self) -> Kind;

    /// Size of the question.
    ///
    /// # Errors
    /// A document that is not valid.
    fn size(&self) -> Result<Size>;

    /// Reads the plan of a file for this question.
    ///
    /// # Errors
    /// If the file is no plan for the model.
    fn plan(&self, file: PlanFile<'_>) -> Result<Document>;

    /// Description of the question that a plan answers instead of this one; `None` if it answers this one.
    fn difference(&self, plan: &Document) -> Option<&'static str>;

    /// Finds a plan and a lower bound within limits.
    ///
    /// # Errors
    /// Documents that form no valid problem, a solver that does not support the problem, or a defect. Infeasibility and
    /// limits are statuses of the answer.
    fn solve(&self, session: &mut Session<'_>) -> Result<Answer>;

    /// Bounds that need no plan, and also those of a solver if one was chosen.
    ///
    /// # Errors
    /// Documents that form no valid problem, a solver that does not support the problem, or a defect.
    fn bounds(&self, session: &mut Session<'_>) -> Result<Bounds>;

    /// The strongest bound that needs no search; `None` if none has a value, or if all bounds of this kind come from a search.
    ///
    /// # Errors
    /// Documents that form no valid problem.
    fn bound_without_search(&self, _stop: &Stop) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Verifies a plan with code that is independent of the solvers.
    ///
    /// # Errors
    /// If the documents cannot be checked (codes that begin with V), or do not belong to the plan.
    fn check(&self, plan: Document, label: &str, session: &mut Session<'_>) -> Result<Checked>;

    /// A plan from a command line of a user.
    ///
    /// # Errors
    /// A kind of question that has no command line (U013), or a line that cannot be read.
    fn line(&self, _flags: &str) -> Result<Document> {
        let cause = format!("a {} has no command line", self.kind().name());
        Err(Failure::new(U013, cause).help("plan a GGUF file with `--local`"))
    }

    /// Costs that determine the value of a plan, and changes that would improve it.
    ///
    /// # Errors
    /// If the plan has no value (U008), or its value has no parts.
    fn explain(
        &self,
        plan: Document,
        label: &str,
        asked: Explaining<'_>,
        session: &mut Session<'_>,
    ) -> Result<Shown>;

    /// Requests through the replicas of a plan, event by event.
    ///
    /// # Errors
    /// A kind of question without requests (U013), a plan without replicas (U008), or arrivals that cannot be read.
    fn simulate(&self, _plan: Document, _label: &str, asked: &Simulating<'_>) -> Result<Shown> {
        let cause = format!("{} does not apply to a {}", asked.place, self.kind().name());
        Err(Failure::new(U013, cause).at(asked.place.to_owned()).help("give a serving plan"))
    }

    /// The constants of a plan's times that measurements give, as a file for the next plan: the runtime of a joint plan, or the calibration
    /// of a serving plan.
    ///
    /// # Errors
    /// A kind of question without such constants (U013), a plan under the ideal runtime, or measurements that no constants explain
    /// (U015, L026).
    fn calibrated(&self, _plan: Document, _label: &str, _measured: &Measurements) -> Result<String> {
        let cause = format!("a {} has nothing to calibrate", self.kind().name());
        Err(Failure::new(U013, cause).help("give a joint plan of a training graph, or a serving plan"))
    }

    /// A given plan as a contender, evaluated by the independent checker under the rules of the question.
    ///
    /// # Errors
    /// A file that is no plan for the model, documents that cannot be checked, or a kind of question that is not compared (U013).
    fn given(&self, _name: &str, _plan: PlanFile<'_>) -> Result<Contender> {
        Err(compare::incomparable(self.kind()))
    }

    /// The cluster of the question; `None` if it has none, or if the devices are those of the model's file.
    fn cluster(&self) -> Option<&ClusterDocument> {
        None
    }

    /// Note on a given plan of a comparison that was made for a cluster other than that of the question.
    fn made_elsewhere(&self, plan: &PlanFile<'_>) -> Option<String> {
        let (own, kept) = (self.cluster()?, plan.cluster()?);
        (!cluster::is_same(own, kept)).then(|| {
            format!(
                "{} was made for other devices, links or memory reserves, and is compared on those of the comparison",
                plan.label()
            )
        })
    }

    /// Names of the solvers and rules that a list stands for, without solving for any of them.
    ///
    /// # Errors
    /// A list that is not valid (U001, U003), or a kind of question that is not compared (U013). A solver that does not support
    /// the objective is not an error.
    fn entrants(
        &self,
        _list: &[String],
        _choice: &dyn Fn(&str) -> Result<SolverChoice>,
    ) -> Result<Vec<Entered>> {
        Err(compare::incomparable(self.kind()))
    }

    /// Compares solvers, expert rules and given plans.
    ///
    /// # Errors
    /// Those of [`Task::entrants`], or a defect of a solver. Infeasibility and limits are statuses of rows.
    fn compare(&self, _contest: Contest<'_>, _session: &mut Session<'_>) -> Result<Comparison> {
        Err(compare::incomparable(self.kind()))
    }

    /// Compares serving plans, whose values are no seconds.
    ///
    /// # Errors
    /// Errors of [`Task::entrants`], or a defect of a solver. A question of another kind is not ranked (X001).
    fn rank(&self, _contest: Contest<'_>, _session: &mut Session<'_>) -> Result<ServingComparison> {
        Err(Failure::new(X001, format!("a {} is compared by seconds", self.kind().name())))
    }

    /// Writes a page of the best plan of a comparison, with its table; nothing if there is no plan. `cluster` names the cluster
    /// if it has no name of its own.
    ///
    /// # Errors
    /// A plan whose step is not a valid problem; the inner error is that of the writer.
    fn page(
        &self,
        _comparison: &Comparison,
        _cluster: Option<&str>,
        _out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        Err(compare::incomparable(self.kind()))
    }

    /// The chosen solver; `None` if there is only one.
    fn chosen(&self) -> Option<&Chosen> {
        None
    }
}

/// Prefix of the name of a solver that is a command, which runs in another program.
pub const COMMAND: &str = "exec:";

/// Scope of an explanation.
#[derive(Debug, Clone, Copy)]
pub struct Explaining<'a> {
    /// Whether changed problems are solved.
    pub what_if: bool,
    /// Share by which the sensitivity analysis changes costs.
    pub costs_off: f64,
    /// Measurements to show beside the prediction of the plan.
    pub measured: Option<&'a Measurements>,
}

/// Measurements of what a plan predicts.
#[derive(Debug, Clone)]
pub enum Measurements {
    /// A log of training, for a joint plan.
    Training(Log),
    /// Runs of a benchmark, for a serving plan.
    Serving(Vec<Benchmark>),
}

impl Measurements {
    /// Reads the measurements that a plan of a kind can be compared with. `label` names the file in errors.
    ///
    /// # Errors
    /// If the file is no log of training (Q112), or no result of a benchmark of serving (L026).
    pub fn read(kind: Kind, label: &str, bytes: &[u8]) -> Result<Measurements> {
        Ok(match kind {
            Kind::Serving => Measurements::Serving(benchmark::read(label, bytes)?),
            _ => Measurements::Training(training::read(label, bytes)?),
        })
    }
}

/// Scope of a simulation of requests.
#[derive(Debug, Clone, Copy)]
pub struct Simulating<'a> {
    /// Arrivals: `poisson:RATE`, `closed:REQUESTS`, `bursts:REQUESTS:TIME`, or a file of requests; `None` for the load of the plan.
    pub arrivals: Option<&'a str>,
    /// Place of the arrivals in errors.
    pub place: &'a str,
    /// Seconds at the beginning that are not measured.
    pub warm_up_s: f64,
    /// Seconds that are measured.
    pub measured_s: f64,
    /// Seed of arrivals.
    pub seed: u64,
}

/// The limits of a solve, and the receiver of its events.
pub struct Session<'a> {
    /// Limits, seed, threads, interrupt, and the uncertainty of a robust plan.
    pub options: Options,
    /// Receives plans and bounds as they are found.
    pub observer: &'a mut dyn Observer,
    /// Receives notes while the answer is made, a line each.
    pub note: &'a mut dyn FnMut(&str),
    /// Returns the interrupt for the strongest bound that needs no search. A check computes this bound, for up to a
    /// minute, only if this is `Some`.
    pub strongest: Option<&'a dyn Fn() -> Arc<AtomicBool>>,
    /// Whether to search for the cause of infeasibility, which takes up to 20 s.
    pub with_diagnosis: bool,
}

impl<'a> Session<'a> {
    /// A session that computes only what is requested: without the strongest bound in a check, and without a diagnosis.
    pub fn new(options: Options, observer: &'a mut dyn Observer, note: &'a mut dyn FnMut(&str)) -> Self {
        Session { options, observer, note, strongest: None, with_diagnosis: false }
    }

    /// Reports a note.
    fn note(&mut self, line: &str) {
        (self.note)(line);
    }

    /// Reports that a part of the work starts.
    fn begin(&mut self, name: String) {
        // An interrupt ends the work by its own flag.
        let _ = self.observer.event(&Event::Phase { name });
    }

    /// The context of a solve that starts now.
    fn context(&mut self) -> Context<'_> {
        self.options.context(self.observer)
    }
}

/// The kind of a question, by the model's first bytes, the plan if there is one, and what was requested: a joint plan, a local
/// plan, a serving plan, or none of them.
pub fn kind(model: &mut Opened, plan: Option<&[u8]>, wanted: Option<Kind>) -> Kind {
    let mut head = Vec::new();
    match model {
        Opened::Memory(Input { bytes, .. }) => head.extend_from_slice(&bytes[..bytes.len().min(HEAD)]),
        Opened::File(_, file) => {
            // Errors in reading the file are ignored here: the code that reads the model reports them.
            let _unreadable = file.take(HEAD as u64).read_to_end(&mut head).and_then(|_| file.rewind());
        }
        // No strategy problem consists of several files.
        Opened::Language(_) => {}
    }
    match plan {
        _ if is_strategies(&head) => Kind::Strategies,
        _ if is_layer_flow(&head) => Kind::LayerFlow,
        Some(plan) => match document::kind(plan) {
            kind @ (Kind::Joint | Kind::Local | Kind::Serving) => kind,
            Kind::Placement | Kind::Strategies | Kind::LayerFlow => Kind::Placement,
        },
        None => wanted.unwrap_or(Kind::Placement),
    }
}

/// The kind of a plan that is read without its model.
pub fn kind_of_plan(bytes: &[u8]) -> Kind {
    document::kind(bytes)
}

/// Reads a question of a kind, with notes on its options and prices, one line each. If there is a plan, it states the
/// objective, and the request states only what differs.
///
/// # Errors
/// Options without effect on the kind (U013), and documents that are not valid.
pub fn read(
    kind: Kind,
    request: Request,
    plan: Option<&PlanFile<'_>>,
) -> Result<(Box<dyn Task>, Vec<String>)> {
    request.refuse_for(kind)?;
    Ok(match kind {
        Kind::Placement => {
            let (task, notes) = placement::Placement::read(request, plan.is_some())?;
            (Box::new(task), notes)
        }
        Kind::Joint => {
            let (task, notes) = joint::Joint::read(request, plan)?;
            (Box::new(task), notes)
        }
        Kind::Local => {
            let (task, notes) = local::Local::read(request, plan)?;
            (Box::new(task), notes)
        }
        Kind::LayerFlow => (Box::new(flow::LayerFlow::read(request, plan)?), Vec::new()),
        Kind::Serving => {
            let (task, notes) = serving::Serving::read(request, plan)?;
            (Box::new(task), notes)
        }
        Kind::Strategies => (Box::new(strategies::Strategies::read(request, plan.is_some())?), Vec::new()),
    })
}
