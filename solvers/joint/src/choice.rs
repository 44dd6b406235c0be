//! The choice of a configuration for every layer of a stage: least time within the memory of a device.
//!
//! A multiple-choice knapsack problem (Kellerer, Pferschy and Pisinger, "Knapsack Problems", 2004, chapter 11), solved
//! layer by layer: states are pairs of bytes and seconds. Dominated states are dropped, and so are states that the
//! linear relaxation of the remaining layers shows to be no better than a known choice. Layers whose option the
//! relaxation decides come first, so that few states remain at any time.
//!
//! If layers are recomputed one at a time, a stage needs only the largest of their workspaces, not the sum. Each
//! possible value of the largest workspace is tried, with the configurations that need no more.

use stagewright_core::tolerance::OPTIMAL_RELATIVE;

/// Maximum number of states at a time. If states are dropped to stay within it, the choice is not proved optimal.
const MAX_STATES: usize = 1 << 14;

/// Maximum relative error of a sum of a few thousand terms.
const ROUNDING: f64 = 1e-12;

/// A configuration of a layer in a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) seconds: f64,
    /// Bytes that are summed over layers.
    pub(crate) bytes: f64,
    /// Bytes of which a stage needs only the maximum over its layers.
    pub(crate) workspace: f64,
    /// Index among the configurations of the layer.
    pub(crate) index: u32,
}

/// A choice of configurations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) seconds: f64,
    /// Index of the configuration of every layer.
    pub(crate) configurations: Vec<u32>,
    /// Whether no other choice takes less time.
    pub(crate) is_best: bool,
}

/// The outcome of a search for a choice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// A choice.
    Found(Choice),
    /// Every choice within the memory takes at least this time in seconds; infinite if there is no such choice.
    Above(f64),
    /// The number of states exceeded its maximum, so it is unknown whether a choice exists.
    Undecided,
}

/// Finds a choice that takes at most `cutoff` seconds and fits into `capacity` bytes: the best, or any that takes at
/// most `enough` seconds. O(layers² · options), plus time and memory for up to `MAX_STATES` states for every layer and
/// every largest workspace.
pub(crate) fn least(layers: &[Vec<Candidate>], capacity: f64, enough: f64, cutoff: f64) -> Outcome {
    let mut largest: Vec<f64> = layers.iter().flatten().map(|option| option.workspace).collect();
    largest.push(0.0);
    largest.sort_unstable_by(f64::total_cmp);
    largest.dedup();
    let (mut best, mut above, mut undecided) = (None::<Choice>, f64::INFINITY, false);
    let mut allowed: Vec<Vec<Candidate>> = Vec::new();
    for workspace in largest {
        let known = best.as_ref().map_or(cutoff, |choice| choice.seconds);
        if capacity < workspace {
            break;
        }
        allowed.clear();
        let within = |options: &Vec<Candidate>| -> Vec<Candidate> {
            undominated(options.iter().filter(|option| option.workspace <= workspace).copied().collect())
        };
        allowed.extend(layers.iter().map(within));
        if allowed.iter().any(Vec::is_empty) {
            continue;
        }
        match Knapsack::new(&allowed, capacity - workspace).solve(enough, known) {
            Outcome::Found(choice) if choice.seconds <= enough => return Outcome::Found(choice),
            Outcome::Found(choice) => {
                let is_better = best.as_ref().is_none_or(|best| choice.seconds < best.seconds);
                if is_better {
                    best = Some(choice);
                }
            }
            Outcome::Above(seconds) => above = above.min(seconds),
            Outcome::Undecided => undecided = true,
        }
    }
    match best {
        Some(choice) => Outcome::Found(Choice { is_best: choice.is_best && !undecided, ..choice }),
        None if undecided => Outcome::Undecided,
        None => Outcome::Above(above),
    }
}

