//! A lower bound on every scenario: projections may be divided, and RAM is not limited.
//!
//! For a range of slots on a device this is the linear relaxation of a multiple-choice knapsack, which a greedy fill by seconds
//! saved a byte solves (Sinha and Zoltners, "The multiple-choice knapsack problem", 1979). A dynamic program over devices and
//! cuts joins the ranges, in time O(2^devices · slots² · devices), where devices of one kind count once.

use std::ops::Range;

use crate::devices::Used;
use crate::prices::Prices;
use crate::tensors::Choice;

/// Share by which sums in another order may differ.
const ROUNDING: f64 = 1e-12;

/// Savings of one density on a kind of device.
struct Density {
    /// Seconds saved a byte.
    density: f64,
    /// Sums over the first slots of bytes, and of seconds saved.
    sums: Vec<(f64, f64)>,
}

/// Ranges of slots on a kind of device.
struct OfKind {
    densities: Vec<Density>,
    /// Sums over the first slots of the bytes and seconds of the choice that keeps least.
    least: Vec<(f64, f64)>,
    /// Width of the buffer that each slot needs at least.
    widths: Vec<u64>,
}

/// Lower bounds of a scenario.
pub(crate) struct Relaxation {
    /// Bounds by kind, whether it is first, start and end.
    ranges: Vec<[Vec<Vec<f64>>; 2]>,
    /// Seconds from a slot to the end, by the devices that are used.
    rest: Vec<Vec<f64>>,
    /// Seconds of the scenario.
    pub(crate) bound: f64,
}

impl Relaxation {
    pub(crate) fn new(prices: &Prices<'_>, used: &Used) -> Relaxation {
        let kinds: Vec<OfKind> = prices.choices.iter().map(|slots| OfKind::new(slots)).collect();
        let ranges = kinds.iter().enumerate().map(|(kind, of_kind)| {
            [false, true].map(|is_first| match is_first && kind != prices.scenario.first {
                true => Vec::new(),
                false => of_kind.ranges(prices, kind, is_first),
            })
        });
        let mut relaxation = Relaxation { ranges: ranges.collect(), rest: Vec::new(), bound: f64::INFINITY };
        relaxation.rest = relaxation.rests(prices, used);
        relaxation.bound =
            relaxation.starts(prices, used).map(|(seconds, ..)| seconds).fold(f64::INFINITY, f64::min);
        relaxation
    }

    /// Seconds of slots on a kind of device.
    pub(crate) fn range(&self, kind: usize, slots: Range<usize>, is_first: bool) -> f64 {
        self.ranges[kind][usize::from(is_first)][slots.start][slots.end - slots.start - 1]
    }

    /// Seconds of the slots from one on, after devices that are used.
    pub(crate) fn rest(&self, used: usize, slot: usize) -> f64 {
        self.rest[used][slot]
    }

    /// First ranges with the seconds of the best continuation: seconds, slots of the host, end.
    fn starts(&self, prices: &Prices<'_>, used: &Used) -> impl Iterator<Item = (f64, usize, usize)> {
        let first = prices.scenario.first;
        let slots = prices.model.slots();
        let after = used.with(0, first);
        let starts = (0..=prices.host_slots.min(slots - 1))
            .flat_map(move |start| (start + 1..=slots).map(move |end| (start, end)));
        let whole = starts.map(move |(start, end)| {
            let seconds = prices.before(start)
                + self.range(first, start..end, true)
                + self.rest[after.unwrap_or(0)][end];
            (seconds, start, end)
        });
        // Without slots, the first device is no change to the next.
        let idle = (0..=prices.host_slots.min(slots - 1)).filter_map(move |start| {
            let earned = prices.earned(first, prices.idle_room(start)?, None);
            let seconds = prices.before(start) - prices.hop - earned + self.rest[after.unwrap_or(0)][start];
            Some((seconds, start, start))
        });
        whole.chain(idle)
    }

    /// Ranges of the best relaxed plan: kind, start and end.
    pub(crate) fn path(&self, prices: &Prices<'_>, used: &Used) -> Vec<(usize, usize, usize)> {
        let slots = prices.model.slots();
        let best = self.starts(prices, used).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, start, mut end)) = best.filter(|best| best.0.is_finite()) else { return Vec::new() };
        let mut path = vec![(prices.scenario.first, start, end)];
        let mut state = used.with(0, prices.scenario.first).unwrap_or(0);
        while end < slots {
            let next = self.continuations(prices, used, state, end).min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, kind, next)) = next else { return Vec::new() };
            path.push((kind, end, next));
            state = used.with(state, kind).unwrap_or(state);
            end = next;
        }
        path
    }

    /// Ranges that can follow: seconds to the end, kind, end.
    fn continuations<'a>(
        &'a self,
        prices: &'a Prices<'_>,
        used: &'a Used,
        state: usize,
        slot: usize,
    ) -> impl Iterator<Item = (f64, usize, usize)> + 'a {
        let slots = prices.model.slots();
        (0..prices.kinds.len()).filter_map(move |kind| Some((kind, used.with(state, kind)?))).flat_map(
            move |(kind, after)| {
                (slot + 1..=slots).map(move |end| {
                    let seconds = prices.hop + self.range(kind, slot..end, false) + self.rest[after][end];
                    (seconds, kind, end)
                })
            },
        )
    }

    fn rests(&mut self, prices: &Prices<'_>, used: &Used) -> Vec<Vec<f64>> {
        let slots = prices.model.slots();
        self.rest = vec![vec![f64::INFINITY; slots + 1]; used.states()];
        let idle = prices.earned_idle(None);
        for state in (0..used.states()).rev() {
            self.rest[state][slots] = -used.sum_of_unused(state, &idle);
            for slot in 0..slots {
                let best = self.continuations(prices, used, state, slot).map(|(seconds, ..)| seconds);
                let best = best.fold(f64::INFINITY, f64::min);
                self.rest[state][slot] = best;
            }
        }
        std::mem::take(&mut self.rest)
    }
}

