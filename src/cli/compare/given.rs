//! The given plans in the comparison.

use std::path::{Path, PathBuf};

use stagewright::calls::assign_calls;
use stagewright::core::document::{BoundDocument, ModelOptionsDocument, PlanStatus};
use stagewright::core::objective::Objective;
use stagewright::formats::PlanFile;
use stagewright::nearest::instead;
use stagewright::report::comparison::Contender;
use stagewright_verify::check;

use crate::cli::error::{CliError, Result};
use crate::cli::files::{Input, read};
use crate::cli::model_options::Kept;
use crate::cli::output;
use crate::cli::resolve::Documents;

/// Placeholder for the name of a model in the path of a plan.
const MODEL: &str = "{}";

/// The plans of all models.
pub(super) struct Given {
    plans: Vec<Plan>,
}

/// One `--plan`: `[MODEL:][NAME=]FILE`.
struct Plan {
    /// The only model that it is for; `None` means any.
    model: Option<String>,
    name: String,
    path: String,
}

impl Given {
    /// Parses the arguments.
    pub(super) fn parse(typed: &[String]) -> Result<Given> {
        let plan = |text: &String| {
            let (name, path) = match text.split_once('=') {
                // A path may contain an equals sign.
                Some((name, path)) if !Path::new(text).exists() => (Some(name), path),
                _ => (None, text.as_str()),
            };
            let (model, name) = match name.and_then(|name| name.split_once(':')) {
                Some((model, name)) => (Some(model.to_owned()), Some(name)),
                None => (None, name),
            };
            if path.is_empty() || name == Some("") {
                let cause = format!("`{text}` does not name a plan");
                return Err(CliError::new("U001", cause).at("--plan").help("write [MODEL:][NAME=]FILE"));
            }
            let own = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let name = name.map(str::to_owned).or(own).unwrap_or_else(|| path.to_owned());
            Ok(Plan { model, name, path: path.to_owned() })
        };
        Ok(Given { plans: typed.iter().map(plan).collect::<Result<_, _>>()? })
    }

    /// Rejects plans for an absent model, and paths that fit no model.
    pub(super) fn fit(&self, models: &[String]) -> Result<()> {
        for plan in &self.plans {
            let unknown = plan.model.as_ref().filter(|model| !models.contains(model));
            if let Some(model) = unknown {
                return Err(CliError::new("U001", format!("`{model}` is not one of the models"))
                    .at("--plan")
                    .help(instead(model, models.iter().map(String::as_str))));
            }
            let of_any = models.iter().any(|model| plan.file(model).is_some());
            if !of_any {
                return Err(CliError::new("U001", format!("no file matches `{}`", plan.path))
                    .at("--plan")
                    .help("{} stands for the name of a model, or for what follows an underscore in it"));
            }
        }
        Ok(())
    }

    /// Paths of the plans.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.plans.iter().map(|plan| Path::new(&plan.path))
    }

    /// Names of the plans.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.plans.iter().map(|plan| plan.name.as_str())
    }

    /// Reads the files of the plans for a model.
    pub(super) fn files(&self, model: &str) -> Result<Files<'_>> {
        let mut files = Files { files: Vec::new() };
        // Plans for this model come before plans for any model.
        let own = self.plans.iter().filter(|plan| plan.model.as_deref() == Some(model));
        for plan in own.chain(self.plans.iter().filter(|plan| plan.model.is_none())) {
            let Some(path) = plan.file(model) else { continue };
            match plan.open(&path) {
                Ok(file) => files.files.push(file),
                Err(error) => plan.fails(model, error)?,
            }
        }
        Ok(files)
    }
}

/// The files of the plans for one model.
pub(super) struct Files<'a> {
    files: Vec<PlanOfModel<'a>>,
}

/// The file of a plan.
struct PlanOfModel<'a> {
    plan: &'a Plan,
    input: Input,
    /// The import options stored in it.
    options: Option<ModelOptionsDocument>,
}

