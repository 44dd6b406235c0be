//! Results that are derived from a value, each computed once.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use crate::stop::Stop;

/// Results by their type. Clones share the results.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memo(Arc<Mutex<FxHashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Memo {
    /// The result of type `T`. Threads that request it at the same time may each compute it.
    pub(crate) fn get<T: Any + Send + Sync>(&self, compute: impl FnOnce() -> T) -> Arc<T> {
        let results = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = TypeId::of::<T>();
        let found = results().get(&key).cloned();
        let result = found.unwrap_or_else(|| {
            let computed = compute();
            results().entry(key).or_insert_with(|| Arc::new(computed)).clone()
        });
        result.downcast().expect("results are filed under their types")
    }

    /// The result of type `T` as in [`Memo::get`], except that a result is not kept if `stop` may have cut it short.
    pub(crate) fn get_before<T: Any + Send + Sync>(
        &self,
        compute: impl FnOnce() -> T,
        stop: &Stop,
    ) -> Arc<T> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&TypeId::of::<T>());
        if known {
            return self.get(compute);
        }
        let computed = compute();
        if stop.reason().is_some() { Arc::new(computed) } else { self.get(|| computed) }
    }
}
