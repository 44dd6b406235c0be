//! Memory that candle gave back and will ask for again.

/// Has the allocator keep what is given back to it instead of returning it to the system.
///
/// candle makes every tensor anew, many of them of megabytes. The GNU C library takes such blocks from the system one by one
/// and returns each at its end, so that every page of every tensor is faulted in and zeroed again: up to a third of an update
/// of GDP. Other libraries keep it as they do.
pub(crate) fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Larger than any tensor that is made again and again.
        const LARGEST_KEPT: libc::c_int = 1 << 30;
        #[allow(unsafe_code, reason = "there is no other way to tell a running process's allocator")]
        // SAFETY: both take any number; one that is refused changes nothing.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_KEPT);
            libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        }
    }
}
