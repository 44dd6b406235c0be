//! Labels that another process makes for a run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::super::label::LabelEffort;
use super::super::recipe::{Recipe, RecipeDocument};
use super::super::store::{StoreError, StoredLabel, Wanted};
use super::{Result, RunError};

/// One instance to label, with everything that its label depends on in the same build of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The recipe of the instance.
    pub recipe: RecipeDocument,
    /// The search effort.
    pub effort: LabelEffort,
    /// Number of the instance.
    pub index: u64,
}

impl Request {
    /// The label of the instance, the same as in the requesting process.
    ///
    /// # Errors
    /// If the recipe is invalid, the instance cannot be labelled, or the labelling is interrupted.
    pub fn answer(&self, interrupt: &Arc<AtomicBool>) -> Result<StoredLabel> {
        let Request { recipe, effort, index } = self;
        let recipe =
            Recipe::new(recipe.clone()).map_err(|error| RunError::Recipe { field: "recipe", error })?;
        let wanted = Wanted { recipe: &recipe, effort, indices: &[*index], interrupt };
        let made = wanted.one(*index)?;
        let interrupted = || StoreError::Elsewhere { index: *index, cause: "it was interrupted".into() };
        Ok(made.ok_or_else(interrupted)?)
    }
}
