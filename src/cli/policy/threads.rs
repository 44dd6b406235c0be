//! How many threads candle takes.

use std::thread::available_parallelism;

use candle_core::utils::get_num_threads;

/// How many parts candle cuts products of matrices into; rayon asks the same for its own pool.
const PRODUCTS: &str = "RAYON_NUM_THREADS";
/// How many threads of its own candle takes for large elementwise work, which wait spinning; where nothing is said, as many
/// as for products.
const ELEMENTWISE: &str = "CANDLE_NUM_THREADS";

/// Has candle take as many threads as the command does, and no more than there are processors.
///
/// It can be told by the environment alone. Untold it takes a thread for every core, whatever `--threads` says, and
/// counts the cores anew at every product of matrices, which takes longer than a small product. Where no threads are asked
/// for, what the environment says stands, and else candle's own number, the cores without hyper-threads. Processes that this one
/// starts inherit it, and `bench` gives them threads of their own.
///
/// # Safety
/// No other thread may run yet: it might read the environment meanwhile.
#[allow(unsafe_code, reason = "candle's threads have no other setting than the environment")]
pub(crate) unsafe fn share(asked: Option<usize>) {
    let processors = available_parallelism().map_or(1, usize::from);
    let set = |name: &str, threads: usize| {
        // SAFETY: the caller's.
        unsafe { std::env::set_var(name, threads.min(processors).to_string()) }
    };
    match asked {
        Some(threads) => [PRODUCTS, ELEMENTWISE].iter().for_each(|name| set(name, threads)),
        None if std::env::var_os(PRODUCTS).is_none() => set(PRODUCTS, get_num_threads()),
        None => {}
    }
}
