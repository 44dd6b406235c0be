//! Labels the missing instances.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::label::LabelEffort;
use super::super::recipe::Recipe;
use super::{Labeller, Store, StoreError, StoredLabel, Wanted};

/// Options for filling a file of labels.
pub struct Filling<'a> {
    /// Makes the labels.
    pub labeller: &'a dyn Labeller,
    /// Stops the filling; unfinished instances are dropped.
    pub interrupt: Arc<AtomicBool>,
    /// Called after every label is written.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// Progress in filling a file of labels.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Instances with a label.
    pub done: u64,
    /// Instances requested.
    pub total: u64,
    /// The label that was written last.
    pub label: &'a StoredLabel,
}

/// Labels the instances from 0 to `count` − 1 that have no label in the file. Labels are appended in the order of the
/// instances' numbers, each as soon as it and all before it are made, so the file does not depend on which thread or
/// process made a label, or when. Returns whether all instances have a label; false only if interrupted.
///
/// Existing labels are kept, whatever their number. Labels that wait for an earlier one are lost if the process is
/// killed.
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
    let indices: Vec<u64> = (0..count).filter(|index| !store.labels.contains_key(index)).collect();
    let done = count - indices.len() as u64;
    let missing: VecDeque<u64> = indices.iter().copied().collect();
    let writer = Mutex::new(Writer { store, done, total: count, missing, waiting: BTreeMap::new() });
    let Filling { labeller, interrupt, progress } = filling;
    if !indices.is_empty() && !interrupt.load(Ordering::Relaxed) {
        let wanted = Wanted { recipe, effort, indices: &indices, interrupt };
        let labelled = labeller.label(&wanted, &|label| {
            writer.lock().unwrap_or_else(PoisonError::into_inner).take(label, *progress)
        });
        // Labels that wait for one that will not come are written too; a label file may have any order.
        writer.lock().unwrap_or_else(PoisonError::into_inner).take_waiting(*progress)?;
        labelled?;
    }
    let writer = writer.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(writer.done == count)
}

/// Writes labels in the order of their numbers.
struct Writer {
    store: Store,
    done: u64,
    total: u64,
    /// Instances without a label in the file, in order.
    missing: VecDeque<u64>,
    /// Finished labels that wait for an earlier one.
    waiting: BTreeMap<u64, StoredLabel>,
}

impl Writer {
    fn take(
        &mut self,
        label: StoredLabel,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<(), StoreError> {
        self.waiting.insert(label.index, label);
        while let Some(label) = self.missing.front().and_then(|index| self.waiting.remove(index)) {
            self.missing.pop_front();
            self.append(label, progress)?;
        }
        Ok(())
    }

    /// Writes the labels that still wait.
    fn take_waiting(&mut self, progress: &(dyn Fn(Progress<'_>) + Sync)) -> Result<(), StoreError> {
        while let Some((index, label)) = self.waiting.pop_first() {
            // A label that came twice has already been written.
            if self.missing.contains(&index) {
                self.append(label, progress)?;
            }
        }
        Ok(())
    }

    fn append(
        &mut self,
        label: StoredLabel,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<(), StoreError> {
        let index = label.index;
        self.store.append(label)?;
        self.done += 1;
        progress(Progress { done: self.done, total: self.total, label: &self.store.labels[&index] });
        Ok(())
    }
}
