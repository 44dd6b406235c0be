//! Ctrl-C: once to stop and see the best plan so far, twice to leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a process that SIGINT ended.
const KILLED: i32 = 130;

/// A flag that the first interrupt sets; the second ends the process.
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
            std::process::exit(KILLED);
        }
        at_first();
    };
    // Without a handler an interrupt ends the process, which is what it does everywhere else.
    let _ = ctrlc::set_handler(handler);
    flag
}
