//! Memory that candle gave back and will ask for again.

/// Has the allocator keep what is given back to it instead of returning it to the system.
///
/// candle makes every tensor anew, many of them of megabytes. Untold, the GNU C library takes such blocks from the system one by
/// one and returns each at its end, so that every page of every tensor is faulted in and zeroed again: up to a third of an
/// update of GDP. On threads other than the first it still does so with blocks above 64 MiB. It holds for whatever the process
/// does, and other libraries keep memory as they do.
pub(crate) fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Sizes above which blocks are taken from the system one by one: larger than any tensor that is made again and again,
        /// and what older versions of the library take at most.
        const THRESHOLDS: [libc::c_int; 2] = [1 << 30, 32 << 20];
        #[allow(unsafe_code, reason = "there is no other way to tell a running process's allocator")]
        let set = |parameter, value| {
            // SAFETY: it takes any number, and answers 0 for one that it refuses.
            unsafe { libc::mallopt(parameter, value) == 1 }
        };
        // Setting either ends the library's own adaptation of the other.
        if THRESHOLDS.into_iter().any(|threshold| set(libc::M_MMAP_THRESHOLD, threshold)) {
            set(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        }
    }
}
