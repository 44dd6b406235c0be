//! The solvers that need HiGHS.

use stagewright_milp::{Bnp, Lns, Milp};

pub(crate) static BNP: Bnp = Bnp::ALONE;
pub(crate) static BNP_AFTER_SEARCH: Bnp = Bnp::AFTER_SEARCH;
pub(crate) static LNS: Lns = Lns;
pub(crate) static MILP: Milp = Milp;
