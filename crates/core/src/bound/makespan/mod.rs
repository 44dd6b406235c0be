//! Bounds on the makespan of one step.
//!
//! The location of an operator determines its duration and its incoming transfers, so every quantity here belongs
//! to an operator *and* a pool:
//!
//! ```text
//! head(v, k)   lower bound on the start of v on a device of pool k
//! p(v, k)      its seconds there
//! tail(v, k)   lower bound on the time from its end to the end of the step
//! ```
//!
//! [`Reach`] computes heads in topological order and tails in reverse. An input of an operator is either produced on
//! its own device, one operator after another, or arrives from another device after a transfer. The cheapest split of
//! the inputs between these two gives a bound. Given heads and tails, T is at least
//!
//! - head + seconds + tail of any operator, and the time of one device for all of a colocation class with their
//!   heads and tails: [`OneMachine`];
//! - the time of all devices together for the operators far from both ends of the step, between these ends:
//!   [`Energetic`];
//! - the work that a path confines to parts of the step, which needs no heads and tails: [`Windows`];
//! - the sum over segments of the step, each bounded by its own heads, tails and energy: [`Segments`];
//! - any value below which every choice of the arcs that cross devices contradicts the bounds above: [`Destructive`].
//!
//! The bounds relax the rules of [`simulate`](crate::simulate) and use only these: a device runs one operator at a
//! time, an operator starts when all its inputs are on its device, a transfer takes at least the seconds of its route
//! and starts once its tensor is available, transfers that share a port follow one another, and the memory that an
//! operator needs while it runs fits its device. So the bounds hold for every placement without violations and every
//! priority, with ports and without contention, and for queues that are not work-conserving.
//!
//! # Literature
//!
//! - Papadimitriou and Yannakakis, "Towards an architecture-independent analysis of parallel algorithms", SIAM
//!   Journal on Computing 1990: with a delay between processors, a task's predecessors are on its own processor or
//!   ended long before.
//! - Jung, Kirousis and Spirakis, "Lower bounds and efficient algorithms for multiprocessor scheduling of directed
//!   acyclic graphs with communication delays", Information and Computation 1993.
//! - Carlier, "The one-machine sequencing problem", European Journal of Operational Research 1982, and "Scheduling
//!   jobs with release dates and tails on identical machines to minimize the makespan", the same journal, 1987.

mod arcs;
mod capacity;
pub(super) mod cut;
mod destructive;
mod energetic;
mod local;
mod one_machine;
mod part;
mod reach;
mod refutation;
mod segments;
mod sites;
mod thresholds;
mod windows;

pub use destructive::Destructive;
pub use energetic::{Energetic, energy_at};
pub use one_machine::{OneMachine, one_device};
pub use reach::{Reach, tails, tails_before};
pub use segments::Segments;
pub use sites::can_run;
pub use windows::Windows;
