//! The learned systems of the literature, each as its authors describe it, on one simulator.
//!
//! - [`Kind::Gdp`]: one shot, with a graph embedding and attention over segments (Zhou et al., 2019).
//! - [`Kind::Placeto`]: re-places one group after the other (Addanki et al., NeurIPS 2019).
//! - [`Kind::Hsdag`]: learns groups jointly with their placement (Duan et al., NeurIPS 2024).
//! - [`Kind::Hdp`]: a grouper and a recurrent placer (Mirhoseini et al., ICLR 2018).
//!
//! They share their input, units and features ([`Reading`]), the simulation and counting of placements ([`Trials`]),
//! the sampling of choices (`choices`), and, with the policy of `stagewright-policy`, the optimiser
//! ([`Descent`](stagewright_policy::learn::Descent)), layers, parameters and checkpoints. Networks, rewards, baselines
//! and episodes are specific to each system. If a paper leaves something open, the module documents the choice.

mod agent;
mod chains;
mod choices;
mod gdp;
mod hdp;
mod hsdag;
mod kind;
mod lstm;
mod placeto;
mod proximal;
mod reading;
mod settings;
mod solver;
mod stack;
mod state;
mod system;
#[cfg(test)]
mod testing;
mod trials;

pub use agent::Agent;
pub use kind::Kind;
pub use reading::Reading;
pub use settings::Settings;
pub use solver::{Learned, Mode};
pub use state::{SYSTEM_SCHEMA, SystemCard};
pub use trials::{News, Trials};
