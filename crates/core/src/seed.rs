//! Random streams for tasks, independent of threads.
//!
//! Every random decision draws from the stream of a (seed, task) pair, so that a seed gives the same result
//! for any number of threads that share the tasks.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The stream of task `task` under `seed`. Streams of different tasks are independent.
pub fn stream(seed: u64, task: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(task);
    rng
}