impl Files<'_> {
    /// The import options of the first plan that has any. A note reports plans with different options.
    pub(super) fn kept(&self) -> Option<Kept<'_>> {
        let mut all = self
            .files
            .iter()
            .filter_map(|file| Some(Kept { label: &file.input.label, options: file.options.as_ref()? }));
        let first = all.next()?;
        for other in all.filter(|other| other.options != first.options) {
            output::note(&format!(
                "note: {} and {} were made with different options of the model; those of the first apply",
                first.label, other.label
            ));
        }
        Some(first)
    }

    /// Evaluates the plans with the independent checker, under the rules of the comparison.
    pub(super) fn contenders(
        self,
        model: &str,
        documents: &Documents,
        objective: &Objective,
    ) -> Result<Vec<Contender>> {
        let mut found: Vec<Contender> = Vec::new();
        for file in self.files {
            if found.iter().any(|contender| contender.name == file.plan.name) {
                continue;
            }
            match file.valued(documents, objective) {
                Ok(contender) => found.push(contender),
                Err(error) => file.plan.fails(model, error)?,
            }
        }
        Ok(found)
    }
}

impl Plan {
    /// Whether its path has a placeholder for the model's name.
    fn is_pattern(&self) -> bool {
        self.path.contains(MODEL)
    }

    /// Its file for a model. A placeholder in the path stands for the model's name or, if there is no such file, for
    /// the longest part of it after an underscore that gives one; `None` if no such file exists.
    fn file(&self, model: &str) -> Option<PathBuf> {
        if !self.is_pattern() {
            return Some(self.path.clone().into());
        }
        let later = model.match_indices('_').map(|(at, _)| &model[at + 1..]);
        std::iter::once(model)
            .chain(later)
            .map(|name| PathBuf::from(self.path.replace(MODEL, name)))
            .find(|path| path.exists())
    }

    fn open(&self, path: &Path) -> Result<PlanOfModel<'_>> {
        let input = read(path)?;
        let options =
            PlanFile::read(&input.label, &input.bytes)?.native().and_then(|plan| plan.model.clone());
        Ok(PlanOfModel { plan: self, input, options })
    }

    /// Handles a plan that cannot be read or evaluated: an error, or only a note if its path is a pattern, since a file
    /// that matches by name may not fit the model.
    fn fails(&self, model: &str, error: CliError) -> Result<()> {
        if !self.is_pattern() {
            return Err(error);
        }
        output::note(&format!("{model}: the plan `{}` does not fit:", self.name));
        output::error(&error);
        Ok(())
    }
}

impl PlanOfModel<'_> {
    fn valued(&self, documents: &Documents, objective: &Objective) -> Result<Contender> {
        let Input { label, bytes } = &self.input;
        let mut plan = PlanFile::read(label, bytes)?.for_model(&documents.model, Some(&documents.cluster))?;
        // Only the placement counts: the value that the plan claims was under its own rules.
        plan.objective = objective.to_document(None);
        plan.status = PlanStatus::Feasible;
        plan.bound = BoundDocument { value_s: None, source: "none".into(), certificate: None };
        plan.gap = None;
        plan.pins = documents.pins.clone().unwrap_or_default();
        let (graph, cluster) = (&documents.model.graph, &documents.cluster);
        assign_calls(graph, cluster, &mut plan);
        let report = check(graph, cluster, documents.pins.as_ref(), &plan).map_err(|error| {
            CliError::new(&format!("V:{}", error.code()), error.to_string())
                .at(label.clone())
                .help("correct the plan, or leave it out")
        })?;
        plan.objective.value_s = report.value_s;
        for (device, figures) in plan.devices.iter_mut().zip(&report.devices) {
            device.load_s = figures.load_s;
            device.compute_s = figures.compute_s;
            device.communication_s = figures.communication_s;
            device.memory_bytes = figures.memory_bytes;
        }
        let broken = report.violations.iter().filter(|violation| violation.kind.breaks_feasibility());
        let mut breaks: Vec<String> = broken.map(|violation| violation.kind.name().to_owned()).collect();
        breaks.sort_unstable();
        breaks.dedup();
        plan.reason = report.value_s.is_none().then(|| "the placement cannot be evaluated".to_owned());
        Ok(Contender { name: self.plan.name.clone(), plan, given: Some(breaks) })
    }
}
