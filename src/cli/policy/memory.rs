//! Memory that candle gave back and will ask for again.

/// Has the allocator keep what is given back to it instead of returning it to the system.
///
/// candle makes every tensor anew, many of them of megabytes. Untold, the GNU C library takes such blocks from the system one by
/// one and returns each at its end, so that every page of every tensor is faulted in and zeroed again: up to a third of an
/// update of GDP. Told, it still does so on threads other than the first with blocks above 64 MiB, and returns what has emptied
/// of their memory in as large pieces. Other C libraries are left as they are.
///
/// # Safety
/// No other thread may run yet: it might allocate meanwhile.
#[allow(unsafe_code, reason = "there is no other way to tell a running process's allocator")]
pub(crate) unsafe fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Sizes above which blocks are taken from the system one by one: larger than any tensor that is made again and again,
        /// and what older versions of the library take at most.
        const THRESHOLDS: [libc::c_int; 2] = [1 << 30, 32 << 20];
        const NEVER: libc::c_int = -1;
        // SAFETY: the caller's. It takes any number, and answers 0 for one that it refuses.
        let set = |parameter, value| unsafe { libc::mallopt(parameter, value) == 1 };
        // Setting either ends the library's own adaptation of the other.
        if THRESHOLDS.into_iter().any(|threshold| set(libc::M_MMAP_THRESHOLD, threshold)) {
            set(libc::M_TRIM_THRESHOLD, NEVER);
        }
    }
}
