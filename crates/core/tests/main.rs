//! The cost model, the simulator, schedules and bounds checked against independent definitions.

mod batch;
mod limits;
mod makespan_bounds;
mod oracles;
mod schedule;
mod simulate;
mod solver;
mod steady;
