//! The names of the learned policy and systems, in builds without them.

use crate::absent::Absent;

const fn absent(name: &'static str) -> Absent {
    Absent { name, why: "any problem in this build: it needs the feature `policy`" }
}

pub(crate) static POLICY: Absent = absent("policy");
pub(crate) static UNTRAINED: Absent = absent("policy-untrained");
pub(crate) static NO_NETWORK: Absent = absent("policy-no-network");
pub(crate) static NETWORK: Absent = absent("policy-network");
pub(crate) static GDP: Absent = absent("gdp");
pub(crate) static PLACETO: Absent = absent("placeto");
pub(crate) static HSDAG: Absent = absent("hsdag");
pub(crate) static HDP: Absent = absent("hdp");
pub(crate) static GDP_UNTRAINED: Absent = absent("gdp-untrained");
pub(crate) static PLACETO_UNTRAINED: Absent = absent("placeto-untrained");
pub(crate) static HSDAG_UNTRAINED: Absent = absent("hsdag-untrained");
pub(crate) static HDP_UNTRAINED: Absent = absent("hdp-untrained");
