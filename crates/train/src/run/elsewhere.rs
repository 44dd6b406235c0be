//! Labels of a run that another process makes.
//!
//! A [`Request`] has everything that a label depends on in the same build of the program, except the checkpoint of a
//! teacher, which is too large for it: the other process reads it as its own configuration names it, and the digest makes
//! sure that it is the same.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use stagewright_policy::solver::device;

use super::super::label::{LabelEffort, label};
use super::super::recipe::{Recipe, RecipeDocument};
use super::super::store::{StoreError, StoredLabel, Wanted};
use super::config::RunDocument;
use super::expert::expert_label;
use super::stage::Beginning;
use super::{Result, RunError};

/// One instance to label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The recipe of the instance.
    pub recipe: RecipeDocument,
    /// The search effort.
    pub effort: LabelEffort,
    /// Number of the instance.
    pub index: u64,
    /// Digest of the checkpoint whose network helps, if any.
    pub teacher: Option<String>,
}

/// Answers requests.
pub struct Respondent {
    teacher: Option<Beginning>,
    interrupt: Arc<AtomicBool>,
}

impl Respondent {
    /// A respondent for the runs of a configuration, which is in the folder `beside`.
    ///
    /// # Errors
    /// If the checkpoint of the configuration is unusable.
    pub fn new(document: &RunDocument, beside: &Path, interrupt: Arc<AtomicBool>) -> Result<Respondent> {
        let device = device().map_err(RunError::Device)?;
        Ok(Respondent { teacher: Beginning::from_document(document, beside, &device)?, interrupt })
    }

    /// The label of an instance, the same as in the process that asks.
    ///
    /// # Errors
    /// If the recipe is invalid, the teacher differs here, the instance cannot be labelled, or the labelling is
    /// interrupted.
    pub fn answer(&self, request: &Request) -> Result<StoredLabel> {
        let Request { recipe, effort, index, teacher } = request;
        let recipe =
            Recipe::new(recipe.clone()).map_err(|error| RunError::Recipe { field: "recipe", error })?;
        let (teacher, interrupt) = (teacher.as_deref(), &self.interrupt);
        let network = match (teacher, &self.teacher) {
            (None, _) => None,
            (Some(digest), Some(own)) if own.digest == digest => Some(&own.network),
            (Some(_), _) => return Err(RunError::OtherTeacher),
        };
        let wanted = Wanted { recipe: &recipe, effort, indices: &[*index], teacher, interrupt };
        let made = wanted.one(*index, &|problem, effort, work| match network {
            Some(network) => expert_label(network, problem, effort, work),
            None => label(problem, effort, work),
        })?;
        let interrupted = || StoreError::Elsewhere { index: *index, cause: "it was interrupted".into() };
        Ok(made.ok_or_else(interrupted)?)
    }
}
