//! The kinds of questions that each option has an effect on.

use super::Kind;
use crate::code::U013;
use crate::failure::{Failure, Result};
use crate::reading::Place;

/// Options that only some kinds of questions have, by name.
pub const OPTIONS: &[(&str, &[Kind])] = &[
    ("cluster", &[Kind::Placement, Kind::Joint]),
    ("costs", &[Kind::Placement, Kind::Joint]),
    ("memory_reserve", &[Kind::Placement, Kind::Joint]),
    ("pins", &[Kind::Placement]),
    ("objective", &[Kind::Placement]),
    ("split", &[Kind::Placement]),
    ("communication", &[Kind::Placement]),
    ("training", &[Kind::Placement]),
    ("calls", &[Kind::Placement]),
    ("execution", &[Kind::Placement]),
    ("schedule", &[Kind::Placement, Kind::Joint]),
    ("microbatches", &[Kind::Placement]),
    ("max_replicas", &[Kind::Placement]),
    ("parallel", &[Kind::Joint]),
    ("global_batch", &[Kind::Joint]),
    ("microbatch", &[Kind::Joint]),
    ("recompute_workspace", &[Kind::Joint]),
    // Of bounds: a plan takes the name of the only solver of its kind.
    ("solver", &[Kind::Placement]),
    ("start", &[Kind::Placement, Kind::Strategies]),
    ("simulations", &[Kind::Placement]),
    ("checkpoint", &[Kind::Placement]),
    ("robust", &[Kind::Placement]),
    ("costs_off", &[Kind::Placement]),
    ("dot", &[Kind::Placement]),
    ("trace", &[Kind::Placement]),
    ("html", &[Kind::Placement, Kind::Joint]),
    ("convergence", &[Kind::Placement]),
    ("solvers", &[Kind::Placement]),
    ("plan", &[Kind::Placement]),
    ("baseline", &[Kind::Placement]),
];

/// Refuses options that have no effect on questions of a kind.
///
/// # Errors
/// The first such option (U013).
pub fn refuse<'a>(kind: Kind, given: impl IntoIterator<Item = &'a str>, place: &Place) -> Result<()> {
    for name in given {
        let applies = OPTIONS.iter().find(|(option, _)| *option == name);
        if applies.is_some_and(|(_, kinds)| !kinds.contains(&kind)) {
            let option = place(name);
            let cause = format!("{option} does not apply to a {}", kind.name());
            return Err(Failure::new(U013, cause).at(option).help("leave it out"));
        }
    }
    Ok(())
}
