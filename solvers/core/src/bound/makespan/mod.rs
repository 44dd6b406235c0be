//! The makespan of one step: heads, tails, and what they say together with the work.
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
