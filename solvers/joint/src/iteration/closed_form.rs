//! Lower bounds on the time of a schedule from the work of all stages, independent of their numbers of layers.
//!
//! W is the sum of the seconds of all stages for a microbatch, p the number of devices and m the number of
//! microbatches.

/// Bound for 1F1B whose slowest stage takes at least `slowest` seconds, with forward passes of at most the fraction
/// `share` of any stage.
///
/// A microbatch passes through the other stages as well, while the slowest stage runs no more than the forward passes
/// of its other microbatches in flight.
pub(super) fn one_f_one_b(work: f64, slowest: f64, share: f64, devices: u32, microbatches: u32) -> f64 {
    let in_flight = f64::from(devices.min(microbatches));
    let waits = f64::from(microbatches) - 1.0 - (in_flight - 1.0) * share;
    work + waits.max(0.0) * slowest
}

/// Bound for zero-bubble with forward passes of at least the fraction `share` of any stage.
///
/// Stage s needs Σ_{i < s} f_i + m · τ_s. Weighted by w_s, which sum up to 1, that is at least
/// Σ_i τ_i · (m · w_i + share · Σ_{s > i} w_s); the factors are equal for the weights chosen here.
pub(super) fn zero_bubble(work: f64, share: f64, devices: u32, microbatches: u32) -> f64 {
    let (p, m) = (f64::from(devices), f64::from(microbatches));
    // 1 − (1 − share / m)^p, accurate even if share / m is below the rounding error of 1.
    let busiest = -(p * (-share / m).ln_1p()).exp_m1();
    if busiest > 0.0 { work * share / busiest } else { work * m / p }
}

/// Bound for zero-bubble-2p whose slowest stage takes at least `slowest` seconds, and all of whose updates take `update`.
///
/// An iteration takes max (e_s − s_s + u_s) ≥ max (m · τ_s + u_s), which is at least the mean over the stages. The stage
/// with the most work may have a shorter update than the mean.
pub(super) fn zero_bubble_twice(
    work: f64,
    slowest: f64,
    update: f64,
    devices: u32,
    microbatches: u32,
) -> f64 {
    let (p, m) = (f64::from(devices), f64::from(microbatches));
    ((m * work + update) / p).max(m * slowest)
}

/// Bound for interleaved 1F1B with v stages per device.
///
/// Let L_r be the seconds of device r for a microbatch, f and b the seconds of the passes of a stage, and T the time.
/// The first microbatch reaches chunk c of device i after the forward passes of the stages before it, and the last
/// leaves chunk c' before the backward passes of the stages before it. Between these times, device i does all its work
/// except p forward passes of each chunk before c and p backward passes of each chunk before c':
///
/// ```text
/// T ≥ Σ_{k < cp+i} f_k + Σ_{k < c'p+i} b_k + m · L_i − p · Σ_{k < c} f_{kp+i} − p · Σ_{k < c'} b_{kp+i}
/// ```
///
/// In the mean over the devices, the passes of the chunks before c and c' cancel, and the remainder, averaged over c
/// and c', is (m · W + Σ_r (p − 1 − r) · L_r / v) / p. No device is busy for longer than T with its m microbatches, so
/// L_r ≤ T / m, and the sum is minimal if the last devices have as much work as that and the first has the rest.
pub(super) fn interleaved(work: f64, chunks: u32, devices: u32, microbatches: u32) -> f64 {
    let (p, m) = (f64::from(devices), f64::from(microbatches));
    let ramp = (p - 1.0) / f64::from(chunks);
    work / p * (m + ramp) / (1.0 + ramp / (2.0 * m))
}

/// Bound for DualPipeV, whose devices take `work` seconds together and one of them at least `longest` for a microbatch.
pub(super) fn dualpipe_v(work: f64, longest: f64, devices: u32, microbatches: u32) -> f64 {
    f64::from(microbatches) * (work / f64::from(devices)).max(longest)
}

#[cfg(test)]
mod tests {
    use rand::{Rng, RngExt};
    use stagewright_core::document::Schedule;
    use stagewright_core::schedule::{self, StageTimes};
    use stagewright_core::seed;

    use super::{dualpipe_v, interleaved, one_f_one_b, zero_bubble, zero_bubble_twice};

