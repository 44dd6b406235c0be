//! One step of a plan, for display and as data: figures, trace and command.

mod command;
mod steady;
mod step;
mod trace;
