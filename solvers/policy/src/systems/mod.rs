//! The field's learned systems, each as its authors describe it, on one simulator.
//!
//! - [`Kind::Gdp`]: one shot, a graph embedding and attention over segments (Zhou et al., 2019).
//! - [`Kind::Placeto`]: one group re-placed after the other (Addanki et al., NeurIPS 2019).
//! - [`Kind::Hsdag`]: groups that are learned together with where they go (Duan et al., NeurIPS 2024).
//! - [`Kind::Hdp`]: a grouper and a recurrent placer (Mirhoseini et al., ICLR 2018).
//!
//! They share what is the same in all of them: the units and figures that they read ([`Reading`]), how placements are
//! played and counted ([`Trials`]), how choices are drawn (`choices`), and how steps of gradients are made
//! ([`Descent`](crate::learn::Descent)). Networks, rewards, baselines and episodes are each system's own. Where a paper
//! leaves something open, the module says what was chosen.

mod chains;
mod gdp;
mod hdp;
mod hsdag;
mod kind;
mod lstm;
mod placeto;
mod reading;
mod solver;
mod state;
mod system;
#[cfg(test)]
mod testing;
mod trials;

pub use kind::{Kind, Settings};
pub use reading::Reading;
pub use solver::{Learned, Mode};
pub use state::{SYSTEM_SCHEMA, SystemCard};
pub use system::Agent;
pub use trials::{News, Trials};
