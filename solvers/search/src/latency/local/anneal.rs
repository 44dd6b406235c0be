//! One walk of simulated annealing (Kirkpatrick, Gelatt and Vecchi, Science 1983).

use rand::{Rng, RngExt};
use stagewright_core::placement::Placement;
use stagewright_core::solver::Stop;

use super::moves::Moves;
use super::state::SiteAssignment;

/// Number of moves at one temperature.
const AT_ONE_TEMPERATURE: u64 = 64;
/// Temperature at the end, as a fraction of the value.
const COLD: f64 = 1e-6;
/// Factor below which a value is an improvement rather than rounding.
const BETTER: f64 = 1.0 - 1e-12;

/// Length and temperature of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cooling {
    /// Number of moves to try.
    pub(super) moves: u64,
    /// Temperature at the start, as a fraction of the value: a loss of that fraction is accepted with
    /// probability 1/e.
    pub(super) hot: f64,
    /// Value at which the walk ends.
    pub(super) target: f64,
}

/// Walks from a state; returns the best value with its placement, and the number of moves tried.
pub(super) fn anneal(
    mut state: SiteAssignment<'_>,
    cooling: Cooling,
    rng: &mut impl Rng,
    stop: &Stop,
) -> (f64, Placement, u64) {
    let mut best = state.value();
    let mut placement = state.placement();
    let graph = state.problem().graph();
    if graph.operator_count() == 0 {
        return (best, placement, 0);
    }
    let mut moves = Moves::new(graph);
    let mut was = Vec::new();
    let factor = (COLD / cooling.hot).powf(AT_ONE_TEMPERATURE as f64 / cooling.moves.max(1) as f64);
    let mut temperature = cooling.hot * best;
    let mut tried = 0;
    let mut best_is_here = true;
    // A move costs as much as reading the graph, so the clock is checked at each.
    while tried < cooling.moves && best > cooling.target && stop.reason().is_none() {
        if tried.is_multiple_of(AT_ONE_TEMPERATURE) {
            temperature *= factor;
        }
        tried += 1;
        let before = state.value();
        let drawn = moves.draw(&state, rng);
        if drawn.is_empty() {
            continue;
        }
        // The placement of the best state is saved when the walk leaves it.
        let limit = before - temperature * (1.0 - rng.random_range(0.0..1.0f64)).ln();
        let kept = best_is_here && before <= best;
        let Some(after) = state.shift(drawn.iter().copied(), &mut was) else { continue };
        if after > limit {
            state.restore(&was, before);
            continue;
        }
        if kept && after > best {
            // Reverting the move once is cheaper than a copy at every improvement.
            let here = state.value();
            let forth: Vec<_> = was.iter().map(|&(op, _)| (op, state.site(op))).collect();
            state.restore(&was, before);
            placement = state.placement();
            let back = state.shift(forth.into_iter(), &mut was);
            debug_assert!(back.is_some_and(|value| (value - here).abs() <= 1e-9 * here));
            best_is_here = false;
        }
        if after < best * BETTER {
            best = after;
            best_is_here = true;
        }
    }
    if best_is_here {
        placement = state.placement();
    }
    (best, placement, tried)
}
