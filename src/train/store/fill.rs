//! Labels what is missing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stagewright_core::problem::Problem;

use super::super::instance::instance;
use super::super::label::{Effort, Label, LabelError, Work};
use super::super::recipe::Recipe;
use super::{Store, StoreError, StoredLabel};

/// What makes a label of a problem; none where it was interrupted.
pub type Labeller<'a> = dyn Fn(&Problem, &Effort, &Work) -> Result<Option<Label>, LabelError> + Sync + 'a;

/// How to fill a file of labels.
pub struct Filling<'a> {
    /// Makes the labels: [`label`](super::super::label::label), or somebody else.
    pub labeller: &'a Labeller<'a>,
    /// Instances that are labelled at a time, each on one thread; at least 1.
    pub threads: usize,
    /// Ends the filling; instances under way are given up.
    pub interrupt: Arc<AtomicBool>,
    /// Called after every label that was written.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// How far a filling is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Instances with a label.
    pub done: u64,
    /// Instances asked for.
    pub total: u64,
    /// The label that was written last.
    pub label: &'a StoredLabel,
}

/// What all threads share.
struct Shared<'a> {
    recipe: &'a Recipe,
    effort: &'a Effort,
    filling: &'a Filling<'a>,
    total: u64,
    missing: Vec<u64>,
    /// Place in `missing` of what is labelled next.
    next: AtomicUsize,
    writer: Mutex<Writer>,
}

struct Writer {
    store: Store,
    done: u64,
    failure: Option<StoreError>,
}

/// Labels the instances 0 to `count` − 1 of a recipe that a file lacks, in their order, several at a time, and appends each
/// as soon as it is done. Says whether all of them have a label now; not where it was interrupted.
///
/// Labels that the file has are kept, whatever their number.
///
/// # Errors
/// A file that holds other labels or cannot be used, and an instance that cannot be labelled; what was written until then
/// is kept.
pub fn fill(
    recipe: &Recipe,
    effort: &Effort,
    count: u64,
    path: &Path,
    filling: &Filling<'_>,
) -> Result<bool, StoreError> {
    let store = Store::open(path, recipe, effort)?;
    let missing: Vec<u64> = (0..count).filter(|index| !store.labels.contains_key(index)).collect();
    let threads = filling.threads.clamp(1, missing.len().max(1));
    let done = count - missing.len() as u64;
    let writer = Mutex::new(Writer { store, done, failure: None });
    let shared = Shared { recipe, effort, filling, total: count, missing, next: AtomicUsize::new(0), writer };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| StoreError::Threads(error.to_string()))?;
    // Each thread takes one instance after the other. Were they jobs of the pool, a thread that waits for a solver's own
    // pool would begin another instance meanwhile, and the time of the first would pass.
    pool.broadcast(|_| shared.run());
    let writer = shared.writer.into_inner().unwrap_or_else(PoisonError::into_inner);
    match writer.failure {
        Some(error) => Err(error),
        None => Ok(writer.done == count),
    }
}

impl Shared<'_> {
    /// Labels until nothing is missing, something fails or the interrupt is set.
    fn run(&self) {
        while !self.filling.interrupt.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&index) = self.missing.get(at) else { return };
            let outcome = self.label(index);
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            if writer.failure.is_some() {
                return;
            }
            let written = match outcome {
                Ok(Some(label)) => self.write(&mut writer, label),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                writer.failure = Some(error);
                self.next.store(self.missing.len(), Ordering::Relaxed);
                return;
            }
        }
    }

    /// The label of an instance; none where it was interrupted.
    fn label(&self, index: u64) -> Result<Option<StoredLabel>, StoreError> {
        let instance = instance(self.recipe, index);
        let seed = self.recipe.document().seed.wrapping_add(index);
        let work = Work { seed, threads: 1, interrupt: self.filling.interrupt.clone() };
        let label = (self.filling.labeller)(&instance.problem, self.effort, &work);
        let label = label.map_err(|error| StoreError::Label { index, error })?;
        Ok(label.map(|label| StoredLabel::new(index, &instance, &label)))
    }

    fn write(&self, writer: &mut Writer, label: StoredLabel) -> Result<(), StoreError> {
        let index = label.index;
        writer.store.append(label)?;
        writer.done += 1;
        let label = &writer.store.labels[&index];
        (self.filling.progress)(Progress { done: writer.done, total: self.total, label });
        Ok(())
    }
}
