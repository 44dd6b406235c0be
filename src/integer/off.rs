//! The names of the solvers that need HiGHS, in builds without it.

use crate::absent::Absent;

const fn absent(name: &'static str) -> Absent {
    Absent { name, feature: "milp", why: "any problem in this build: it needs the feature `milp`" }
}

pub(crate) static BNP: Absent = absent("bnp");
pub(crate) static BNP_AFTER_SEARCH: Absent = absent("bnp");
pub(crate) static LNS: Absent = absent("lns");
pub(crate) static MILP: Absent = absent("milp");
