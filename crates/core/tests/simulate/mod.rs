//! The simulator: cases worked by hand, a slow reference that it must agree with, and the evaluation of
//! makespans.

mod by_hand;
mod evaluation;
mod flows;
mod in_turn;
mod model;
mod problems;
mod reference;
mod rerun;
mod step;
