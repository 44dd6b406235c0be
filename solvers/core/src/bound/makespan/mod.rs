//! Bounds on the makespan of one step.
//!
//! Where an operator runs decides how long it takes and what has to travel to it, so every figure here is one
//! of an operator *and* a pool:
//!
//! ```text
//! head(v, k)   v on a device of pool k does not start before
//! p(v, k)      its seconds there
//! tail(v, k)   and so much at least follows its end
//! ```
//!
//! [`Reach`] finds heads in the order of the graph and tails backwards. What an operator reads is either made on
//! its own device, one operator after another, or arrives from another one after a transfer; the cheaper mix
//! of both is a bound. From there, T is at least
//!
//! - head + seconds + tail of any operator, and what one device takes for all of a colocation class with
//!   their heads and tails: [`OneMachine`];
//! - what all devices together take for the operators far from both ends, in the time between: [`Energetic`].
//!
//! The bounds relax the rules of [`simulate`](crate::simulate) and use this of them alone: a device runs one
//! operator at a time, an operator starts when all that it reads is on its device, a transfer takes at least
//! the seconds of its route and starts when its tensor is there, transfers that share a port follow one
//! another, and what an operator needs in memory while it runs fits its device. So they hold for every
//! placement without violations and every priority, with ports and without contention alike, and for queues
//! that are not work conserving.
//!
//! # Literature
//!
//! - Papadimitriou and Yannakakis, "Towards an architecture-independent analysis of parallel algorithms", SIAM
//!   Journal on Computing 1990: with a delay between processors, what a task waits for is near it or long ago.
//! - Jung, Kirousis and Spirakis, "Lower bounds and efficient algorithms for multiprocessor scheduling of directed
//!   acyclic graphs with communication delays", Information and Computation 1993.
//! - Carlier, "The one-machine sequencing problem", European Journal of Operational Research 1982, and "Scheduling
//!   jobs with release dates and tails on identical machines to minimize the makespan", the same journal, 1987.

mod arcs;
mod energetic;
mod local;
mod one_machine;
mod reach;
mod sites;
mod thresholds;
mod window;

pub use energetic::Energetic;
pub use one_machine::OneMachine;
pub use reach::Reach;
