//! Problems: values of placements, steps, bounds, and plans from placements.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::ThreadPool;
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};
use stagewright::bounds;
use stagewright::code::{U001, U002, X001, Z001};
use stagewright::core::cluster::Cluster;
use stagewright::core::document::{ClusterDocument, ModelOptionsDocument, ObjectiveDocument, ObjectiveKind};
use stagewright::core::evaluate::{Values, evaluate};
use stagewright::core::graph::Graph;
use stagewright::core::objective::Objective;
use stagewright::core::problem::{self, ProblemError};
use stagewright::core::simulate::{Flow, Outcome, Simulator, Template};
use stagewright::core::solver::thread_pool;
use stagewright::costs::{Unmeasured, import};
use stagewright::failure::Failure;
use stagewright::files::{self, Input};
use stagewright::formats::{expand_pins, import_cluster, import_pins};
use stagewright::reading;
use stagewright::report::step::Step;
use stagewright::report::step::document::{DeviceNames, StepDocument};

use crate::failure::{Result, arguments, json};
use crate::interrupt::interruptible;
use crate::model::{Model, cluster_of, place};
use crate::placements::{Part, Rows, check_priorities, single};
use crate::plan::{Plan, Shared};

/// A model, a cluster and an objective.
#[pyclass(frozen, module = "stagewright")]
pub(crate) struct Problem {
    pub(crate) inner: Arc<Shared>,
}

/// Arguments besides the model.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    /// Name or path of the cluster.
    cluster_name: Option<String>,
    /// A cluster document as JSON.
    cluster: Option<String>,
    /// Fields of the objective.
    objective: Map<String, Value>,
    /// A pins document as JSON.
    pins: Option<String>,
    #[serde(default)]
    costs: Vec<PathBuf>,
    /// Whether what was not measured has the prices that classes state, as in a plan whose options name no others.
    #[serde(default)]
    is_stated: bool,
    memory_reserve: Option<u64>,
}

impl Given {
    fn cluster(&self, model: &Model) -> Result<(String, ClusterDocument), Failure> {
        match (&self.cluster_name, &self.cluster, &model.imported.graph.cluster) {
            (Some(name), ..) => Ok((name.clone(), cluster_of(name)?)),
            (None, Some(text), _) => Ok(("cluster".into(), import_cluster("cluster", text.as_bytes())?)),
            (None, None, Some(own)) => Ok((model.label.clone(), own.clone())),
            (None, None, None) => Err(Failure::new(U002, "no cluster given, and the model contains none")
                .at(&model.label)
                .help("give one: a name such as dgx-a100 or 8xa100, a file, or a dictionary")),
        }
    }

    fn objective(&self, notes: &mut Vec<String>) -> Result<Objective, Failure> {
        let default = Objective::default().to_document(None);
        let mut fields = match serde_json::to_value(default) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        fields.extend(self.objective.clone());
        let mut document: ObjectiveDocument = arguments(&Value::Object(fields).to_string())?;
        notes.extend(reading::without_split(&mut document, self.objective.contains_key("split"), place));
        Objective::from_document(&document).map_err(|error| {
            let error = ProblemError::from(error);
            Failure::new(error.code(), error.to_string()).at("objective").help("correct the objective")
        })
    }

