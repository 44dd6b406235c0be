//! Heuristics, baselines and building blocks that the exact solvers share.
//!
//! - [`order`]: linear orders of the units, each a topological order.
//! - [`anchored`]: bounds for any split that count communication, by minimum cuts around single units.
//! - [`boundary`]: stage boundaries as minimum cuts, a bound and a refinement.
//! - [`dpl`]: the exact dynamic program over one linear order, and the solver that tries several.
//! - [`usage`], [`sweep`]: what every recurrence over stages needs: how many devices of each pool are in use,
//!   and how `separate` training is reduced to one pass at a time.
//! - [`pipeline`]: the stages whose iteration under a schedule is shortest.
//! - [`latency`]: one sample through offloaded calls.
//! - [`makespan`]: one step under dataflow execution: list schedulers and search on the simulator.
//! - [`pipedream`], [`one_device`]: baselines.
//! - [`local`]: local search for free splits.
//! - [`expert`]: what people do by hand or by their framework's default, as baselines.

pub mod anchored;
pub mod boundary;
pub mod dpl;
pub mod expert;
mod flow;
pub mod latency;
pub mod local;
pub mod makespan;
pub mod one_device;
pub mod order;
pub mod pipedream;
pub mod pipeline;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod usage;

pub use anchored::{Anchored, AnchoredFluid};
pub use dpl::Dpl;
pub use expert::{
    AccelerateBalanced, EmbeddingsOnHost, EqualLayers, EqualParameters, EqualTime, GraphPartition,
    LayerPerDevice,
};
pub use latency::greedy::LatencyGreedy;
pub use local::Local;
pub use makespan::{
    Annealing, AnnealingFromRandom, Brkga, Cpop, EarliestTaskFirst, Heft, Multilevel, OrderSplit, Peft,
    RandomPlacements, SmallCommunication, Tabu,
};
pub use one_device::OneDevice;
pub use pipedream::PipeDream;
