//! Labels the missing instances.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stagewright_core::problem::Problem;

use super::super::instance::instance;
use super::super::label::{Label, LabelEffort, LabelError, Work};
use super::super::recipe::Recipe;
use super::{Store, StoreError, StoredLabel};

/// A labelling function; `None` if interrupted.
pub type Labeller<'a> =
    dyn Fn(&Problem, &LabelEffort, &Work) -> Result<Option<Label>, LabelError> + Sync + 'a;

/// Options of filling a file of labels.
pub struct Filling<'a> {
    /// The labelling function: [`label`](super::super::label::label) or another.
    pub labeller: &'a Labeller<'a>,
    /// Instances labelled in parallel, each on one thread; at least 1.
    pub threads: usize,
    /// Stops the filling; unfinished instances are dropped.
    pub interrupt: Arc<AtomicBool>,
    /// Called after every label is written.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// Progress of a filling.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Instances with a label.
    pub done: u64,
    /// Instances requested.
    pub total: u64,
    /// The label that was written last.
    pub label: &'a StoredLabel,
}

/// State shared by all threads.
struct Shared<'a> {
    recipe: &'a Recipe,
    effort: &'a LabelEffort,
    filling: &'a Filling<'a>,
    total: u64,
    missing: Vec<u64>,
    /// Index in `missing` of the next instance to label.
    next: AtomicUsize,
    writer: Mutex<Writer>,
}

struct Writer {
    store: Store,
    done: u64,
    failure: Option<StoreError>,
}

/// Labels those of the instances 0 to `count` − 1 that a file lacks, in order and in parallel, and appends each label
/// as soon as it is done. Returns whether all instances have a label; false only if interrupted.
///
/// Existing labels are kept, whatever their number.
///
/// # Errors
/// If the file holds other labels or is unusable, or an instance cannot be labelled. Labels written until then are
/// kept.
pub fn fill(
    recipe: &Recipe,
    effort: &LabelEffort,
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
    // Each thread labels one instance after the other. If instances were jobs of the pool, a thread that waits for a
    // solver's own pool would start another instance meanwhile, while the time limit of the first one runs.
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

    /// Labels an instance; `None` if interrupted.
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
