//! Source of labels: threads of this process, or other processes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::instance::instance;
use super::super::label::{LabelEffort, Work, label};
use super::super::recipe::Recipe;
use super::{StoreError, StoredLabel};

/// Receives a label. After an error, no more labels are wanted.
pub type Take<'a> = dyn Fn(StoredLabel) -> Result<(), StoreError> + Sync + 'a;

/// Makes labels.
pub trait Labeller {
    /// Labels all wanted instances and hands each label over as soon as it is made, in any order and possibly more than
    /// once. Returns early, without an error, if interrupted.
    ///
    /// # Errors
    /// If an instance cannot be labelled, or a label is not taken.
    fn label(&self, wanted: &Wanted<'_>, take: &Take<'_>) -> Result<(), StoreError>;
}

/// Instances to label.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The recipe of the instances.
    pub recipe: &'a Recipe,
    /// Search effort per label.
    pub effort: &'a LabelEffort,
    /// Numbers of the instances.
    pub indices: &'a [u64],
    /// Stops the labelling.
    pub interrupt: &'a Arc<AtomicBool>,
}

impl Wanted<'_> {
    /// Labels one instance on one thread; `None` if interrupted. The seed of the searches depends only on the
    /// instance's number.
    ///
    /// # Errors
    /// If it cannot be labelled.
    pub fn one(&self, index: u64) -> Result<Option<StoredLabel>, StoreError> {
        let instance = instance(self.recipe, index);
        let seed = self.recipe.document().seed.wrapping_add(index);
        let work = Work { seed, threads: 1, interrupt: self.interrupt.clone() };
        let label = label(&instance.problem, self.effort, &work);
        let label = label.map_err(|error| StoreError::Label { index, error })?;
        Ok(label.map(|label| StoredLabel::new(index, &instance, &label)))
    }
}

/// Labels instances on threads of this process.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// Instances labelled in parallel, each on one thread; at least 1.
    pub threads: usize,
}

impl Labeller for Local {
    fn label(&self, wanted: &Wanted<'_>, take: &Take<'_>) -> Result<(), StoreError> {
        let count = wanted.indices.len();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads.clamp(1, count.max(1))).build();
        let pool = pool.map_err(|error| StoreError::Threads(error.to_string()))?;
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        // Each thread labels one instance after the other. If instances were jobs of the pool, a thread that waits for
        // a solver's own pool would start another instance meanwhile, although the time limit of the first one keeps
        // running.
        pool.broadcast(|_| {
            while !wanted.interrupt.load(Ordering::Relaxed) {
                let Some(&index) = wanted.indices.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                let taken = match wanted.one(index) {
                    Ok(Some(label)) => take(label),
                    Ok(None) => return,
                    Err(error) => Err(error),
                };
                if let Err(error) = taken {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    next.store(count, Ordering::Relaxed);
                    return;
                }
            }
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
