//! Ctrl-C and the signals to terminate: the first ends the solve with the best plan so far, the second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::external;

/// Exit code of a process ended by SIGINT.
const KILLED: i32 = 130;

/// Returns a flag that the first interrupt sets; the second ends the process.
pub(crate) fn watch() -> Arc<AtomicBool> {
    watch_and(|| {})
}

/// As [`watch`] does, and at the first interrupt does something besides.
pub(crate) fn watch_and(at_first: impl Fn() + Send + 'static) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = flag.clone();
    #[expect(clippy::disallowed_methods, reason = "the user asked twice: nothing is to be finished any more")]
    let handler = move || {
        if seen.swap(true, Ordering::Relaxed) {
            external::end_adopted();
            std::process::exit(KILLED);
        }
        at_first();
    };
    // If no handler can be set, an interrupt ends the process, which is the default.
    let _ = ctrlc::set_handler(handler);
    flag
}
