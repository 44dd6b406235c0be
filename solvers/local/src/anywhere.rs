//! A lower bound on all plans, with projections on any device: the relaxation of the module `guests` at a few prices.
//!
//! Two prices of a kind of device are tried. Above the first, no layer sends it what would else be on the host; above the
//! second, no layer sends it what would else be with the layer. At the right one the bound is that of plans without guests, unless
//! a device leaves room for a projection that some layer would send there.

use std::rc::Rc;

use stagewright_core::solver::Stop;
use stagewright_llamacpp::Setting;

use crate::devices::Used;
use crate::guests::{Guests, Rooms};
use crate::model::Model;
use crate::plan;
use crate::prices::{Prices, Scenario, Sizes};
use crate::question::{DeviceKind, Question};
use crate::relaxation::Relaxation;
use crate::search::Search;
use crate::tensors::{Choice, Tensors};
use crate::unit::Unit;

/// Prices of RAM, in those of devices, where RAM may not hold what they leave.
const RAM: [f64; 6] = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0];

/// Bytes whose lack costs as much as the slowest plan, at the price that proves that there is none.
const LACK: f64 = 1e6;

/// Prices that are tried with whole projections.
const MOST_WHOLE: usize = 2;

/// Steps of a golden section.
const SECTIONS: usize = 8;

/// Bytes that buffers in RAM and its margin never exceed.
const LARGEST_BUFFERS: u64 = 16 << 30;

/// Share by which sums in another order may differ.
const ROUNDING: f64 = 1e-12;

/// What scenarios have in common.
pub(crate) struct Anywhere<'a> {
    pub(crate) question: &'a Question<'a>,
    pub(crate) setting: &'a Setting,
    pub(crate) model: &'a Model<'a>,
    pub(crate) sizes: &'a Sizes,
    pub(crate) kinds: &'a [DeviceKind],
    pub(crate) used: &'a Used,
    pub(crate) unit: Unit,
    pub(crate) rooms: Rc<Rooms>,
}

/// A bound of a scenario.
pub(crate) struct Bound {
    pub(crate) seconds: f64,
    /// The plan that reaches it, with all that is sent away on the host.
    pub(crate) setting: Option<Setting>,
    /// The prices that give it.
    guests: Option<Guests>,
    /// Whether the best prices were looked for.
    pub(crate) is_ascended: bool,
}

impl Bound {
    /// No bound.
    pub(crate) const NONE: Bound =
        Bound { seconds: f64::NEG_INFINITY, setting: None, guests: None, is_ascended: false };
}

