//! Exact throughput of contiguous splits, by dynamic programming over the lattice of ideals.
//!
//! A contiguous split into stages is a chain ∅ ⊂ I₁ ⊂ … ⊂ V of *ideals* (sets closed under predecessors), so
//!
//! ```text
//! f(devices used, I) = min over ideals J ⊂ I of max(f(fewer devices, J), load(I \ J))
//! ```
//!
//! is exact (Tarnawski et al., NeurIPS 2020). Their program stores every pair of ideals; this one visits only pairs
//! that can be part of a split better than the best known:
//!
//! 2. `weight` and `window` bound which ideals the devices in use can hold and the remaining devices can complete with
//!    loads below T;
//!    below T;
//! 3. `walk` generates the supersets of a state depth first, each once, and prunes those that cannot stay below T; if
//!    the lattice is small, `catalogue` lists it and `scan` checks its pairs instead, at a lower cost per pair;
//! 4. `recurrence` runs over the ideals by size, in parallel `batch`es whose result does not depend on the number of
//!    threads; both searches prune by the demands of `stage`, and `table` stores the ideals;
//! 5. `solver` picks caps, so that a search too large to finish still yields a bound.
//!
//! Group uplinks are resources that a chain of ideals does not determine: which groups hold the pins of a net depends
//! on earlier stages. A first recurrence ignores them, which gives a bound and often the optimum; a second one with
//! `uplink` labels closes the remaining gap.
//!
//! Under a pipeline schedule the value is the time of an iteration. The recurrence above then yields an incumbent and a
//! bound, and `iterate` continues with the program over labels of [`stagewright_search::pipeline`].

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
pub use solver::{Dp, DpWithin};
