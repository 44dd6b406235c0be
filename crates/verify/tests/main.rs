//! The checker on plans that are right, and on plans that are not.

mod arbitrary;
mod bounds;
mod calls;
mod columns;
mod contention_free;
mod critical_path;
mod definitions;
mod documents;
mod errors;
mod fits;
mod joint;
mod latency;
mod makespan;
mod modes;
mod offload;
mod scale;
mod violations;
