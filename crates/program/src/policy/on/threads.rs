//! Thread counts of candle.

use std::thread::available_parallelism;

use candle_core::utils::get_num_threads;

/// Variable with the number of parts into which candle splits matrix products; rayon reads the same variable for its
/// thread pool.
const PRODUCTS: &str = "RAYON_NUM_THREADS";
/// Variable with the number of candle's own threads for large elementwise operations, which spin while waiting; by
/// default, the same as for matrix products.
const ELEMENTWISE: &str = "CANDLE_NUM_THREADS";

/// Makes candle use as many threads as the command, and at most one per processor.
///
/// The thread count can be set only through the environment. By default, candle uses one thread per core, whatever
/// `--threads` says, and counts the cores again at every matrix product, which takes longer than a small product. If no
/// threads are requested, a setting in the environment is kept; without one, candle's default is set: the number of
/// physical cores. Child processes inherit the variables; `bench` gives each of them its own `--threads`.
///
/// # Safety
/// No other thread may be running: it could read the environment at the same time.
#[allow(unsafe_code, reason = "candle's threads have no other setting than the environment")]
pub(crate) unsafe fn share(asked: Option<usize>) {
    let processors = available_parallelism().map_or(1, usize::from);
    let set = |name: &str, threads: usize| {
        // SAFETY: guaranteed by the caller.
        unsafe { std::env::set_var(name, threads.min(processors).to_string()) }
    };
    match asked {
        Some(threads) => [PRODUCTS, ELEMENTWISE].iter().for_each(|name| set(name, threads)),
        None if std::env::var_os(PRODUCTS).is_none() => set(PRODUCTS, get_num_threads()),
        None => {}
    }
}
