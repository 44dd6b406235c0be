//! Tests of the solver against all plans, and on clusters of several kinds.

mod agreement;
mod clusters;
mod fixture;
mod rules;
mod running;
