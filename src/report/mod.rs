//! What people and programs get to see of a solution.

pub mod document;
pub mod schedule;
pub mod step;
pub mod table;
pub mod units;
