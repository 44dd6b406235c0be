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
//! 2. `weight` and `window` bound the ideals that the devices used can hold and the devices left can finish, below T;
//! 3. `walk` generates the supersets of a state depth first, each once, and cuts off what cannot stay below T; where
//!    the lattice is small, `catalogue` lists it and `scan` looks at its pairs instead, which is cheaper for each;
//! 4. `recurrence` runs over the ideals by size, in parallel `batch`es that give the same whatever the number of
//!    threads; both searches meet the demands of `stage`, and `table` keeps the ideals;
//! 5. `solver` picks caps, so that a search too large to finish still leaves a bound.
//!
//! Group uplinks are resources that a chain of ideals does not determine: which groups hold the pins of a net depends
//! on the stages before. They are left out at first, which gives a bound and often the answer; a further recurrence
//! with `uplink` labels closes the gap that is left.
//!
//! Under a pipeline schedule the value is the time of an iteration, and the recurrence above finds its plan to beat and
//! a bound; `iterate` goes on from there with the program over labels of [`stagewright_search::pipeline`].

mod allowance;
mod batch;
mod catalogue;
mod iterate;
mod latency;
mod lattice;
mod max_load_split;
mod recurrence;
mod scan;
mod solver;
mod stage;
mod table;
#[cfg(test)]
mod tests;
mod uplink;
mod walk;
mod weight;
mod window;

pub use max_load_split::MaxLoadSplit;
pub use solver::Dp;
