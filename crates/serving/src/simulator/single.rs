//! One server alone, whose waits are known from the theory of queues.

use rand::{Rng, RngExt};
use stagewright_core::seed;

use super::calendar::Calendar;
use super::server::Server;

/// Batches of jobs whose means give the standard error.
const BATCHES: u64 = 20;

/// Waits before the service of jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waits {
    /// Mean, in seconds.
    pub mean: f64,
    /// Standard error of the mean by the method of batch means (Law, *Simulation Modeling and Analysis*, 9.5.3): the waits of
    /// neighbours are alike, but the means of long batches hardly.
    pub standard_error: f64,
}

/// Time of exponential distribution with a mean.
pub fn exponential(rng: &mut (impl Rng + ?Sized), mean: f64) -> f64 {
    // A number in [0, 1) keeps the logarithm finite.
    -mean * (1.0 - rng.random::<f64>()).ln()
}

enum Event {
    Arrival,
    Done,
}

/// Waits of jobs that arrive as a Poisson process of `rate` jobs a second at one server, without those of the first `warm_up`.
/// Service times are drawn by `service`. The events and the server are those of the stages of replicas.
///
/// With ρ = rate · mean service s < 1, theory says ρ · s / (1 − ρ) for exponential services, and half of that for constant ones
/// (Pollaczek and Khinchine).
pub fn single_server(
    seed: u64,
    rate: f64,
    [warm_up, jobs]: [u64; 2],
    mut service: impl FnMut(&mut dyn Rng) -> f64,
) -> Waits {
    let (mut arrivals, mut services) = (seed::stream(seed, 0), seed::stream(seed, 1));
    let mut calendar = Calendar::new();
    let mut server: Server<f64> = Server::new();
    let mut sums = [0.0; BATCHES as usize];
    let size = (jobs / BATCHES).max(1);
    let mut begun = 0;
    calendar.after(exponential(&mut arrivals, 1.0 / rate), Event::Arrival);
    while begun < warm_up.saturating_add(BATCHES * size) {
        let Some(event) = calendar.pop() else { break };
        let now = calendar.now();
        let mut begin = |arrived: &f64| {
            if let Some(number) = begun.checked_sub(warm_up) {
                sums[(number / size) as usize] += now - arrived;
            }
            begun += 1;
            service(&mut services)
        };
        let next = match event {
            Event::Arrival => {
                calendar.after(exponential(&mut arrivals, 1.0 / rate), Event::Arrival);
                server.arrive(now, &mut begin)
            }
            Event::Done => server.finish(&mut begin).1,
        };
        if let Some(seconds) = next {
            calendar.after(seconds, Event::Done);
        }
    }
    let means = sums.map(|sum| sum / size as f64);
    let mean = means.iter().sum::<f64>() / BATCHES as f64;
    let squares: f64 = means.iter().map(|batch| (batch - mean).powi(2)).sum();
    Waits { mean, standard_error: (squares / (BATCHES * (BATCHES - 1)) as f64).sqrt() }
}
