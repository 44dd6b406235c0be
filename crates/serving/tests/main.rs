//! Integration tests: times and bytes by hand, properties, edge cases, the simulator, and the tables of the judge.

mod agreement;
mod by_hand;
mod edges;
mod fixture;
mod judge;
mod load;
mod properties;
mod simulator;
mod tables;
