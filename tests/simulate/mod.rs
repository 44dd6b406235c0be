//! One step of a plan, for display and as data: its figures, its trace, the command.

mod command;
mod steady;
mod step;
mod trace;
