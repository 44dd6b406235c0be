//! What people and programs get to see of a solution.

pub mod document;
pub mod step;
pub mod table;
pub mod units;