/// The undominated options of a layer, by ascending bytes and descending seconds.
fn undominated(mut options: Vec<Candidate>) -> Vec<Candidate> {
    options.sort_by(|a, b| a.bytes.total_cmp(&b.bytes).then(a.seconds.total_cmp(&b.seconds)));
    let mut fastest = f64::INFINITY;
    options.retain(|option| {
        let is_faster = option.seconds < fastest;
        fastest = fastest.min(option.seconds);
        is_faster
    });
    options
}

/// More memory for less time: a step from an option of a layer to a larger one, on the convex hull of its options.
#[derive(Debug, Clone, Copy)]
struct Step {
    layer: usize,
    /// Option after the step.
    to: usize,
    bytes: f64,
    /// Seconds saved.
    saved: f64,
}

impl Step {
    fn rate(&self) -> f64 {
        self.saved / self.bytes
    }
}

/// The linear relaxation of some layers: steps by descending rate, with prefix sums.
#[derive(Debug, Default)]
struct Relaxation {
    bytes: f64,
    seconds: f64,
    /// Minimum seconds of the layers without a memory limit.
    fastest: f64,
    /// For every step, the bytes and the saved seconds of all steps up to and including it.
    sums: Vec<(f64, f64)>,
}

impl Relaxation {
    fn new(layers: &[Vec<Candidate>], steps: &[Step], is_of: impl Fn(usize) -> bool) -> Relaxation {
        let smallest_option = |(layer, options): (usize, &Vec<Candidate>)| is_of(layer).then(|| options[0]);
        let smallest = layers.iter().enumerate().filter_map(smallest_option);
        let (bytes, seconds) =
            smallest.fold((0.0, 0.0), |sum, option| (sum.0 + option.bytes, sum.1 + option.seconds));
        let mut sum = (0.0, 0.0);
        let sums = steps.iter().filter(|step| is_of(step.layer)).map(|step| {
            sum = (sum.0 + step.bytes, sum.1 + step.saved);
            sum
        });
        let fastest = layers.iter().enumerate().filter(|&(layer, _)| is_of(layer));
        let fastest = fastest.map(|(_, options)| options[options.len() - 1].seconds).sum();
        Relaxation { bytes, seconds, fastest, sums: sums.collect() }
    }

    /// Minimum seconds within a number of bytes; infinite if the smallest options do not fit.
    fn seconds(&self, capacity: f64) -> f64 {
        let left = capacity - self.bytes;
        if left < 0.0 {
            return f64::INFINITY;
        }
        let whole = self.sums.partition_point(|&(bytes, _)| bytes <= left);
        let (bytes, saved) = if whole == 0 { (0.0, 0.0) } else { self.sums[whole - 1] };
        let part = match self.sums.get(whole) {
            Some(&(next_bytes, next_saved)) => (left - bytes) * (next_saved - saved) / (next_bytes - bytes),
            None => 0.0,
        };
        // The result is a difference of sums that may be much larger.
        (self.seconds * (1.0 - ROUNDING) - saved - part).max(self.fastest)
    }
}

/// A choice so far: its bytes and seconds, and the state and option that it came from.
#[derive(Debug, Clone, Copy)]
struct State {
    bytes: f64,
    seconds: f64,
    from: u32,
    option: u32,
}

struct Knapsack<'l> {
    layers: &'l [Vec<Candidate>],
    capacity: f64,
    /// Steps of all layers by descending rate.
    steps: Vec<Step>,
}

