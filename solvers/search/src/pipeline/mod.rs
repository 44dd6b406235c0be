//! The stages with the shortest iteration under a schedule.
//!
//! A contiguous split is a chain of ideals, and stages are peeled off from the last, because a schedule's treatment of
//! a stage depends on the stages after it. A state is the set of units after some cut, closed under successors, with
//! the devices used for it; adding a stage before it leads to a larger state. If only the largest load counted, one
//! number would rate a state. An iteration also has a pipeline to fill and to drain, so a state has several *labels*
//! (see `label`), none of which is better in every component, and the dynamic program keeps all that no other dominates
//! (Pareto labels: Hansen 1980; Martins 1984).
//!
//! - Under GPipe the labels are exact: the value is Σ (f + b) + (m − 1) (max f + max b), a function of the sum and of
//!   the two maxima, and so is the contribution of the best completion.
//! - Under 1F1B and zero-bubble an iteration is a longest path over stages and microbatches, which a few numbers cannot
//!   determine. The labels are then lengths of families of paths, so the minimum value of a label is a lower bound; the
//!   splits found on the way are scored by the iteration itself. If a gap is left, every split whose bound is below the
//!   best value is enumerated, without dominance ([`SearchMode::Enumerate`]); if the enumeration finishes, the best
//!   split is optimal.
//!
//! States come from a [`Poset`]: all sets closed under successors, or the suffixes of one order, which is the same
//! program over a chain. States that cannot lead below the best known value are pruned: by the time of the remaining
//! units, which some device has to run, and by the remaining devices, each of which can be busy for at most the
//! iteration.

mod label;
mod poset;
mod program;
mod stage;

pub use poset::Poset;
pub use program::{Found, Search, SearchMode};
