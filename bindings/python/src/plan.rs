//! Plans: figures, documents, reports, exports.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use stagewright::bounds;
use stagewright::calls::assign_calls;
use stagewright::code::Z003;
use stagewright::core::document::{
    BatchDocument, ModelOptionsDocument, ObjectiveDocument, PinsDocument, PlanDocument,
};
use stagewright::core::placement::Placement;
use stagewright::core::problem::Problem;
use stagewright::core::solver::{self, Solution, Status, Stop};
use stagewright::core::tolerance;
use stagewright::costs::Coverage;
use stagewright::export::{ExportError, Placed, TARGETS, target};
use stagewright::failure::Failure;
use stagewright::files::{self, Input};
use stagewright::formats::{Imported, PlanFile, write_plan};
use stagewright::reading::sources;
use stagewright::report::convergence::Convergence;
use stagewright::report::document::{Provenance, plan_document};
use stagewright::report::html::{self, Page};
use stagewright::report::step::Step;
use stagewright::report::table;
use stagewright::report::throughput::throughput;

use crate::check::report;
use crate::failure::{Result, json};

/// The parts of a problem that its plans need.
pub(crate) struct Shared {
    pub(crate) problem: Problem,
    /// The problem of one step, whatever the objective.
    pub(crate) step: Problem,
    pub(crate) model: String,
    pub(crate) cluster: String,
    pub(crate) options: Option<ModelOptionsDocument>,
    pub(crate) coverage: Coverage,
    pub(crate) batch: Option<BatchDocument>,
    /// The pins that apply in addition to those of a plan.
    pub(crate) pins: Option<PinsDocument>,
    pub(crate) notes: Vec<String>,
}

impl Shared {
    /// Report of the independent checker on a plan, as JSON.
    pub(crate) fn check(&self, plan: &PlanDocument) -> Result<String> {
        json(&report(&self.problem, &self.model, self.pins.as_ref(), plan)?)
    }
}

/// A placement with its value and a bound, or the reason why there is no placement.
#[pyclass(frozen, module = "stagewright")]
pub(crate) struct Plan {
    pub(crate) shared: Arc<Shared>,
    pub(crate) document: PlanDocument,
    placement: Option<Placement>,
    convergence: Convergence,
}

impl Plan {
    /// The plan of a solution.
    pub(crate) fn from_solution(
        shared: Arc<Shared>,
        solution: &Solution,
        provenance: Provenance,
        convergence: Convergence,
    ) -> Plan {
        let problem = &shared.problem;
        let mut document = plan_document(problem, solution, provenance);
        let placement = solution.plan.as_ref().map(|plan| plan.placement.clone());
        document.model = shared.options.clone();
        document.sources =
            placement.as_ref().and_then(|placement| sources(problem, placement, &shared.coverage));
        document.throughput = solution.value().and_then(|value| {
            throughput(&document.objective, value, shared.batch, problem.graph().document())
        });
        let convergence =
            convergence.with_answer(document.objective.value_s, document.bound.value_s, document.seconds);
        Plan { shared, document, placement, convergence }
    }

    /// The plan of a given placement, with the strongest of all bounds that apply.
    pub(crate) fn from_placement(
        shared: Arc<Shared>,
        placement: Placement,
        solver: &str,
        seconds: f64,
        stop: &Stop,
    ) -> Result<Plan, Failure> {
        let plan = solver::Plan::try_new(&shared.problem, placement).map_err(|violation| {
            Failure::new(Z003, violation.to_string())
                .at("placement")
                .help("`Problem.violations` lists every violation")
        })?;
        let bound = bounds::strongest(&shared.problem, stop);
        let is_optimal = tolerance::gap(plan.value(), bound.value) == 0.0;
        let solution = Solution {
            solver: "given",
            status: if is_optimal { Status::Optimal } else { Status::Feasible },
            plan: Some(plan),
            bound,
            stop: None,
            reason: None,
            statistics: Vec::new(),
        };
        let provenance = Provenance { solver: solver.into(), seconds, seed: 0 };
        Ok(Plan::from_solution(shared, &solution, provenance, Convergence::default()))
    }

    /// Reads a plan in any notation that `check` accepts.
    pub(crate) fn read(
        shared: Arc<Shared>,
        label: &str,
        bytes: &[u8],
        model: &Imported,
        stop: &Stop,
    ) -> Result<Plan, Failure> {
        let cluster = shared.problem.cluster().document();
        let file = PlanFile::read(label, bytes)?;
        let is_native = file.native().is_some();
        let mut document = file.for_model(model, Some(cluster))?;
        if !is_native {
            document.objective = shared.problem.objective().to_document(None);
        }
        assign_calls(&model.graph, cluster, &mut document);
        let convergence = Convergence::default();
        let own = ObjectiveDocument { value_s: None, ..document.objective.clone() };
        let is_for_this = own == shared.problem.objective().to_document(None);
        if document.devices.is_empty() && is_for_this {
            return Ok(Plan { shared, document, placement: None, convergence });
        }
        let placed = stagewright::placement::placement(&shared.problem, &document);
        let placement = placed.map_err(|error| Failure::placement(label, &error))?;
        // Claims made for another objective do not hold for this problem.
        if !is_native || !is_for_this {
            return Plan::from_placement(shared, placement, &document.solver, document.seconds, stop);
        }
        Ok(Plan { shared, document, placement: Some(placement), convergence })
    }
}

