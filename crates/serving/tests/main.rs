//! Integration tests: times and bytes by hand, properties, edge cases, the check of plans, the simulator, and the tables of the
//! judge.

mod agreement;
mod benchmark;
mod by_hand;
mod check;
mod edges;
mod fixture;
mod judge;
mod load;
mod properties;
mod simulator;
mod tables;
mod tails;
