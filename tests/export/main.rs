//! Plans carried into runtimes: every operator once, worked examples, and the command.

mod command;
mod divided;
mod golden;
mod plans;
mod random;
mod refusals;
