//! The solvers that need HiGHS.

pub(crate) use stagewright_milp::{Bnp, Lns, Milp};
