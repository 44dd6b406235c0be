//! `separate` training by sweeping the cap on forward loads.
//!
//! The value is F + B, the largest forward load plus the largest backward load. A recurrence can minimise one
//! of them under a cap on the other; the sweep turns that into the minimum of the sum. It minimises F once, for
//! a lower bound F₀. Then, with a cap φ on F, it minimises B: every placement with F < φ has B ≥ B*(φ), so one
//! that improves on the best sum found has F < best − B*(φ), which is the next cap. The caps fall, B* rises,
//! and the sweep ends where nothing is left between them.

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
/// `minimise(pass, caps)` minimises the largest load of `pass` over placements whose loads are below both caps;
/// it answers none where there is no such placement, and an error where it could not finish; the sweep then
/// answers that error with the best sum so far.
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
                // The forward load found is itself below the cap, so the cap falls in every round.
                forward_cap = forward.min(value - backward);
                if forward_cap <= least_forward {
                    return Ok(best);
                }
            }
        }
    }
}