/// The plan document of a file, as JSON.
///
/// # Errors
/// A file that cannot be read, or that is no plan document.
#[pyfunction]
pub(crate) fn read_plan(path: PathBuf) -> Result<String> {
    let Input { label, bytes } = files::read(&path)?;
    let plan = PlanFile::read(&label, &bytes).and_then(PlanFile::alone).map_err(Failure::from)?;
    Ok(write_plan(&plan))
}

fn refused(error: &ExportError) -> Failure {
    let failure = Failure::new(error.code(), error.to_string()).help(error.help());
    match error.place() {
        Some(place) => failure.at(place),
        None => failure,
    }
}

/// An improvement: seconds since the start, and the value or bound reached.
type Moment = (f64, f64);

#[pymethods]
impl Plan {
    #[getter]
    fn status(&self) -> &'static str {
        self.document.status.name()
    }

    #[getter]
    fn value(&self) -> Option<f64> {
        self.document.objective.value_s
    }

    #[getter]
    fn bound(&self) -> Option<f64> {
        self.document.bound.value_s
    }

    #[getter]
    fn bound_source(&self) -> &str {
        &self.document.bound.source
    }

    #[getter]
    fn gap(&self) -> Option<f64> {
        self.document.gap
    }

    #[getter]
    fn solver(&self) -> &str {
        &self.document.solver
    }

    #[getter]
    fn seconds(&self) -> f64 {
        self.document.seconds
    }

    #[getter]
    fn stop(&self) -> Option<&str> {
        self.document.stop.as_deref()
    }

    #[getter]
    fn reason(&self) -> Option<&str> {
        self.document.reason.as_deref()
    }

    /// The number of the device of every operator; `None` without a placement.
    #[getter]
    fn device_of<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u16>>> {
        let placement = self.placement.as_ref()?;
        let graph = self.shared.problem.graph();
        // A problem has at most 65536 devices.
        let numbers: Vec<u16> = graph.operators().map(|op| placement.device_of(op).0 as u16).collect();
        Some(numbers.into_pyarray(py))
    }

    /// The operators by decreasing priority; `None` if the placement has none.
    #[getter]
    fn order<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u32>>> {
        let priority = self.placement.as_ref()?.priority();
        let numbers: Vec<u32> = priority.iter().map(|op| op.0).collect();
        (!numbers.is_empty()).then(|| numbers.into_pyarray(py))
    }

    /// The names of the devices in pipeline order; empty if there is no order.
    #[getter]
    fn stages(&self) -> Vec<String> {
        let cluster = self.shared.problem.cluster();
        let stages = self.placement.as_ref().map(Placement::stages).unwrap_or_default();
        stages.iter().map(|&device| cluster.device_name(device)).collect()
    }

    /// Improvements of the value and of the bound during the solve.
    #[getter]
    fn convergence(&self) -> (Vec<Moment>, Vec<Moment>) {
        let pairs = |moments: &[stagewright::report::convergence::Moment]| {
            moments.iter().map(|moment| (moment.elapsed, moment.reached)).collect()
        };
        (pairs(self.convergence.values()), pairs(self.convergence.bounds()))
    }

    /// The plan document as JSON.
    fn to_json(&self) -> String {
        write_plan(&self.document)
    }

    /// Writes the plan document, atomically.
    fn save(&self, py: Python<'_>, path: PathBuf) -> Result<()> {
        Ok(py
            .detach(|| files::replace(&path, |file| file.write_all(write_plan(&self.document).as_bytes())))?)
    }

    /// The report as a page of HTML.
    fn to_html(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let Shared { problem, step, model, cluster, .. } = &*self.shared;
            let kind = problem.objective().kind();
            let played = self.placement.as_ref().map(|placement| placement.as_step(problem.graph(), kind));
            let step = played.as_ref().map(|placement| Step::new(step, placement));
            html::page(&Page {
                model,
                cluster,
                problem,
                document: &self.document,
                placement: self.placement.as_ref(),
                step: step.as_ref(),
                convergence: Some(&self.convergence),
                comparison: None,
            })
        })
    }

    /// The plan in the notation of a runtime, and notes on the parts that the notation lacks.
    fn export(&self, py: Python<'_>, to: &str) -> Result<(String, Vec<String>)> {
        Ok(py.detach(|| {
            let problem = &self.shared.problem;
            let placed =
                Placed::new(&self.document, Some(problem.graph()), Some(problem.cluster().document()));
            let export = placed.and_then(|placed| target(to)?.export(&placed));
            export.map(|export| (export.text, export.notes)).map_err(|error| refused(&error))
        })?)
    }

    /// The claims of the plan, and the verdicts of the independent checker, as JSON.
    fn check(&self, py: Python<'_>) -> Result<String> {
        py.detach(|| self.shared.check(&self.document))
    }

    fn __str__(&self) -> String {
        table::plan(&self.document, self.shared.problem.cluster().document(), Some(100))
    }

    fn __repr__(&self) -> String {
        let value = self.value().map_or("no value".into(), |value| format!("value={value:.6e}"));
        let gap = self.gap().map_or("no gap".into(), |gap| format!("gap={gap:.4}"));
        format!("<stagewright.Plan {}, {value}, {gap}, solver={:?}>", self.status(), self.document.solver)
    }
}

/// Relative gap (value − bound) / value; zero if both are equal up to rounding.
#[pyfunction]
pub(crate) fn gap(value: f64, bound: f64) -> f64 {
    tolerance::gap(value, bound)
}

/// The runtimes that plans are exported to, with the limits of each.
#[pyfunction]
pub(crate) fn export_targets() -> Vec<(&'static str, &'static str, &'static str)> {
    TARGETS.iter().map(|target| (target.name, target.summary, target.limits)).collect()
}
