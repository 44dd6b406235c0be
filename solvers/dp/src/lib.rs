//! Exact throughput of contiguous splits, by dynamic programming over the lattice of ideals.
//!
//! A contiguous split into stages is a chain ∅ ⊂ I₁ ⊂ … ⊂ V of *ideals* (sets closed under predecessors), so
//!
//! ```text
//! f(devices used, I) = min over ideals J ⊂ I of max(f(fewer devices, J), load(I \ J))
//! ```
//!
//! is exact (Tarnawski et al., NeurIPS 2020). Their program stores every pair of ideals; this one looks only at
//! what can lie on a split better than a known one:
//!
//! 1. [`stagewright_search::dpl`] gives a value T to beat;
//! 2. `window` bounds the ideals that the devices used can hold and the devices left can finish, below T;
//! 3. `expand` generates the supersets of a state depth first, each once, and cuts off what cannot stay below T;
//! 4. `recurrence` runs over the ideals by size in parallel, the same whatever the number of threads;
//! 5. `solver` picks thresholds, so that a search too large to finish still leaves a bound.
//!
//! Group uplinks are resources that a chain of ideals does not determine: which group holds the other pins of a net
//! depends on the whole split. They are left out of the recurrence and scored afterwards, so with uplinks the bound
//! is that of the devices' loads, the value that of the best split found, and the gap between them may stay open.

mod allowance;
mod catalogue;
mod lattice;
mod recurrence;
mod scan;
mod solver;
mod stage;
mod table;
#[cfg(test)]
mod tests;
mod walk;
mod weight;
mod window;

pub use solver::Dp;
