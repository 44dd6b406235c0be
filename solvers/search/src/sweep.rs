//! `separate` training by sweeping the cap on forward loads.
//!
//! The value is F + B, the largest forward load plus the largest backward load. A recurrence can minimise one
//! of them under a cap on the other; the sweep turns that into the minimum of the sum. It minimises F once,
//! for a lower bound F₀. Then, with a cap φ on F, it minimises B: every placement with F < φ has B ≥ B*(φ),
//! so one that improves on the best sum found has F < best − B*(φ), which is the next cap. The caps fall, B*
//! rises, and the sweep ends when no F is left between F₀ and the cap.
//!
//! A recurrence may sum a load in a different order from the caller that reports it, so a placement reported exactly at
//! the cap may look to the recurrence as if it were below the cap. Every cap is therefore lower than the last by half
//! of [`OPTIMAL_RELATIVE`]: more than rounding, so that the sweep ends, and little enough that a skipped placement
//! improves on the best sum by less than the tolerance (F ≥ (1 − ε) φ and B ≥ B* give F + B ≥ (1 − ε) best).

use stagewright_core::tolerance::OPTIMAL_RELATIVE;

/// Factor on the cap in every round.
const SHRINK: f64 = 1.0 - 0.5 * OPTIMAL_RELATIVE;

/// The result of minimising one pass's largest load under caps.
#[derive(Debug, Clone)]
pub struct Minimised<P> {
    /// Largest load per pass.
    pub loads: [f64; 2],
    /// The placement.
    pub placement: P,
}

/// A sum with its placement, if any.
pub type Best<P> = Option<(f64, P)>;

/// Minimises F + B below `cap`.
///
/// `minimise(pass, caps)` minimises the largest load of `pass` over placements whose loads are below both
/// caps. It returns `None` if there is no such placement, and an error if it could not finish; the sweep then
/// returns that error with the best sum so far. The reported loads may exceed the caps by rounding. If the
/// sweep finishes, no placement improves on the returned sum by [`OPTIMAL_RELATIVE`] or more.
pub fn sweep<P, E>(
    cap: f64,
    mut minimise: impl FnMut(usize, [f64; 2]) -> Result<Option<Minimised<P>>, E>,
) -> Result<Best<P>, (E, Best<P>)> {
    let mut best: Best<P> = None;
    let least_forward = match minimise(0, [cap, cap]) {
        Ok(None) => return Ok(best),
        Ok(Some(found)) => {
            let sum = found.loads[0] + found.loads[1];
            if sum < cap {
                best = Some((sum, found.placement));
            }
            found.loads[0]
        }
        Err(stop) => return Err((stop, best)),
    };
    let mut forward_cap = cap;
    loop {
        let value = best.as_ref().map_or(cap, |&(value, _)| value);
        match minimise(1, [forward_cap, value - least_forward]) {
            Ok(None) => return Ok(best),
            Err(stop) => return Err((stop, best)),
            Ok(Some(found)) => {
                let [forward, backward] = found.loads;
                let value = if forward + backward < value {
                    best = Some((forward + backward, found.placement));
                    forward + backward
                } else {
                    value
                };
                let next = forward_cap.min(forward).min(value - backward) * SHRINK;
                // The cap fails to fall only if it is zero or so small that rounding hides the factor.
                if next <= least_forward || next >= forward_cap {
                    return Ok(best);
                }
                forward_cap = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Minimum load of a pass over a list of (seen, reported) loads; the caps apply to the seen loads.
    fn minimise(
        placements: &[([f64; 2], [f64; 2])],
        pass: usize,
        caps: [f64; 2],
    ) -> Option<Minimised<usize>> {
        let below = |seen: &[f64; 2]| seen[0] < caps[0] && seen[1] < caps[1];
        let found = placements.iter().enumerate().filter(|(_, (seen, _))| below(seen));
        found
            .min_by(|a, b| a.1.0[pass].total_cmp(&b.1.0[pass]))
            .map(|(placement, &(_, loads))| Minimised { loads, placement })
    }

    /// Sweeps; fails after more than two rounds per placement plus one (each is found once per pass).
    fn swept(cap: f64, placements: &[([f64; 2], [f64; 2])]) -> Best<usize> {
        let mut rounds = 0;
        let found = sweep(cap, |pass, caps| {
            rounds += 1;
            assert!(rounds <= 2 * placements.len() + 1, "the caps do not fall");
            Ok::<_, Infallible>(minimise(placements, pass, caps))
        });
        match found {
            Ok(best) => best,
            Err((never, _)) => match never {},
        }
    }

    #[test]
    fn finds_the_least_sum() {
        let exact = |loads: [f64; 2]| (loads, loads);
        let placements = [[1.0, 9.0], [2.0, 6.0], [3.0, 4.5], [4.0, 4.0], [7.0, 1.5], [9.0, 1.0]].map(exact);
        assert_eq!(swept(f64::INFINITY, &placements), Some((7.5, 2)));
        assert_eq!(swept(7.5, &placements), None);
        assert_eq!(swept(f64::INFINITY, &[exact([0.0, 0.0])]), Some((0.0, 0)));
    }

    #[test]
    fn loads_reported_above_the_cap_by_rounding_do_not_loop() {
        let above = |load: f64| load * (1.0 + 4.0 * f64::EPSILON);
        let seen = [[0.5, 1.2], [0.6, 1.2], [0.6, 1.0], [0.7, 1.0], [0.8, 0.9]];
        let placements = seen.map(|seen| (seen, seen.map(above)));
        let (value, index) = swept(f64::INFINITY, &placements).expect("a placement");
        assert!((value - 1.6).abs() < 1e-12 && index == 2, "{value} {index}");
    }
}
