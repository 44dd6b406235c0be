//! Admission to the ranks of a replica: sequences and memory for caches.

use std::collections::VecDeque;

use super::batch::Prompt;
use crate::replica::Replica;

/// Memory of a rank for caches. Shares of it are whole numbers, so that sums do not drift.
const WHOLE_MEMORY: u64 = 1 << 52;

/// Admitted requests of a rank.
#[derive(Debug, Default)]
pub(super) struct Rank {
    /// Prompts to read, in the order of admission.
    pub(super) prompts: VecDeque<Prompt>,
    admitted: u64,
    memory: u64,
}

impl Rank {
    /// Frees the place of a request with its memory.
    pub(super) fn release(&mut self, memory: u64) {
        self.admitted -= 1;
        self.memory -= memory;
    }
}

/// Admits a request to the rank with the fewest of those where it fits, below a limit of requests. Gives the number of the rank.
pub(super) fn admit(ranks: &mut [Rank], limit: u64, memory: u64) -> Option<usize> {
    let fits = |rank: &Rank| rank.admitted < limit && memory <= WHOLE_MEMORY - rank.memory;
    let fitting = ranks.iter_mut().enumerate().filter(|(_, rank)| fits(rank));
    let (index, rank) = fitting.min_by_key(|(_, rank)| rank.admitted)?;
    rank.admitted += 1;
    rank.memory += memory;
    Some(index)
}

/// Share of the memory of a rank that the cache of a sequence takes on the stage where it takes most; `None` if it does not fit.
pub(super) fn memory_share(replica: &Replica, tokens: u64) -> Option<u64> {
    let share = replica.stages().iter().map(|stage| {
        let (bytes, budget) = (stage.cache_bytes(tokens), stage.cache_budget());
        if budget < 0.0 {
            f64::INFINITY
        } else if bytes <= 0.0 {
            0.0
        } else {
            bytes / budget
        }
    });
    let largest = share.fold(0.0, f64::max);
    (largest <= 1.0).then_some((largest * WHOLE_MEMORY as f64) as u64)
}
