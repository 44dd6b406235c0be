//! Plans given in addition to solvers, in `compare` and in suites, with their models and values.
//!
//! The value that a plan claims holds under its own rules, so only its placement is used. The independent checker
//! evaluates the placement.

use std::path::{Path, PathBuf};

use stagewright::code::U001;
use stagewright::core::document::{ClusterDocument, ModelOptionsDocument};
use stagewright::nearest::instead;
use stagewright::report::comparison::Contender;
use stagewright::tasks::{Kind, PlanFile, Task};

use crate::error::{CliError, Result};
use crate::files::{Input, read};
use crate::model_options::Kept;
use crate::output;

/// Placeholder for the name of a model in the path of a plan.
const MODEL: &str = "{}";

/// The given plans for all models.
#[derive(Debug, Default)]
pub(crate) struct Given {
    plans: Vec<Plan>,
}

/// One `--plan`: `[MODEL:][NAME=]FILE`.
#[derive(Debug)]
struct Plan {
    /// The only model to which the plan applies; `None` means any.
    model: Option<String>,
    name: String,
    path: String,
}

impl Given {
    /// Parses the arguments given at `place`, an option or a field of a suite.
    pub(crate) fn parse(typed: &[String], place: &str) -> Result<Given> {
        let plan = |text: &String| {
            let (name, path) = match text.split_once('=') {
                // A path that itself contains an equals sign is not split.
                Some((name, path)) if !Path::new(text).exists() => (Some(name), path),
                _ => (None, text.as_str()),
            };
            let (model, name) = match name.and_then(|name| name.rsplit_once(':')) {
                Some((model, name)) => (Some(model.to_owned()), Some(name)),
                None => (None, name),
            };
            if path.is_empty() || name == Some("") {
                let cause = format!("`{text}` does not name a plan");
                return Err(CliError::new(U001, cause).at(place).help("write [MODEL:][NAME=]FILE"));
            }
            let own = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let name = name.map(str::to_owned).or(own).unwrap_or_else(|| path.to_owned());
            Ok(Plan { model, name, path: path.to_owned() })
        };
        Ok(Given { plans: typed.iter().map(plan).collect::<Result<_, _>>()? })
    }

    /// The plans with their paths resolved by `to`; a plan is left out if `to` returns `None`.
    pub(crate) fn resolved(self, to: impl Fn(&str) -> Option<PathBuf>) -> Given {
        let plans = self.plans.into_iter().filter_map(|plan| {
            let path = to(&plan.path)?.display().to_string();
            Some(Plan { path, ..plan })
        });
        Given { plans: plans.collect() }
    }

    /// Rejects plans for a model that is not among `models`, and paths that match no model.
    pub(crate) fn fit(&self, models: &[String], place: &str) -> Result<()> {
        for plan in &self.plans {
            let unknown = plan.model.as_ref().filter(|model| !models.contains(model));
            if let Some(model) = unknown {
                return Err(CliError::new(U001, format!("`{model}` is not one of the models"))
                    .at(place)
                    .help(instead(model, models.iter().map(String::as_str))));
            }
            let of_any = models.iter().any(|model| plan.file(model).is_some());
            if !of_any {
                return Err(CliError::new(U001, format!("no file matches `{}`", plan.path))
                    .at(place)
                    .help("{} stands for the name of a model, or for what follows an underscore in it"));
            }
        }
        Ok(())
    }

    /// The plans for a model with their files; those for this model alone come first.
    fn of<'a>(&'a self, model: &str) -> Vec<(&'a Plan, PathBuf)> {
        let own = self.plans.iter().filter(|plan| plan.model.as_deref() == Some(model));
        let all = own.chain(self.plans.iter().filter(|plan| plan.model.is_none()));
        all.filter_map(|plan| Some((plan, plan.file(model)?))).collect()
    }

    /// Names and files of the plans for a model, without repeated names.
    pub(crate) fn named(&self, model: &str) -> Vec<(&str, PathBuf)> {
        let mut named: Vec<(&str, PathBuf)> = Vec::new();
        for (plan, file) in self.of(model) {
            if !named.iter().any(|(name, _)| *name == plan.name) {
                named.push((&plan.name, file));
            }
        }
        named
    }

    /// Paths of the plans.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.plans.iter().map(|plan| Path::new(&plan.path))
    }

    /// Names of the plans.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.plans.iter().map(|plan| plan.name.as_str())
    }

    /// Reads the files of the plans for a model that answer a question of a kind.
    pub(crate) fn files(&self, kind: Kind, model: &str) -> Result<Files<'_>> {
        let mut files = Files { kind, files: Vec::new() };
        for (plan, path) in self.of(model) {
            match plan.open(kind, &path) {
                Ok(file) => files.files.push(file),
                Err(error) => plan.fails(model, error)?,
            }
        }
        Ok(files)
    }
}