impl OfKind {
    fn new(slots: &[Vec<Choice>]) -> OfKind {
        let mut densities: Vec<Density> = Vec::new();
        let mut least = vec![(0.0, 0.0)];
        for (slot, choices) in slots.iter().enumerate() {
            let hull = hull(choices);
            let (bytes, seconds) = least[slot];
            least.push((bytes + hull[0].0, seconds + hull[0].1));
            for pair in hull.windows(2) {
                let (bytes, saved) = (pair[1].0 - pair[0].0, pair[0].1 - pair[1].1);
                let density = saved / bytes;
                let is_same = |known: &&mut Density| (known.density / density - 1.0).abs() < ROUNDING;
                let known = match densities.iter_mut().position(|mut known| is_same(&mut known)) {
                    Some(position) => &mut densities[position],
                    None => {
                        densities.push(Density { density, sums: vec![(0.0, 0.0); slots.len() + 1] });
                        densities.last_mut().expect("a density was added")
                    }
                };
                known.sums[slot + 1].0 += bytes;
                known.sums[slot + 1].1 += saved;
            }
        }
        for density in &mut densities {
            for slot in 0..slots.len() {
                let before = density.sums[slot];
                density.sums[slot + 1].0 += before.0;
                density.sums[slot + 1].1 += before.1;
            }
        }
        densities.sort_by(|a, b| b.density.total_cmp(&a.density));
        let widths = slots.iter().map(|choices| choices.iter().map(|choice| choice.width).min().unwrap_or(0));
        OfKind { densities, least, widths: widths.collect() }
    }

    /// Bounds by start and end.
    fn ranges(&self, prices: &Prices<'_>, kind: usize, is_first: bool) -> Vec<Vec<f64>> {
        let slots = prices.model.slots();
        let range = |start: usize| {
            let mut width = 0;
            (start + 1..=slots)
                .map(|end| {
                    width = width.max(self.widths[end - 1]);
                    match prices.room(kind, start..end, is_first, width) {
                        Some(room) if prices.model.is_loaded(start..end) => {
                            self.filled(prices, kind, start..end, room as f64)
                                + prices.rotary(Some(kind), start..end)
                        }
                        _ => f64::INFINITY,
                    }
                })
                .collect()
        };
        (0..slots).map(range).collect()
    }

    /// Seconds of slots if projections may be divided, less what the rest of the room earns.
    fn filled(&self, prices: &Prices<'_>, kind: usize, slots: Range<usize>, room: f64) -> f64 {
        let (start, end) = (slots.start, slots.end);
        let bytes = self.least[end].0 - self.least[start].0;
        let mut seconds = self.least[end].1 - self.least[start].1;
        let mut left = room - bytes * (1.0 - ROUNDING);
        if left < 0.0 {
            return f64::INFINITY;
        }
        let rate = prices.guests.as_ref().map_or(0.0, |guests| guests.rates[kind]);
        for density in self.densities.iter().take_while(|density| density.density > rate) {
            let bytes = density.sums[end].0 - density.sums[start].0;
            let saved = density.sums[end].1 - density.sums[start].1;
            if bytes <= left {
                seconds -= saved;
                left -= bytes;
            } else {
                seconds -= saved * (left / bytes);
                left = 0.0;
                break;
            }
        }
        let earned = prices.guests.as_ref().map_or(0.0, |guests| guests.earned_by_parts(kind, left));
        seconds - earned - (seconds.abs() + earned) * ROUNDING
    }
}

/// Corners of the lower hull of bytes and seconds, from the fewest bytes to the fewest seconds.
fn hull(choices: &[Choice]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        choices.iter().map(|choice| (choice.bytes as f64, choice.seconds)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if hull.last().is_some_and(|last| point.1 >= last.1) {
            continue;
        }
        while let [.., before, last] = hull[..] {
            let is_above =
                (last.1 - before.1) * (point.0 - before.0) >= (point.1 - before.1) * (last.0 - before.0);
            if !is_above {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}