impl<'l> Knapsack<'l> {
    fn new(layers: &'l [Vec<Candidate>], capacity: f64) -> Knapsack<'l> {
        let mut steps: Vec<Step> =
            layers.iter().enumerate().flat_map(|(layer, options)| hull(layer, options)).collect();
        // The steps of a layer stay in their order, since their rates descend.
        steps.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
        Knapsack { layers, capacity, steps }
    }

    fn solve(&self, enough: f64, cutoff: f64) -> Outcome {
        let bound = Relaxation::new(self.layers, &self.steps, |_| true).seconds(self.capacity);
        // The bound sums the terms in a different order.
        if bound * (1.0 - OPTIMAL_RELATIVE) > cutoff || bound == f64::INFINITY {
            return Outcome::Above(bound);
        }
        let mut greedy = self.greedy();
        greedy.is_best = greedy.seconds <= bound * (1.0 + OPTIMAL_RELATIVE);
        if greedy.seconds <= enough || greedy.is_best {
            return if greedy.seconds <= cutoff { Outcome::Found(greedy) } else { Outcome::Above(bound) };
        }
        self.exact(greedy, cutoff)
    }

    /// Takes the steps that fit, by descending rate.
    fn greedy(&self) -> Choice {
        let mut chosen = vec![0; self.layers.len()];
        let mut left = self.capacity - self.layers.iter().map(|options| options[0].bytes).sum::<f64>();
        for step in &self.steps {
            let options = &self.layers[step.layer];
            // A step may follow one that did not fit.
            let bytes = options[step.to].bytes - options[chosen[step.layer]].bytes;
            if bytes <= left {
                left -= bytes;
                chosen[step.layer] = step.to;
            }
        }
        self.choice(&chosen, false)
    }

    fn choice(&self, chosen: &[usize], is_best: bool) -> Choice {
        let options = || self.layers.iter().zip(chosen).map(|(options, &option)| options[option]);
        Choice {
            seconds: options().map(|option| option.seconds).sum(),
            configurations: options().map(|option| option.index).collect(),
            is_best,
        }
    }

    fn exact(&self, greedy: Choice, cutoff: f64) -> Outcome {
        let mut known = greedy.seconds.min(cutoff);
        let order = self.order();
        let mut place = vec![0; order.len()];
        for (position, &layer) in order.iter().enumerate() {
            place[layer] = position;
        }
        let mut levels: Vec<Vec<State>> = Vec::with_capacity(order.len());
        let mut states = vec![State { bytes: 0.0, seconds: 0.0, from: 0, option: 0 }];
        let mut overflow = false;
        for (position, &layer) in order.iter().enumerate() {
            let rest = Relaxation::new(self.layers, &self.steps, |layer| place[layer] > position);
            let mut next: Vec<State> = Vec::new();
            for (from, state) in states.iter().enumerate() {
                for (option, candidate) in self.layers[layer].iter().enumerate() {
                    let (bytes, seconds) = (state.bytes + candidate.bytes, state.seconds + candidate.seconds);
                    let least = seconds + rest.seconds(self.capacity - bytes);
                    // A choice within the tolerance of the known one is no better.
                    if least < known * (1.0 - OPTIMAL_RELATIVE / 4.0) {
                        next.push(State { bytes, seconds, from: from as u32, option: option as u32 });
                    }
                }
            }
            next.sort_unstable_by(|a, b| {
                a.bytes.total_cmp(&b.bytes).then(a.seconds.total_cmp(&b.seconds)).then(a.from.cmp(&b.from))
            });
            let mut fastest = f64::INFINITY;
            next.retain(|state| {
                let is_faster = state.seconds < fastest;
                fastest = fastest.min(state.seconds);
                is_faster
            });
            if next.len() > MAX_STATES {
                overflow = true;
                next.truncate(MAX_STATES);
            }
            levels.push(std::mem::replace(&mut states, next));
        }
        // States by ascending bytes, descending seconds: the last is the fastest.
        let found = states.last().copied();
        let Some(last) = found else {
            return match (overflow, greedy.seconds <= cutoff) {
                (_, true) => Outcome::Found(Choice { is_best: !overflow, ..greedy }),
                (true, false) => Outcome::Undecided,
                (false, false) => Outcome::Above(known),
            };
        };
        known = last.seconds;
        let mut chosen = vec![0; self.layers.len()];
        let mut state = last;
        for (level, &layer) in levels.iter().zip(&order).rev() {
            chosen[layer] = state.option as usize;
            state = level[state.from as usize];
        }
        let choice = self.choice(&chosen, !overflow);
        debug_assert!((choice.seconds - known).abs() <= 1e-6 * known.abs());
        Outcome::Found(choice)
    }

    /// The layers, beginning with those whose options are far from the rate at which the relaxation fills the capacity.
    fn order(&self) -> Vec<usize> {
        let mut left = self.capacity - self.layers.iter().map(|options| options[0].bytes).sum::<f64>();
        let critical = self.steps.iter().find(|step| {
            left -= step.bytes;
            left < 0.0
        });
        let rate = critical.map_or(0.0, Step::rate).max(f64::MIN_POSITIVE);
        let mut nearest = vec![f64::INFINITY; self.layers.len()];
        for step in &self.steps {
            let distance = (step.rate() / rate).ln().abs();
            nearest[step.layer] = nearest[step.layer].min(distance);
        }
        let mut order: Vec<usize> = (0..self.layers.len()).collect();
        order.sort_by(|&a, &b| nearest[b].total_cmp(&nearest[a]));
        order
    }
}

/// Steps between neighbours on the lower convex hull of undominated options, from the smallest to the fastest.
fn hull(layer: usize, options: &[Candidate]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut corners = vec![0];
    for to in 1..options.len() {
        loop {
            let from = corners[corners.len() - 1];
            let step = Step {
                layer,
                to,
                bytes: options[to].bytes - options[from].bytes,
                saved: options[from].seconds - options[to].seconds,
            };
            match steps.last() {
                Some(last) if last.rate() < step.rate() => {
                    steps.pop();
                    corners.pop();
                }
                _ => {
                    steps.push(step);
                    corners.push(to);
                    break;
                }
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::seed;

    use super::{Candidate, Outcome, least};

    /// Minimum seconds over all choices.
    fn brute_force(layers: &[Vec<Candidate>], capacity: f64) -> f64 {
        let mut best = f64::INFINITY;
        let count: usize = layers.iter().map(Vec::len).product();
        for mut number in 0..count {
            let (mut bytes, mut seconds, mut workspace) = (0.0, 0.0, 0.0f64);
            for options in layers {
                let option = options[number % options.len()];
                number /= options.len();
                bytes += option.bytes;
                seconds += option.seconds;
                workspace = workspace.max(option.workspace);
            }
            if bytes + workspace <= capacity {
                best = best.min(seconds);
            }
        }
        best
    }

    #[test]
    fn the_choice_is_the_best_of_all() {
        let mut rng = seed::stream(32, 1);
        let mut feasible = 0;
        for _ in 0..3000 {
            let kinds: Vec<Vec<Candidate>> = (0..rng.random_range(1..4))
                .map(|_| {
                    (0..rng.random_range(1..4))
                        .map(|index| Candidate {
                            seconds: f64::from(rng.random_range(0..30)),
                            bytes: f64::from(rng.random_range(0..20)),
                            workspace: f64::from(rng.random_range(0..3) * rng.random_range(0..8)),
                            index,
                        })
                        .collect()
                })
                .collect();
            // Layers of one kind, as in most models, and layers that are all different.
            let layers: Vec<Vec<Candidate>> = (0..rng.random_range(1..7))
                .map(|_| kinds[rng.random_range(0..kinds.len())].clone())
                .collect();
            let capacity = f64::from(rng.random_range(0..80));
            let best = brute_force(&layers, capacity);
            match least(&layers, capacity, f64::NEG_INFINITY, f64::INFINITY) {
                Outcome::Found(choice) => {
                    feasible += 1;
                    assert_eq!(choice.seconds, best);
                    assert!(choice.is_best);
                }
                Outcome::Above(seconds) => assert_eq!((seconds, best), (f64::INFINITY, f64::INFINITY)),
                Outcome::Undecided => panic!("too many states for a few layers"),
            }
            let cutoff = f64::from(rng.random_range(0..100));
            match least(&layers, capacity, cutoff, cutoff) {
                Outcome::Found(choice) => assert!(choice.seconds <= cutoff && choice.seconds >= best),
                Outcome::Above(seconds) => assert!(best > cutoff && seconds <= best),
                Outcome::Undecided => panic!("too many states for a few layers"),
            }
        }
        assert!(feasible > 1000);
    }
}
