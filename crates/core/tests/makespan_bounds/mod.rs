//! Lower bounds on the makespan: against every placement and priority of small problems, and by hand.

mod attack;
mod by_hand;
mod exhaustive;
use stagewright_testing::heterogeneous;
mod published;
mod random;