/// The plan files for one model.
pub(crate) struct Files<'a> {
    kind: Kind,
    files: Vec<PlanOfModel<'a>>,
}

/// A plan file, read for one model.
struct PlanOfModel<'a> {
    plan: &'a Plan,
    input: Input,
    /// The import options stored in the plan.
    options: Option<ModelOptionsDocument>,
    /// The cluster stored in the plan.
    cluster: Option<ClusterDocument>,
}

impl Files<'_> {
    /// The import options of the first plan that stores any, and the cluster of the first plan that stores one. Notes report
    /// plans with different options.
    pub(crate) fn kept(&self) -> Kept<'_> {
        let labelled = |file| {
            let PlanOfModel { input, options, .. }: &PlanOfModel<'_> = file;
            Some((input.label.as_str(), options.as_ref()?))
        };
        let mut all = self.files.iter().filter_map(labelled);
        let options = all.next();
        for (plan, _) in all.filter(|(_, other)| options.is_some_and(|(_, first)| *other != first)) {
            let first = options.map_or("", |(first, _)| first);
            output::note(&format!(
                "note: {first} and {plan} were made with different options of the model; those of the first apply"
            ));
        }
        let mut clusters =
            self.files.iter().filter_map(|file| Some((file.input.label.as_str(), file.cluster.as_ref()?)));
        Kept { options, cluster: clusters.next() }
    }

    /// Evaluates the plans with the independent checker, under the rules of the comparison.
    pub(crate) fn contenders(self, model: &str, task: &dyn Task) -> Result<Vec<Contender>> {
        let mut found: Vec<Contender> = Vec::new();
        for file in self.files {
            if found.iter().any(|contender| contender.name == file.plan.name) {
                continue;
            }
            match file.valued(self.kind, task) {
                Ok(contender) => found.push(contender),
                Err(error) => file.plan.fails(model, error)?,
            }
        }
        Ok(found)
    }
}

impl Plan {
    /// Whether the path of the plan has a placeholder for the model's name.
    fn is_pattern(&self) -> bool {
        self.path.contains(MODEL)
    }

    /// The plan file for a model; `None` if no file exists. A placeholder in the path stands for the model's name or,
    /// if that names no file, for the longest part after an underscore that does.
    fn file(&self, model: &str) -> Option<PathBuf> {
        if !self.is_pattern() {
            return Some(self.path.clone().into());
        }
        let later = model.match_indices('_').map(|(index, _)| &model[index + 1..]);
        std::iter::once(model)
            .chain(later)
            .map(|name| PathBuf::from(self.path.replace(MODEL, name)))
            .find(|path| path.exists())
    }

    fn open(&self, kind: Kind, path: &Path) -> Result<PlanOfModel<'_>> {
        let input = read(path)?;
        let file = PlanFile::read(kind, &input.label, &input.bytes)?;
        let (options, cluster) = (file.options().cloned(), file.cluster().cloned());
        Ok(PlanOfModel { plan: self, input, options, cluster })
    }

    /// Handles a plan that cannot be read or evaluated. This is an error, unless the path is a pattern: then it is only
    /// noted, because a file that matches by name need not fit the model.
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
    fn valued(&self, kind: Kind, task: &dyn Task) -> Result<Contender> {
        let Input { label, bytes } = &self.input;
        let file = PlanFile::read(kind, label, bytes)?;
        if let Some(note) = task.made_elsewhere(&file) {
            output::note(&format!("note: {note}"));
        }
        task.given(&self.plan.name, file)
    }
}