    fn problem(&self, model: &Model) -> Result<Shared, Failure> {
        let mut notes = Vec::new();
        let objective = self.objective(&mut notes)?;
        let (cluster_label, mut cluster) = self.cluster(model)?;
        let mut costs = Vec::new();
        for path in self.costs.iter().filter(|path| !Unmeasured::is_word(path)) {
            let Input { label, bytes } = files::read(path)?;
            let document = import::import(&label, &bytes, &import::Options::default())?;
            costs.push((label, document));
        }
        let mut options = ModelOptionsDocument {
            memory_reserve: self.memory_reserve,
            costs: self.costs.iter().map(|path| path.display().to_string()).collect(),
            ..model.options.clone()
        };
        let (mut imported, label) = (model.imported.clone(), &model.label);
        let unnamed = if self.is_stated { Unmeasured::Stated } else { Unmeasured::learned() };
        let coverage =
            reading::join(label, &mut imported, &mut cluster, &options, costs, unnamed, &mut notes, place)?;
        reading::state_prices(&mut options, &coverage);
        let pins = match &self.pins {
            Some(text) => Some(expand_pins("pins", import_pins("pins", text.as_bytes())?, &imported.graph)?),
            None => None,
        };
        let batch = reading::batch(&imported.graph, Some(&options));
        let graph = Graph::from_document(imported.graph).map_err(|error| Failure::graph(label, &error))?;
        let cluster =
            Cluster::from_document(cluster).map_err(|error| Failure::cluster(&cluster_label, &error))?;
        if cluster.device_count() > usize::from(u16::MAX) + 1 {
            let cause = format!("{} devices, and an array of placements has 65536", cluster.device_count());
            return Err(Failure::new(Z001, cause).at(&cluster_label).help("give fewer devices"));
        }
        let refused = |error: ProblemError| Failure::problem(label, &error);
        let problem = problem::Problem::pinned(graph, cluster, objective, pins.clone().unwrap_or_default())
            .map_err(refused)?;
        let execution = problem.objective().execution();
        let step = problem.with_objective(Objective::Makespan { execution }).map_err(refused)?;
        Ok(Shared {
            model: if problem.graph().name().is_empty() {
                label.clone()
            } else {
                problem.graph().name().into()
            },
            cluster: match problem.cluster().document().name.as_str() {
                "" => cluster_label,
                name => name.to_owned(),
            },
            problem,
            step,
            options: (options != ModelOptionsDocument::default()).then_some(options),
            coverage,
            batch,
            pins,
            notes,
        })
    }
}

/// A thread pool, with the process that made it and its number of threads.
type Pool = (u32, usize, Arc<ThreadPool>);

/// The pool is created once, and again after a fork, which does not copy threads.
static POOL: Mutex<Option<Pool>> = Mutex::new(None);

/// The pool with a number of threads, by default one per processor.
fn pool(threads: Option<usize>) -> Result<Arc<ThreadPool>, Failure> {
    let count = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let process = std::process::id();
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, _, pool)) = pool.as_ref().filter(|(owner, size, _)| (*owner, *size) == (process, count)) {
        return Ok(pool.clone());
    }
    let made = thread_pool(count).map_err(|error| Failure::new(X001, error.to_string()))?;
    let made = Arc::new(made);
    if let Some(old) = pool.replace((process, count, made.clone()))
        && old.0 != process
    {
        // After a fork, the threads of the old pool are in the parent process and cannot be joined.
        std::mem::forget(old);
    }
    Ok(made)
}

/// Makespans by placement, and peak bytes by placement and device.
type Steps<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray2<f64>>);

#[pymethods]
impl Problem {
    #[new]
    fn new(py: Python<'_>, model: &Model, arguments: &str) -> Result<Problem> {
        let shared = py.detach(|| crate::failure::arguments::<Given>(arguments)?.problem(model))?;
        Ok(Problem { inner: Arc::new(shared) })
    }

    #[getter]
    fn model(&self) -> &str {
        &self.inner.model
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.inner.notes.clone()
    }

    #[getter]
    fn operators(&self) -> Vec<&str> {
        let graph = self.inner.problem.graph();
        graph.operators().map(|op| graph.operator(op).name.as_str()).collect()
    }

    #[getter]
    fn devices(&self) -> Vec<String> {
        let cluster = self.inner.problem.cluster();
        cluster.devices().map(|device| cluster.device_name(device)).collect()
    }

    /// The objective as JSON.
    #[getter]
    fn objective(&self) -> Result<String> {
        json(&self.inner.problem.objective().to_document(None))
    }

