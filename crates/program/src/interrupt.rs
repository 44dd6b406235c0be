//! Ctrl-C and the signals to terminate: the first ends the solve with the best plan so far, and the second ends the
//! process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::descendants;

/// Exit code of a process ended by SIGINT.
const KILLED: i32 = 130;

/// The interrupt flag of this process. It is stored because a handler can be set only once.
static INTERRUPT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Returns the flag that the first interrupt sets; the second interrupt ends the process. All solves of a command share
/// the flag, so an interrupt also ends those that follow.
pub(crate) fn watch() -> Arc<AtomicBool> {
    watch_and(|| {})
}

/// Returns the flag of [`watch`]. If the signals were not watched before, the first interrupt also calls `at_first`.
pub(crate) fn watch_and(at_first: impl Fn() + Send + 'static) -> Arc<AtomicBool> {
    INTERRUPT.get_or_init(|| handled(at_first)).clone()
}

fn handled(at_first: impl Fn() + Send + 'static) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = flag.clone();
    #[expect(clippy::disallowed_methods, reason = "the user asked twice: nothing is to be finished any more")]
    let handler = move || {
        if seen.swap(true, Ordering::Relaxed) {
            descendants::end_adopted();
            std::process::exit(KILLED);
        }
        at_first();
    };
    // If no handler can be set, an interrupt ends the process, as it does by default.
    let _ = ctrlc::set_handler(handler);
    flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_watches_later_sees_the_same_interrupt() {
        assert!(Arc::ptr_eq(&watch(), &watch_and(|| {})));
    }
}
