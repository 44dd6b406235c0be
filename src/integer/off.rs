//! The names of the solvers that need HiGHS, in builds without it.

use crate::absent::Absent;

const WHY: &str = "any problem in this build: it needs the feature `milp`";

pub(crate) static BNP: Absent = Absent { name: "bnp", why: WHY };
pub(crate) static BNP_AFTER_SEARCH: Absent = Absent { name: "bnp", why: WHY };
pub(crate) static LNS: Absent = Absent { name: "lns", why: WHY };
pub(crate) static MILP: Absent = Absent { name: "milp", why: WHY };
