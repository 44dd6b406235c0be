//! Lower bounds on the makespan, compared with every placement and priority of small problems, and by hand.

mod attack;
mod by_hand;
mod memory;
use stagewright_testing::heterogeneous;
use stagewright_testing::makespan as random;
use stagewright_testing::makespan_optimum as exhaustive;
mod published;