impl Anywhere<'_> {
    /// A bound on the plans of a scenario that take less than `limit` seconds; `limit` or more if there is none.
    pub(crate) fn bound(&self, scenario: Scenario, limit: f64, stop: &Stop) -> Bound {
        let mut tried = self.tried(scenario, limit, stop);
        tried.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut best = Bound::NONE;
        for (divided, guests) in tried.into_iter().take(MOST_WHOLE) {
            self.whole(scenario, guests, divided, limit, stop, &mut best);
        }
        best
    }

    /// A better bound than `best`, by the best prices for projections that can be divided. Their bound is concave in the prices,
    /// and a golden section goes over all of them together and then over each.
    pub(crate) fn ascend(&self, scenario: Scenario, best: &mut Bound, limit: f64, stop: &Stop) {
        best.is_ascended = true;
        let Some(mut guests) = best.guests.clone() else { return };
        let kinds = self.kinds.len();
        let tensors = self.tensors(scenario);
        let highest = |kind: usize| tensors.highest_rates(self.model, kind)[0].max(0.0);
        let highest: Vec<f64> = (0..kinds).map(|kind| highest(kind) + guests.ram).collect();
        let mut value = best.seconds;
        let all = std::iter::once(0..kinds);
        let each = (0..kinds).map(|kind| kind..kind + 1).filter(|_| kinds > 1);
        for changed in all.chain(each) {
            let with = |share: f64| {
                let mut guests = guests.clone();
                for kind in changed.clone() {
                    guests.rates[kind] = share * highest[kind];
                }
                guests
            };
            let (share, found) = golden_section(stop, |share| self.divided(scenario, &with(share)));
            if found > value {
                (value, guests) = (found, with(share));
            }
            if value >= limit || stop.reason().is_some() {
                break;
            }
        }
        self.whole(scenario, guests, value, limit, stop, best);
    }

    /// The bound at some prices if projections can be divided.
    fn divided(&self, scenario: Scenario, guests: &Guests) -> f64 {
        let prices = self.prices(scenario, Some(guests.clone()));
        Relaxation::new(&prices, self.used).bound.min(self.on_host(&prices, None))
    }

    /// Prices with their bounds if projections can be divided, until one is at the limit.
    fn tried(&self, scenario: Scenario, limit: f64, stop: &Stop) -> Vec<(f64, Guests)> {
        let tensors = self.tensors(scenario);
        let kinds = self.kinds.len();
        let highest: Vec<[f64; 2]> = (0..kinds).map(|kind| tensors.highest_rates(self.model, kind)).collect();
        let mut tried: Vec<(f64, Guests)> = Vec::new();
        let mut best = f64::NEG_INFINITY;
        for ram in self.ram_prices(&highest) {
            // What would else be on the host pays for RAM as well.
            let rate = |kind: usize, level: usize| [highest[kind][0] + ram, highest[kind][1], 0.0][level];
            let mut chosen = vec![2; kinds];
            // The bound without prices is never negative.
            let uniform = [2, 0, 1].into_iter().map(|level| (0..kinds, level));
            let single = (0..kinds).flat_map(|kind| (0..3).map(move |level| (kind..kind + 1, level)));
            for (changed, level) in uniform.chain(single.filter(|_| kinds > 1)) {
                let mut levels = chosen.clone();
                levels[changed].fill(level);
                let rates = (0..kinds).map(|kind| rate(kind, levels[kind])).collect();
                let guests = Guests { rates, ram, rooms: Rc::clone(&self.rooms) };
                let divided = self.divided(scenario, &guests);
                tried.push((divided, guests));
                if divided > best {
                    (best, chosen) = (divided, levels);
                }
                if divided >= limit || stop.reason().is_some() {
                    return tried;
                }
            }
        }
        tried
    }

    /// Whether no plan of a scenario fits. At a price at which lacking a MB costs `limit`, which no plan takes, every plan of the
    /// relaxation lacks as much.
    pub(crate) fn is_infeasible(&self, scenario: Scenario, limit: f64, stop: &Stop) -> bool {
        if stop.reason().is_some() {
            return false;
        }
        let rates = vec![limit / LACK; self.kinds.len()];
        let guests = Guests { rates, ram: limit / LACK, rooms: Rc::clone(&self.rooms) };
        let mut bound = Bound { seconds: self.divided(scenario, &guests), ..Bound::NONE };
        if bound.seconds < limit {
            let divided = bound.seconds;
            self.whole(scenario, guests, divided, limit, stop, &mut bound);
        }
        bound.seconds >= limit
    }

    /// The bound if room and RAM cost nothing.
    pub(crate) fn free(&self, scenario: Scenario) -> Bound {
        let guests = Guests { rates: vec![0.0; self.kinds.len()], ram: 0.0, rooms: Rc::clone(&self.rooms) };
        Bound { seconds: self.divided(scenario, &guests), ..Bound::NONE }
    }

    fn prices(&self, scenario: Scenario, guests: Option<Guests>) -> Prices<'_> {
        Prices::new(self.question, self.setting, self.model, self.sizes, self.kinds, scenario, guests)
    }

    /// Seconds with all slots on the host.
    fn on_host(&self, prices: &Prices<'_>, unit: Option<Unit>) -> f64 {
        if prices.host_slots < self.model.blocks.len() {
            return f64::INFINITY;
        }
        let earned = self.used.sum_of_unused(0, &prices.earned_idle(unit));
        prices.before(prices.host_slots) + prices.host_output - earned
    }

    /// Raises a bound to that at some prices with whole projections, which is `divided` if they can be divided.
    fn whole(
        &self,
        scenario: Scenario,
        guests: Guests,
        divided: f64,
        limit: f64,
        stop: &Stop,
        best: &mut Bound,
    ) {
        if best.seconds >= limit || divided >= limit || !self.unit.is_exact || stop.reason().is_some() {
            if divided > best.seconds {
                (best.seconds, best.guests) = (divided, Some(guests));
            }
            return;
        }
        let prices = self.prices(scenario, Some(guests.clone()));
        let relaxation = Relaxation::new(&prices, self.used);
        let on_host = self.on_host(&prices, Some(self.unit));
        let mut search = Search::new(&prices, self.used, &relaxation, self.unit, 0, stop);
        let limit = limit.min(on_host);
        let rounded = search.run(limit, Some(&relaxation.path(&prices, self.used)));
        let least = rounded.as_ref().map_or(limit, |path| path.seconds);
        let path = search.run(least, None).or(rounded);
        // Sums in another order differ in the last digits.
        let whole = path.as_ref().map_or(limit, |path| path.seconds);
        let whole = if stop.reason().is_some() { divided } else { whole - whole.abs() * ROUNDING };
        let seconds = whole.max(divided);
        if seconds > best.seconds {
            let micro_batch = self.setting.micro_batch;
            let setting =
                path.map(|path| plan::setting(self.question, &prices, self.unit, &path, micro_batch));
            *best = Bound { seconds, setting, guests: Some(guests), is_ascended: best.is_ascended };
        }
    }

    /// Prices of RAM to try: one alone if it holds all that devices leave.
    fn ram_prices(&self, highest: &[[f64; 2]]) -> Vec<f64> {
        let bytes =
            self.model.blocks.iter().map(|block| block.fixed_bytes.saturating_add(block.movable_bytes()));
        let most =
            bytes.chain(self.sizes.caches.iter().copied()).fold(self.model.input_bytes, u64::saturating_add);
        if most.saturating_add(LARGEST_BUFFERS) <= self.question.host.memory {
            return vec![0.0];
        }
        let scale = highest.iter().flatten().copied().fold(0.0, f64::max);
        RAM.iter().map(|share| share * scale).collect()
    }

    fn tensors(&self, scenario: Scenario) -> Tensors<'_> {
        let first = &self.kinds[scenario.first].device;
        Tensors::new(self.question, self.setting, first).with(self.kinds, scenario.largest, None)
    }

    /// Seconds that no plan exceeds: every tensor in every memory, and every way between memories.
    pub(crate) fn most_seconds(&self) -> f64 {
        let scenario = |first| Scenario { first, largest: u64::MAX };
        let of_first = |first: usize| {
            let (model, prices) = (self.model, self.prices(scenario(first), None));
            let least = |slots: &Vec<Vec<Choice>>| -> f64 {
                slots.iter().map(|choices| choices.iter().map(|choice| choice.seconds).sum::<f64>()).sum()
            };
            let hops = 3.0 * prices.hop * model.slots() as f64;
            let on_devices: f64 = prices.choices.iter().map(least).sum();
            prices.before(model.blocks.len()) + prices.host_output + on_devices + hops
        };
        (0..self.kinds.len()).map(of_first).fold(0.0, f64::max)
    }
}

/// The largest value of a concave function between 0 and 1, and where it is, by golden section.
fn golden_section(stop: &Stop, value: impl Fn(f64) -> f64) -> (f64, f64) {
    let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut low, mut high) = (0.0, 1.0);
    let point = |share: f64| (share, value(share));
    let mut left = point(high - golden * (high - low));
    let mut right = point(low + golden * (high - low));
    for _ in 0..SECTIONS {
        if stop.reason().is_some() {
            break;
        }
        if left.1 < right.1 {
            low = left.0;
            left = right;
            right = point(low + golden * (high - low));
        } else {
            high = right.0;
            right = left;
            left = point(high - golden * (high - low));
        }
    }
    if left.1 > right.1 { left } else { right }
}
