//! The names of the learned policy and systems, in builds without them.

use stagewright_core::solver::Solver;

use crate::absent::Absent;

const fn absent(name: &'static str) -> Absent {
    Absent { name, feature: "policy", why: "any problem in this build: it needs the feature `policy`" }
}

pub(crate) static POLICY: Absent = absent("policy");
pub(crate) static GDP: Absent = absent("gdp");
pub(crate) static PLACETO: Absent = absent("placeto");
pub(crate) static HSDAG: Absent = absent("hsdag");
pub(crate) static HDP: Absent = absent("hdp");

pub(crate) const ABLATIONS: [&dyn Solver; 0] = [];
