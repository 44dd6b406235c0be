//! Plans exported to runtimes: every operator exactly once, worked examples, and the command.

mod command;
mod divided;
mod features;
mod golden;
mod plans;
mod random;
mod refusals;
