//! The modules of the example `judge`, so that its tables have no second copy.

#[path = "../examples/judge/devices.rs"]
pub(crate) mod devices;
#[path = "../examples/judge/fit.rs"]
pub(crate) mod fit;
#[path = "../examples/judge/models.rs"]
pub(crate) mod models;
#[path = "../examples/judge/rows.rs"]
#[allow(dead_code, reason = "the example prints more of a row")]
pub(crate) mod rows;
#[path = "../examples/judge/summary.rs"]
pub(crate) mod summary;
