//! Comparisons as objects: their JSON and their table for a paper.

use std::sync::Arc;

use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use stagewright::core::document::{OriginDocument, PlanStatus};
use stagewright::report::comparison::{Comparison as Compared, Run, Setting, Status};
use stagewright::tasks::{Kind, comparisons_json, comparisons_latex};
use stagewright::{portfolio, registry};

use crate::failure::{Result, arguments};
use crate::plan::Shared;
use crate::problem::Problem;

/// Comparisons of one or several models.
#[pyclass(frozen, module = "stagewright")]
pub(crate) struct Comparison {
    pub(crate) kind: Kind,
    pub(crate) models: Vec<Compared>,
}

/// The runs of all contenders on some problems.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    date: String,
    seeds: Vec<u64>,
    models: Vec<GivenModel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenModel {
    model: String,
    bound: Option<f64>,
    contenders: Vec<GivenContender>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenContender {
    name: String,
    /// Why the solver does not support the problem.
    refusal: Option<String>,
    runs: Vec<GivenRun>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenRun {
    seed: Option<u64>,
    status: String,
    value: Option<f64>,
    seconds: f64,
    reason: Option<String>,
}

impl GivenRun {
    fn run(self) -> Run {
        let status = match self.status.as_str() {
            "optimal" => Status::Solved(PlanStatus::Optimal),
            "infeasible" => Status::Solved(PlanStatus::Infeasible),
            "unknown" => Status::Solved(PlanStatus::Unknown),
            "infeasible placement" => Status::Invalid,
            "error" => Status::Failed,
            _ if self.seed.is_none() => Status::Given,
            _ => Status::Solved(PlanStatus::Feasible),
        };
        // The seconds of a given plan are those of another solve.
        let seconds = self.seed.map(|_| self.seconds);
        Run { seed: self.seed, status, value_s: self.value, seconds, reason: self.reason }
    }
}

/// The origin of a comparison that was made on a date.
pub(crate) fn origin(date: String) -> OriginDocument {
    OriginDocument { date: Some(date), ..OriginDocument::of_library() }
}

#[pymethods]
impl Comparison {
    /// The comparison of the runs on problems, in the same order.
    #[new]
    fn new(text: &str, problems: Vec<PyRef<'_, Problem>>) -> Result<Comparison> {
        let Given { date, seeds, models } = arguments(text)?;
        let compared = |(given, problem): (GivenModel, PyRef<'_, Problem>)| {
            let shared: &Arc<Shared> = &problem.inner;
            let GivenModel { model, bound, contenders } = given;
            let contenders = contenders.into_iter().map(|GivenContender { name, refusal, runs }| {
                (name, runs.into_iter().map(GivenRun::run).collect(), refusal)
            });
            let cluster = shared.problem.cluster().document();
            let setting = Setting {
                origin: Some(origin(date.clone())),
                seeds: seeds.clone(),
                ..Setting::new(cluster, shared.options.as_ref())
            };
            let compared = Compared::of_runs(&model, contenders.collect(), bound, None);
            Compared { setting, ..compared }
        };
        let models = models.into_iter().zip(problems).map(compared).collect();
        Ok(Comparison { kind: Kind::Placement, models })
    }

    /// The JSON that the program's `compare --json` prints.
    fn json(&self) -> Result<String> {
        Ok(comparisons_json(self.kind, &self.models)?)
    }

    /// The date of the comparison.
    fn date(&self) -> Option<String> {
        self.models.first()?.setting.origin.as_ref()?.date.clone()
    }

    /// Devices, options and costs of every model, as JSON.
    fn settings(&self) -> Result<String> {
        #[derive(Serialize)]
        struct Named<'a> {
            model: &'a str,
            #[serde(flatten)]
            setting: &'a Setting,
        }
        let settings =
            self.models.iter().map(|compared| Named { model: &compared.model, setting: &compared.setting });
        crate::failure::json(&settings.collect::<Vec<_>>())
    }

    /// The table of a paper.
    fn latex(&self) -> String {
        comparisons_latex(&self.models)
    }

    /// The models of this comparison, then those of another.
    fn joined(&self, other: &Comparison) -> Comparison {
        let models = self.models.iter().chain(&other.models).cloned().collect();
        Comparison { kind: self.kind, models }
    }
}

/// Whether the result of a solver on a problem depends on the seed.
#[pyfunction]
pub(crate) fn depends_on_seed(solver: &str, problem: &Problem) -> bool {
    let capabilities = match solver {
        "auto" => {
            portfolio::auto(problem.inner.problem.objective()).map(|choice| choice.solver.capabilities()).ok()
        }
        name => registry::named(name).map(|solver| solver.capabilities()),
    };
    capabilities.is_none_or(|capabilities| capabilities.depends_on_seed)
}