    fn stages(rng: &mut impl Rng, count: u32) -> Vec<StageTimes> {
        let alike = rng.random_bool(0.3);
        let first: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.01..1.0));
        let mut stage = |_| {
            let [forward, backward, weight] = match alike {
                true => first,
                false => std::array::from_fn(|_| rng.random_range(0.01..1.0)),
            };
            StageTimes { forward, backward, weight }
        };
        (0..count).map(&mut stage).collect()
    }

    #[test]
    fn no_schedule_is_below_its_bound() {
        for number in 0..3000 {
            let rng = &mut seed::stream(77, number);
            let (devices, chunks) = (rng.random_range(1..7), rng.random_range(2..5));
            let microbatches = rng.random_range(1..20);
            let each = stages(rng, devices);
            let work: f64 = each.iter().map(StageTimes::total).sum();
            let slowest = each.iter().map(StageTimes::total).fold(0.0, f64::max);
            let shares = || each.iter().map(|stage| stage.forward / stage.total());
            let (least, largest) = (shares().fold(1.0, f64::min), shares().fold(0.0, f64::max));
            for (schedule, bound) in [
                (Schedule::OneFOneB, one_f_one_b(work, slowest, largest, devices, microbatches)),
                (Schedule::ZeroBubble, zero_bubble(work, least, devices, microbatches)),
                (Schedule::ZeroBubble, zero_bubble(work, 0.0, devices, microbatches)),
            ] {
                let time = schedule::iteration(schedule, &each, microbatches);
                assert!(bound <= time * (1.0 + 1e-12), "{number} {schedule:?}: {bound} and {time}");
            }
            let updates: Vec<f64> = each.iter().map(|_| rng.random_range(0.0..9.0)).collect();
            let time = schedule::updated(Schedule::ZeroBubbleTwice, &each, &updates, microbatches);
            let bound = zero_bubble_twice(work, slowest, updates.iter().sum(), devices, microbatches);
            assert!(bound <= time * (1.0 + 1e-12), "{number}: {bound} and {time}");
            let rounds = devices * microbatches.min(5);
            let each = stages(rng, devices * chunks);
            let work: f64 = each.iter().map(StageTimes::total).sum();
            let time = schedule::chunked(Schedule::Interleaved, &each, devices, rounds).expect("a schedule");
            let bound = interleaved(work, chunks, devices, rounds);
            assert!(bound <= time * (1.0 + 1e-12), "{number}: {bound} and {time}");
            let each = stages(rng, 2 * devices);
            let work: f64 = each.iter().map(StageTimes::total).sum();
            let load = |device: usize| {
                let own = Schedule::DualPipeV.stages_of(device, devices as usize, each.len());
                own.map(|stage| each[stage].total()).sum()
            };
            let longest = (0..devices as usize).map(load).fold(0.0, f64::max);
            let m = 2 * devices + microbatches;
            let time = schedule::chunked(Schedule::DualPipeV, &each, devices, m).expect("a schedule");
            let bound = dualpipe_v(work, longest, devices, m);
            assert!(bound <= time * (1.0 + 1e-12), "{number}: {bound} and {time}");
        }
    }

    #[test]
    fn small_shares_of_forward_passes_do_not_cancel() {
        for exponent in 0..300 {
            let share = 10f64.powi(-exponent);
            for (devices, microbatches) in [(1, 1), (2, 4), (96, 131_072), (4096, 3)] {
                let (p, m) = (f64::from(devices), f64::from(microbatches));
                let bound = zero_bubble(1.0, share, devices, microbatches);
                // Part of the time is spent on forward passes of the other stages.
                assert!(bound >= m / p * (1.0 - 1e-12), "{share} {devices} {microbatches}: {bound}");
                let limit = (m / p + share * p) * (1.0 + 1e-12);
                assert!(bound <= limit, "{share} {devices} {microbatches}: {bound}");
            }
        }
    }

    #[test]
    fn half_of_the_ramp_is_bounded() {
        // Equal stages take W / p · (m + (p − 1) / v).
        let bound = interleaved(8.0, 2, 4, 16);
        let time = 2.0 * (16.0 + 1.5);
        assert!(bound < time && bound > time - 2.0 * 0.8, "{bound} and {time}");
    }
}
