//! The solvers that need HiGHS.

use stagewright_milp::{Bnp, Lns, Milp};

pub(crate) static BNP: Bnp = Bnp;
pub(crate) static LNS: Lns = Lns;
pub(crate) static MILP: Milp = Milp;
