//! Work during which signals are checked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use stagewright::code::X001;
use stagewright::core::solver::Stop;
use stagewright::failure::Failure;

use crate::failure::Result;

/// Interval at which signals are checked.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `work` in a thread of its own, while the calling thread checks signals. If a signal handler raises an
/// exception, the work is stopped and the exception is raised.
pub(crate) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&Stop) -> T + Send) -> Result<T> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let stop = Stop::new(None, interrupt.clone());
    let (send, ended) = channel();
    let ended = Mutex::new(ended);
    let mut raised = None;
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("stagewright".into());
        // If the thread cannot start, nothing is sent.
        let _started = thread.spawn_scoped(scope, move || send.send(work(&stop)).is_ok());
        loop {
            let next = || ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK);
            match py.detach(next) {
                Ok(done) => break Some(done),
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(error) = py.check_signals() {
                interrupt.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
        }
    });
    match (raised, done) {
        (Some(error), _) => Err(error.into()),
        (None, Some(done)) => Ok(done),
        (None, None) => Err(Failure::new(X001, "cannot start a thread").into()),
    }
}

/// Runs `work` in a thread of its own, while the calling thread checks signals, which Python handles on its main
/// thread. The first interrupt sets the flag that `work` receives; its result is returned, with whether there was an
/// interrupt. A second interrupt raises.
pub(crate) fn until_interrupted<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<(T, bool)> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = interrupt.clone();
    let (send, ended) = channel::<T>();
    let thread = std::thread::Builder::new().name("stagewright".into()).spawn(move || {
        // After a second interrupt, no one waits for an answer.
        let _unread = send.send(work(flag));
    });
    thread.map_err(|error| Failure::new(X001, format!("cannot start a thread: {error}")))?;
    let ended = Mutex::new(ended);
    let next = || ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK);
    let mut raised: Option<PyErr> = None;
    let done = loop {
        match py.detach(next) {
            Ok(done) => break done,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(X001, "the solver failed").at("solver").into());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = py.check_signals() {
            if interrupt.swap(true, Ordering::Relaxed) {
                return Err(error.into());
            }
            raised = (!error.is_instance_of::<PyKeyboardInterrupt>(py)).then_some(error);
        }
    };
    // An exception from a signal handler, such as a timeout, is not an interrupt.
    raised.map_or(Ok((done, interrupt.load(Ordering::Relaxed))), |error| Err(error.into()))
}
