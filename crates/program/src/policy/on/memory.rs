//! Allocator settings for candle, which frees memory that it soon allocates again.

/// Makes the allocator keep freed memory instead of returning it to the system.
///
/// candle allocates every tensor anew, many of them of several megabytes. By default, the GNU C library maps each such
/// block separately and unmaps it when it is freed, so every page of every tensor is faulted in and zeroed again: this
/// takes up to a third of the time of an update of GDP. Even with these settings, it does so for blocks above 64 MiB on
/// threads other than the first, and returns the emptied memory of those threads in pieces of that size. Other C
/// libraries are not affected.
///
/// # Safety
/// No other thread may be running: it could allocate at the same time.
#[allow(unsafe_code, reason = "there is no other way to tell a running process's allocator")]
pub(crate) unsafe fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Sizes in bytes above which blocks are mapped separately: a value larger than any tensor that is allocated
        /// repeatedly, and the maximum that older versions of the library accept.
        const THRESHOLDS: [libc::c_int; 2] = [1 << 30, 32 << 20];
        const NEVER: libc::c_int = -1;
        // SAFETY: guaranteed by the caller. `mallopt` takes any number, and returns 0 for one that it rejects.
        let set = |parameter, value| unsafe { libc::mallopt(parameter, value) == 1 };
        // Setting either threshold disables the library's automatic adjustment of the other.
        if THRESHOLDS.into_iter().any(|threshold| set(libc::M_MMAP_THRESHOLD, threshold)) {
            set(libc::M_TRIM_THRESHOLD, NEVER);
        }
    }
}
