//! Integration tests of the joint planner.

mod iteration;
mod piper;
mod random;
