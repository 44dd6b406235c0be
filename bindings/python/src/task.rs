//! Questions of every kind: placements, joint plans and strategy problems.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};
use stagewright::code::{U001, U002, X001};
use stagewright::core::code::Code;
use stagewright::core::document::ModelOptionsDocument;
use stagewright::core::solver::{Observer, Silent};
use stagewright::core::stop::Stop;
use stagewright::costs::{Unmeasured, import};
use stagewright::failure::Failure;
use stagewright::files::{self, Input};
use stagewright::formats::import_pins;
use stagewright::reading::{ModelOptions, Place};
use stagewright::report::convergence::Convergence;
use stagewright::tasks::options::{self, Group, read};
use stagewright::tasks::{
    self, Answer, Contest, Explaining, Kind, Measurements, ObjectiveOptions, PlanFile, Request,
    SelectionOptions, ServingOptions, Session, SolverChoice, check_names,
};
use stagewright::{Options, reading};

use crate::comparison::{Comparison, origin};
use crate::failure::{Result, arguments};
use crate::interrupt::{interruptible, until_interrupted};
use crate::model::{cluster_of, place};

/// A model and the question about it.
#[pyclass(frozen, module = "stagewright")]
pub(crate) struct Task {
    asked: Arc<Asked>,
    kind: Kind,
    notes: Vec<String>,
}

/// The arguments of a question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    model: PathBuf,
    cluster: Option<String>,
    /// A pins document as JSON.
    pins: Option<String>,
    #[serde(default)]
    costs: Vec<PathBuf>,
    #[serde(default)]
    options: Map<String, Value>,
    /// Options of the objective and of joint plans by name.
    given: Map<String, Value>,
    solver: String,
}

/// The limits of an answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    time_limit: Option<f64>,
    gap: f64,
    seed: u64,
    threads: Option<usize>,
}

impl Limits {
    /// The options for a question of a kind.
    fn options(&self, kind: Kind) -> Result<Options, Failure> {
        // A seed of 0 is the default.
        let given = [("seed", self.seed != 0), ("threads", self.threads.is_some())];
        refuse(kind, given)?;
        if !(0.0..1.0).contains(&self.gap) {
            let cause = format!("the gap is {}", self.gap);
            return Err(Failure::new(U001, cause).at("gap").help("give a share such as 0.01"));
        }
        let time = match self.time_limit {
            None => None,
            Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|_| {
                Failure::new(U001, format!("{seconds} seconds"))
                    .at("time_limit")
                    .help("give a positive number, or None")
            })?),
        };
        let options = Options::default().time_limit(time).gap(self.gap).seed(self.seed);
        match self.threads {
            Some(0) => Err(Failure::new(U001, "0 threads").at("threads").help("give at least 1")),
            Some(threads) => Ok(options.threads(threads)),
            None => Ok(options),
        }
    }
}

