//! Integration tests of the joint planner.

mod piper;
mod random;
