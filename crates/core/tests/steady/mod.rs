//! The steady state: on random placements it keeps every rule, and its period is the value; small cases are worked by
//! hand.

mod by_hand;
use stagewright_testing::random;
mod rules;