impl Asked {
    fn request(&self) -> Result<Request, Failure> {
        let mut document: ModelOptionsDocument = arguments(&Value::Object(self.options.clone()).to_string())?;
        document.costs = self.costs.iter().map(|path| path.display().to_string()).collect();
        let (mut costs, mut benches) = (Vec::new(), Vec::new());
        for path in self.costs.iter().filter(|path| !Unmeasured::is_word(path)) {
            let input = files::read(path)?;
            if self.is_local() {
                benches.push(input);
                continue;
            }
            let Input { label, bytes } = input;
            costs.push((label.clone(), import::import(&label, &bytes, &import::Options::default())?));
        }
        let inputs = [
            ("cluster", self.cluster.is_some()),
            ("pins", self.pins.is_some()),
            ("costs", !self.costs.is_empty()),
        ];
        let inputs = inputs.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name.to_owned());
        let given = inputs.chain(self.given.keys().cloned()).collect();
        let place: Place = Arc::new(place);
        Ok(Request {
            model: reading::open(&self.model)?,
            cluster: match &self.cluster {
                Some(name) => Some((name.clone(), cluster_of(name)?)),
                None => None,
            },
            kept_cluster: None,
            pins: match &self.pins {
                Some(text) => Some(import_pins("pins", text.as_bytes())?),
                None => None,
            },
            options: ModelOptions {
                document,
                given: self.options.keys().cloned().collect(),
                place: place.clone(),
            },
            costs,
            objective: read(self.of(Group::Objective), &place)?,
            selection: read(self.of(Group::Selection), &place)?,
            parallel: self.is_joint().then(|| read(self.of(Group::Joint), &place)).transpose()?,
            local: self.is_local().then(|| read(self.of(Group::Local), &place)).transpose()?,
            serving: self.is_serving().then(|| self.serving(&place)).transpose()?,
            benches,
            start: self.start()?,
            solver: match self.solver.as_str() {
                "auto" => SolverChoice::Auto,
                name => SolverChoice::Named(name.into()),
            },
            given,
            is_stated: false,
            place,
        })
    }

    /// Whether a joint plan is requested.
    fn is_joint(&self) -> bool {
        self.given.contains_key("parallel")
    }

    /// Whether a local plan is requested.
    fn is_local(&self) -> bool {
        self.given.contains_key("local")
    }

    /// Whether a serving plan is requested.
    fn is_serving(&self) -> bool {
        self.given.contains_key("serve")
    }

    /// The plan that runs before a serving plan.
    fn start(&self) -> Result<Option<files::Input>, Failure> {
        let path = self.given.get("start").and_then(Value::as_str).filter(|_| self.is_serving());
        path.map(|path| files::read(path.as_ref())).transpose()
    }

    /// The options of a serving plan, which has goal and output in common with local plans.
    fn serving(&self, place: &Place) -> Result<ServingOptions, Failure> {
        let mut given = self.of(Group::Serving);
        let shared = self.of(Group::Local).into_iter().filter(|(name, _)| name == "goal" || name == "output");
        given.extend(shared);
        read(given, place)
    }

    /// The given options of a group.
    fn of(&self, group: Group) -> Map<String, Value> {
        let is_of_group = |name: &str| options::option(name).is_some_and(|option| option.group == group);
        self.given
            .iter()
            .filter(|(name, _)| is_of_group(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// The kind of the question.
    fn kind(&self) -> Result<Kind, Failure> {
        let wanted = match () {
            () if self.is_local() => Some(Kind::Local),
            () if self.is_serving() => Some(Kind::Serving),
            () if self.is_joint() => Some(Kind::Joint),
            () => None,
        };
        Ok(tasks::kind(&mut reading::open(&self.model)?, None, wanted))
    }
}

/// Refuses arguments that are given and have no effect on questions of a kind.
fn refuse<const N: usize>(kind: Kind, given: [(&str, bool); N]) -> Result<(), Failure> {
    let names = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
    options::refuse(kind, names, &(Arc::new(place) as Place))
}

/// Runs `work` with a session under limits. Also returns the notes.
fn within<T>(
    options: Options,
    work: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
) -> Result<(T, Vec<String>), Failure> {
    let mut notes = Vec::new();
    let note = &mut |line: &str| notes.push(line.to_owned());
    let observer = &mut Silent;
    let session = Session::new(options, observer, note);
    let done = work(&mut Session { with_diagnosis: true, ..session })?;
    Ok((done, notes))
}

/// Runs work that an interrupt ends without a result.
fn unless_interrupted<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T> {
    match until_interrupted(py, work)? {
        (_, true) => Err(PyKeyboardInterrupt::new_err(()).into()),
        (done, false) => Ok(done),
    }
}

/// Reads measurements for a plan of a kind.
fn measurements(kind: Kind, path: &Path) -> Result<Measurements, Failure> {
    let Input { label, bytes } = files::read(path)?;
    Measurements::read(kind, &label, &bytes)
}

#[pymethods]
impl Task {
    #[new]
    fn new(py: Python<'_>, text: &str) -> Result<Task> {
        let read = || {
            let asked: Asked = arguments(text)?;
            let kind = asked.kind()?;
            // Inputs are read here once, so that unreadable ones are refused where they are given.
            let notes = match tasks::read(kind, asked.request()?, None) {
                Ok((_, notes)) => notes,
                // Plans keep their cluster, so questions about them need none.
                Err(error) if error.code() == Code::from(U002) => Vec::new(),
                Err(error) => return Err(error),
            };
            Ok::<Task, Failure>(Task { asked: Arc::new(asked), kind, notes })
        };
        Ok(interruptible(py, |_| read())??)
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.kind.name()
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Finds a plan and a bound.
    fn solve(&self, py: Python<'_>, limits: &str) -> Result<TaskAnswer> {
        let options = arguments::<Limits>(limits)?.options(self.kind)?;
        let (asked, kind) = (self.asked.clone(), self.kind);
        let (solved, _) = until_interrupted(py, move |interrupt| {
            let (task, _) = tasks::read(kind, asked.request()?, None)?;
            within(options.interrupt(interrupt), |session| task.solve(session))
        })?;
        let (answer, notes) = solved?;
        let cluster = self.asked.cluster.clone();
        Ok(TaskAnswer { answer, cluster, notes })
    }

    /// Computes bounds without a plan, as the JSON that the program's `bound --json` prints.
    fn bounds(&self, py: Python<'_>, limits: &str) -> Result<String> {
        let options = arguments::<Limits>(limits)?.options(self.kind)?;
        let (asked, kind) = (self.asked.clone(), self.kind);
        let found = unless_interrupted(py, move |interrupt| {
            let mut request = asked.request()?;
            request.solver = SolverChoice::None;
            let (task, _) = tasks::read(kind, request, None)?;
            within(options.interrupt(interrupt), |session| task.bounds(session))
        })?;
        Ok(found?.0.shown.json().to_owned())
    }

    /// Verifies a plan. Returns the report as the JSON that the program's `check --json` prints.
    fn check(&self, py: Python<'_>, plan: String) -> Result<String> {
        let asked = self.asked.clone();
        let kind = self.kind;
        let checked = unless_interrupted(py, move |interrupt| {
            let file = PlanFile::read(kind, "plan", plan.as_bytes())?;
            let (task, _) = tasks::read(kind, asked.planned(&file)?, Some(&file))?;
            let plan = task.plan(file)?;
            within(Options::default().interrupt(interrupt), |session| task.check(plan, "plan", session))
        })?;
        Ok(checked?.0.shown.json().to_owned())
    }

    /// Explains a plan. Returns the explanation as the JSON that the program's `explain --json` prints.
    fn explain(
        &self,
        py: Python<'_>,
        plan: String,
        measured: Option<PathBuf>,
        limits: &str,
    ) -> Result<String> {
        let options = arguments::<Limits>(limits)?.options(self.kind)?;
        let (asked, kind) = (self.asked.clone(), self.kind);
        let explained = unless_interrupted(py, move |interrupt| {
            let file = PlanFile::read(kind, "plan", plan.as_bytes())?;
            let (task, _) = tasks::read(kind, asked.planned(&file)?, Some(&file))?;
            let plan = task.plan(file)?;
            let measured = measured.map(|path| measurements(kind, &path)).transpose()?;
            let how_far = Explaining { what_if: true, costs_off: 0.1, measured: measured.as_ref() };
            within(options.interrupt(interrupt), |session| task.explain(plan, "plan", how_far, session))
        })?;
        Ok(explained?.0.json().to_owned())
    }

    /// Fits the constants of a plan to measurements. Returns what the program's `explain --calibrate` writes.
    fn calibrated(&self, py: Python<'_>, plan: String, measured: PathBuf) -> Result<String> {
        let (asked, kind) = (self.asked.clone(), self.kind);
        let fit = move |_: &Stop| {
            let file = PlanFile::read(kind, "plan", plan.as_bytes())?;
            let (task, _) = tasks::read(kind, asked.planned(&file)?, Some(&file))?;
            task.calibrated(task.plan(file)?, "plan", &measurements(kind, &measured)?)
        };
        Ok(interruptible(py, fit)??)
    }

    /// Compares solvers, expert rules and given plans.
    #[pyo3(signature = (limits, solvers, plans, baseline, seeds, date))]
    #[expect(clippy::too_many_arguments, reason = "the wrapper in Python names them")]
    fn compare(
        &self,
        py: Python<'_>,
        limits: &str,
        solvers: Vec<String>,
        plans: Vec<(String, String)>,
        baseline: Option<String>,
        seeds: Vec<u64>,
        date: String,
    ) -> Result<Comparison> {
        let options = arguments::<Limits>(limits)?.options(self.kind)?;
        refuse(self.kind, [("seeds", seeds[..] != [0])])?;
        let (asked, kind) = (self.asked.clone(), self.kind);
        let compared = unless_interrupted(py, move |interrupt| {
            // The options stored in the first plan are the defaults, as in the program.
            let first = plans.first().map(|(name, plan)| PlanFile::read(kind, name, plan.as_bytes()));
            let mut request = asked.with_options_of(first.transpose()?.as_ref())?;
            request.solver = SolverChoice::None;
            let place = request.place.clone();
            let model =
                asked.model.file_stem().map_or("model".into(), |stem| stem.to_string_lossy().into_owned());
            let (task, _) = tasks::read(kind, request, None)?;
            let given = plans
                .iter()
                .map(|(name, plan)| task.given(name, PlanFile::read(kind, name, plan.as_bytes())?));
            let given = given.collect::<Result<_, Failure>>()?;
            let choice = |name: &str| {
                Ok(if name == "auto" { SolverChoice::Auto } else { SolverChoice::Named(name.into()) })
            };
            let names: Vec<&str> = plans.iter().map(|(name, _)| name.as_str()).collect();
            check_names(task.entrants(&solvers, &choice)?, &names, baseline.as_deref(), &place)?;
            let silent = |_: &str, _: u64| -> Box<dyn Observer> { Box::new(Silent) };
            let contest = Contest {
                model: &model,
                solvers: &solvers,
                choice: &choice,
                given,
                baseline: baseline.as_deref(),
                seeds: &seeds,
                recorded_s: None,
                origin: origin(date),
                observer: &silent,
            };
            within(options.interrupt(interrupt), |session| task.compare(contest, session))
        })?;
        Ok(Comparison { kind, models: vec![compared?.0] })
    }
}

impl Asked {
    /// The request, with the options and the cluster stored in a plan as defaults, as in the program.
    fn with_options_of(&self, plan: Option<&PlanFile<'_>>) -> Result<Request, Failure> {
        let mut request = self.request()?;
        if let Some(Ok(Value::Object(mut kept))) = plan.and_then(PlanFile::options).map(serde_json::to_value)
        {
            kept.extend(self.options.clone());
            request.options.document = arguments(&Value::Object(kept).to_string())?;
        }
        request.kept_cluster =
            plan.and_then(PlanFile::cluster).map(|cluster| ("plan".into(), cluster.clone()));
        Ok(request)
    }

    /// The request for a plan, which itself states its objective and its parallelism.
    fn planned(&self, plan: &PlanFile<'_>) -> Result<Request, Failure> {
        let mut request = self.with_options_of(Some(plan))?;
        request.solver = SolverChoice::None;
        request.objective = ObjectiveOptions::default();
        request.selection = SelectionOptions::default();
        request.parallel = None;
        request.given.retain(|name| ["cluster", "pins", "costs"].contains(&name.as_str()));
        Ok(request)
    }
}

/// The plan that answers a question.
#[pyclass(frozen, module = "stagewright")]
pub(crate) struct TaskAnswer {
    answer: Answer,
    cluster: Option<String>,
    notes: Vec<String>,
}

#[pymethods]
impl TaskAnswer {
    #[getter]
    fn status(&self) -> &'static str {
        self.answer.document.status().name()
    }

    #[getter]
    fn value(&self) -> Option<f64> {
        self.answer.document.value()
    }

    #[getter]
    fn bound(&self) -> Option<f64> {
        self.answer.document.bound()
    }

    #[getter]
    fn gap(&self) -> Option<f64> {
        self.answer.document.gap()
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// The plan document.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.answer.document.json())
    }

    /// The table that the program prints.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| self.answer.text(None))
    }

    /// Writes the page of the plan.
    fn save_html(&self, py: Python<'_>, path: PathBuf) -> Result<()> {
        Ok(py.detach(|| page(&self.answer, self.cluster.as_deref(), &path))?)
    }
}

/// Writes the page of a plan to a file.
fn page(answer: &Answer, cluster: Option<&str>, path: &Path) -> Result<(), Failure> {
    let mut text = Vec::new();
    let written = answer.html(cluster, &Convergence::default(), &mut text)?;
    written.map_err(|error| Failure::new(X001, format!("cannot write the page: {error}")))?;
    files::replace(path, |file| file.write_all(&text))
}
