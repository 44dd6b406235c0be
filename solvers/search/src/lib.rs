//! Heuristics, baselines and the building blocks shared with the exact solvers.
//!
//! - [`order`]: linear orders of the units, each a topological order.
//! - [`anchored`]: bounds for every split rule that count communication, by minimum cuts around single units.
//! - [`boundary`]: stage boundaries as minimum cuts: a bound and a refinement.
//! - [`dpl`]: the exact dynamic program over one linear order, and the solver that tries several.
//! - [`usage`], [`sweep`]: common parts of recurrences over stages: the number of devices in use per pool, and the
//!   reduction of `separate` training to one pass at a time.
//! - [`pipeline`]: the stages with the shortest iteration under a schedule.
//! - [`latency`]: one sample through offloaded calls.
//! - [`pipedream`], [`one_device`]: baselines.
//! - [`local`]: local search for free splits.
//! - [`robust`]: the plan with the best worst case under uncertain costs.
//! - [`selection`]: requirements on plans, and the best plan by a second goal.
//! - [`expert`]: manual strategies and framework defaults, as baselines.

pub mod anchored;
pub mod boundary;
pub mod dpl;
pub mod expert;
mod flow;
pub mod latency;
pub mod local;

pub mod one_device;
pub mod order;
pub mod pipedream;
pub mod pipeline;
mod recurrence;
pub mod robust;
pub mod selection;
pub mod sweep;
pub mod usage;

pub use anchored::{Anchored, AnchoredFluid};
pub use dpl::Dpl;
pub use expert::{
    ACCELERATE_BALANCED, EMBEDDINGS_ON_HOST, EQUAL_LAYERS, EQUAL_PARAMETERS, EQUAL_TIME, GRAPH_PARTITION,
    LAYER_PER_DEVICE,
};
pub use latency::greedy::LatencyGreedy;
pub use local::Local;
pub use one_device::OneDevice;
pub use pipedream::PipeDream;
