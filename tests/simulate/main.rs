//! One step of a plan, for people and programs: its figures, its trace, the command.

mod command;
mod problems;
mod steady;
mod step;
mod trace;
