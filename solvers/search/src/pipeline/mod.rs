//! The stages whose iteration under a schedule is shortest.
//!
//! A contiguous split is a chain of ideals, and stages are peeled off from the last: what a schedule makes of a stage
//! depends on what comes after it. A state is the set of units after some cut, closed under successors, with the devices
//! used for it; a stage added before leads to a larger one. Where the largest load is all that counts, one number says
//! what a state is worth. An iteration also has a pipeline to fill and to drain, so a state has several *labels* of which
//! none is better in every part (`label` has them), and the dynamic program keeps all that no other dominates (Pareto labels:
//! Hansen 1980; Martins 1984).
//!
//! - Under GPipe the labels are exact: the value is Σ (f + b) + (m − 1) (max f + max b), a function of the sum and of the
//!   two maxima, and so is what the best completion adds.
//! - Under 1F1B and zero-bubble an iteration is a longest path over stages and microbatches that no few numbers hold.
//!   There the labels are lengths of families of paths, so the least value of a label is a lower bound; what is found on
//!   the way is scored by the iteration itself. Where that leaves a gap, every split whose bound is below the best value
//!   is listed, without dominance ([`Effort::Enumerate`]); if the list ends, the best is optimal.
//!
//! States come from a [`Poset`]: all sets closed under successors, or the suffixes of one order, which is the same program
//! over a chain. What cannot be below the best value known is cut off: by the time of the units left, which some device
//! has to run, and by the devices left, each of which can be busy for no more than the iteration.

mod label;
mod orders;
mod poset;
mod program;
mod stage;

pub use orders::{keep_better, over_orders};
pub use poset::Poset;
pub use program::{Effort, Found, Search};