    /// The cluster as JSON, with its measured links and its memory reserves.
    #[getter]
    fn cluster(&self) -> Result<String> {
        json(self.inner.problem.cluster().document())
    }

    /// The strongest of all bounds that apply, in seconds, and its name.
    fn bound(&self, py: Python<'_>) -> Result<(f64, &'static str)> {
        let bound = interruptible(py, |stop| bounds::strongest(&self.inner.problem, stop))?;
        Ok((bound.value, bound.source))
    }

    /// Values of placements in seconds; infinity for those that violate a constraint.
    #[pyo3(signature = (placements, priorities=None, threads=None))]
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        placements: PyReadonlyArray2<'py, u16>,
        priorities: Option<PyReadonlyArray2<'py, f64>>,
        threads: Option<usize>,
    ) -> Result<Bound<'py, PyArray1<f64>>> {
        let problem = &self.inner.problem;
        check_priorities(problem, "priorities", priorities.is_some())?;
        let rows = Rows::new(problem, &placements, priorities.as_ref())?;
        let values = by_parts(py, threads, problem, &rows, |part| {
            let value = |values: &mut Values<'_>, index| values.of(&part.placement(problem, index));
            (0..part.count).into_par_iter().map_init(|| Values::new(problem), value).collect()
        })?;
        Ok(values.into_pyarray(py))
    }

    /// One step of each placement: makespans in seconds, and peak bytes by device.
    #[pyo3(signature = (placements, priorities=None, threads=None))]
    fn simulate<'py>(
        &self,
        py: Python<'py>,
        placements: PyReadonlyArray2<'py, u16>,
        priorities: Option<PyReadonlyArray2<'py, f64>>,
        threads: Option<usize>,
    ) -> Result<Steps<'py>> {
        let shared = &*self.inner;
        let rows = Rows::new(&shared.problem, &placements, priorities.as_ref())?;
        let devices = shared.problem.cluster().device_count();
        let graph = shared.step.graph();
        let is_of_throughput = shared.problem.objective().kind() == ObjectiveKind::Throughput;
        let order = if is_of_throughput && graph.is_version_2() { graph.work_order() } else { Vec::new() };
        let outcomes = by_parts(py, threads, &shared.step, &rows, |part| {
            let workspace = || (Simulator::new(), Template::new(&shared.step), Flow::default());
            let outcome = |(simulator, template, spare): &mut (Simulator, Template<'_>, Flow), index| {
                let placement = part.step(&shared.step, index, &order);
                let flow = template.flow_of(&placement, std::mem::take(spare));
                let timeline = simulator.run(&flow);
                let runs =
                    |op| shared.step.seconds(op, shared.step.pool_of(placement.device_of(op))).is_some();
                let makespan = if graph.operators().all(runs) { timeline.makespan() } else { f64::INFINITY };
                let outcome = Outcome { makespan, peak_bytes: timeline.peak_bytes().to_vec() };
                *spare = flow;
                outcome
            };
            (0..part.count).into_par_iter().map_init(workspace, outcome).collect()
        })?;
        let makespans: Vec<f64> = outcomes.iter().map(|outcome| outcome.makespan).collect();
        let peaks: Vec<f64> = outcomes.into_iter().flat_map(|outcome| outcome.peak_bytes).collect();
        let peaks = peaks.into_pyarray(py).reshape([rows.count, devices])?;
        Ok((makespans.into_pyarray(py), peaks))
    }

    /// The timeline of one step as JSON, in the notation of `simulate --json`.
    #[pyo3(signature = (placement, priority=None))]
    fn timeline(
        &self,
        py: Python<'_>,
        placement: PyReadonlyArray1<'_, u16>,
        priority: Option<PyReadonlyArray1<'_, f64>>,
    ) -> Result<String> {
        let shared = &*self.inner;
        let placement = single(&shared.problem, &placement, priority.as_ref())?;
        py.detach(|| {
            let placement = placement.as_step(shared.step.graph(), shared.problem.objective().kind());
            let step = Step::new(&shared.step, &placement);
            let steady = stagewright::report::steady::Steady::new(&shared.problem, &placement);
            json(&StepDocument::new(&step, &DeviceNames::new(&step), &steady))
        })
    }

    /// The constraints that a placement violates.
    #[pyo3(signature = (placement, priority=None))]
    fn violations(
        &self,
        py: Python<'_>,
        placement: PyReadonlyArray1<'_, u16>,
        priority: Option<PyReadonlyArray1<'_, f64>>,
    ) -> Result<Vec<String>> {
        let problem = &self.inner.problem;
        check_priorities(problem, "priority", priority.is_some())?;
        let placement = single(problem, &placement, priority.as_ref())?;
        Ok(py.detach(|| evaluate(problem, &placement).violations.iter().map(ToString::to_string).collect()))
    }

    /// A plan from a placement, with the strongest of all bounds that apply.
    #[pyo3(signature = (placement, priority=None, solver="given", seconds=0.0))]
    fn place(
        &self,
        py: Python<'_>,
        placement: PyReadonlyArray1<'_, u16>,
        priority: Option<PyReadonlyArray1<'_, f64>>,
        solver: &str,
        seconds: f64,
    ) -> Result<Plan> {
        check_priorities(&self.inner.problem, "priority", priority.is_some())?;
        if !(0.0..=f64::MAX).contains(&seconds) {
            let failure = Failure::new(U001, format!("{seconds} seconds")).at("seconds");
            return Err(failure.help("give a finite number from 0").into());
        }
        let placement = single(&self.inner.problem, &placement, priority.as_ref())?;
        let of_problem = self.inner.clone();
        Ok(interruptible(py, |stop| Plan::from_placement(of_problem, placement, solver, seconds, stop))??)
    }

    /// A plan from a file: a plan document, a split of the reference package, or a device for every operator.
    fn read_plan(&self, py: Python<'_>, path: PathBuf, model: &Model) -> Result<Plan> {
        let Input { label, bytes } = files::read(&path)?;
        Ok(interruptible(py, |stop| Plan::read(self.inner.clone(), &label, &bytes, &model.imported, stop))??)
    }

    /// A plan from text, in the same notations.
    fn plan_of_text(&self, py: Python<'_>, text: &str, model: &Model) -> Result<Plan> {
        let of_problem = self.inner.clone();
        Ok(interruptible(py, |stop| Plan::read(of_problem, "plan", text.as_bytes(), &model.imported, stop))??)
    }

    /// The problem as arrays.
    fn arrays<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        crate::arrays::arrays(py, &self.inner.problem)
    }

    fn __repr__(&self) -> String {
        let problem = &self.inner.problem;
        format!(
            "<stagewright.Problem {:?} on {:?}, {} operators, {} devices, {}>",
            self.inner.model,
            self.inner.cluster,
            problem.graph().operator_count(),
            problem.cluster().device_count(),
            problem.objective().kind().name()
        )
    }
}

/// Computes the results of all rows, one part at a time. Signals are checked between parts, so that Ctrl-C ends the
/// computation.
fn by_parts<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    problem: &problem::Problem,
    rows: &Rows<'_>,
    work: impl Fn(&Part) -> Vec<T> + Sync,
) -> Result<Vec<T>> {
    // Number of rows that take about a tenth of a second.
    let size = (2_000_000 / problem.graph().operator_count().max(1)).max(64);
    let pool = pool(threads)?;
    let mut results = Vec::with_capacity(rows.count);
    while results.len() < rows.count {
        let part = rows.part(problem, results.len()..rows.count.min(results.len() + size))?;
        results.extend(py.detach(|| pool.install(|| work(&part))));
        py.check_signals()?;
    }
    Ok(results)
}

/// Checks a plan against a problem, which may differ from the one that the plan was made for.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, problem: &Problem, plan: &Plan) -> Result<String> {
    py.detach(|| problem.inner.check(&plan.document))
}
