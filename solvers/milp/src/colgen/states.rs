//! The state graph of the frontier-based dynamic program.
//!
//! A set S of units is decided unit by unit along a linear order: outside or inside. After some decisions,
//! the load of S depends on them only through the status of each *open* net (some pins decided, some not):
//! its pins so far are all outside, all inside, or mixed. A net is paid when it first becomes mixed, and
//! forgotten after its last pin. A layer holds the states between two decisions; the graph of layers depends
//! only on the nets and the order, not on prices, loads or thresholds, so it is built once and used by every
//! pricing.
//!
//! The [`Rules`] of a node of the search are state as well. A paired unit takes a slot from its own decision
//! to the decision on the last unit it is paired with, to remember whether it is inside; a decision that a
//! rule forbids leads to [`FORBIDDEN`]. Placed units are always outside. The empty set is never forbidden.
//!
//! If the graph has more than a given number of states, it is not built. [`States::relaxed`] then drops the cheapest
//! nets wherever too many are open: no set's load increases, so bounds stay valid.

use rustc_hash::FxHashMap;
use stagewright_core::contraction::UnitId;
use stagewright_core::id;
use stagewright_core::ids::{Keyed, places};
use stagewright_core::solver::Stop;

use super::cuts::{CutId, Cuts};
use super::rules::Rules;

id! {
    /// Index of a state, over all layers.
    pub StateId;
}

/// Target of a decision that the rules forbid.
pub const FORBIDDEN: StateId = StateId(u32::MAX);
const OUTSIDE: u128 = 0;
const INSIDE: u128 = 1;
const MIXED: u128 = 2;
/// Number of bits of a status, and mask of these bits.
const BITS: u32 = 2;
const STATUS: u128 = (1 << BITS) - 1;
/// Maximum number of nets and paired units that are open at once.
const SLOTS: u32 = 128 / BITS;

/// Layers of states, with the two decisions at each state.
#[derive(Debug, Clone)]
pub struct States {
    order: Vec<UnitId>,
    /// First state of each layer, and the end of the last layer.
    first: Vec<usize>,
    /// Targets of the decisions outside and inside.
    next: Keyed<StateId, [StateId; 2]>,
    /// `[link]`: seconds of the nets that each decision cuts, for each distinct link.
    cut: Vec<Keyed<StateId, [f64; 2]>>,
    /// `[pool]`: index of the pool's distinct link; `None` if all transfers are free.
    link_of: Vec<Option<usize>>,
}

/// A pin of the current unit.
struct Touch {
    net: CutId,
    slot: u32,
    opens: bool,
    closes: bool,
}

/// An earlier decision that constrains the current one.
struct Watch {
    slot: u32,
    together: bool,
}

/// Nets and slots that the decision on one unit affects.
#[derive(Default)]
struct DecisionEffects {
    nets: Vec<Touch>,
    /// Paired units that are decided already.
    watches: Vec<Watch>,
    /// Slot that remembers the decision for the units paired with this unit.
    remembered: Option<u32>,
    /// Slots freed by the decision.
    forgotten: Vec<u32>,
    /// Whether the unit can only be outside.
    outside: bool,
}

impl States {
    /// Builds the state graph; `None` if it has more than `max_states` states or needs too many slots. O(states ·
    /// nets and pairs of a unit).
    pub fn new(
        order: &[UnitId],
        cuts: &Cuts,
        rules: &Rules,
        pools: usize,
        max_states: usize,
    ) -> Option<States> {
        let steps = steps(order, cuts, rules)?;
        let (links, link_of) = links(cuts, pools);
        let mut states = States {
            order: order.to_vec(),
            first: vec![0],
            next: Keyed::new(),
            cut: vec![Keyed::new(); links.len()],
            link_of,
        };
        let mut paid = vec![[0.0; 2]; links.len()];
        let mut layer: Vec<u128> = vec![0];
        let mut index: FxHashMap<u128, StateId> = FxHashMap::default();
        for step in &steps {
            let begin = states.next.len() + layer.len();
            if begin > max_states {
                return None;
            }
            states.first.push(begin);
            index.clear();
            let mut following: Vec<u128> = Vec::new();
            for &key in &layer {
                let mut next = [FORBIDDEN; 2];
                paid.fill([0.0; 2]);
                for (choice, next) in next.iter_mut().enumerate() {
                    if step.forbids(key, choice == 1) {
                        continue;
                    }
                    let key = step.decide(key, choice == 1, |net| {
                        for (paid, &link) in paid.iter_mut().zip(&links) {
                            paid[choice] += cuts.seconds(net, link);
                        }
                    });
                    *next = *index.entry(key).or_insert_with(|| {
                        following.push(key);
                        StateId::new(begin + following.len() - 1)
                    });
                }
                states.next.push(next);
                for (cut, &paid) in states.cut.iter_mut().zip(&paid) {
                    cut.push(paid);
                }
            }
            layer = following;
        }
        // At the end every net is closed, so there is a single state, without decisions.
        Some(states)
    }

    /// A state graph with as many of the most expensive nets as `max_states` states allow, and these nets if any net
    /// was dropped. `None` if time runs out or there are more units than `max_states`.
    pub fn relaxed(
        order: &[UnitId],
        cuts: &Cuts,
        pools: usize,
        max_states: usize,
        stop: &Stop,
    ) -> Option<(States, Option<Cuts>)> {
        let free = Rules::default();
        if let Some(states) = States::new(order, cuts, &free, pools, max_states) {
            return Some((states, None));
        }
        WIDTHS.iter().take_while(|_| stop.reason().is_none()).find_map(|&width| {
            let narrowed = narrowed(order, cuts, width);
            let states = States::new(order, &narrowed, &free, pools, max_states)?;
            Some((states, Some(narrowed)))
        })
    }

    /// The order of decisions.
    pub fn order(&self) -> &[UnitId] {
        &self.order
    }

    /// Number of states, not counting the end.
    pub fn len(&self) -> usize {
        self.next.len()
    }

    /// Whether there is no unit to decide.
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Global indices of the states before the decision on the unit at a position of the order.
    pub fn layer(&self, place: usize) -> std::ops::Range<usize> {
        self.first[place]..self.first[place + 1]
    }

    /// Targets of the decisions outside and inside at a state; [`FORBIDDEN`] if the rules forbid the decision.
    #[inline]
    pub fn next(&self, state: StateId) -> [StateId; 2] {
        self.next[state]
    }

    /// Seconds on a pool's link of the nets that each decision cuts; `None` if all are zero.
    pub fn cut(&self, pool: usize) -> Option<&Keyed<StateId, [f64; 2]>> {
        self.link_of[pool].map(|link| &self.cut[link])
    }
}

/// Limits on the number of open nets that [`States::relaxed`] tries in turn.
const WIDTHS: [usize; 11] = [24, 16, 12, 9, 7, 5, 4, 3, 2, 1, 0];

/// A selection of the nets, the most expensive first, of which at most `width` are open at any position.
fn narrowed(order: &[UnitId], cuts: &Cuts, width: usize) -> Cuts {
    let place: Keyed<_, usize> = places(order);
    let mut dearest: Vec<CutId> = cuts.ids().collect();
    dearest.sort_by(|&a, &b| cuts.most_seconds(b).total_cmp(&cuts.most_seconds(a)));
    let mut open = vec![0usize; order.len()];
    let mut kept = Keyed::filled(false, cuts.len());
    for net in dearest {
        let places = || cuts.pins(net).iter().map(|&unit| place[unit]);
        let span = places().min().unwrap_or(0)..places().max().unwrap_or(0);
        if open[span.clone()].iter().all(|&open| open < width) {
            open[span].iter_mut().for_each(|open| *open += 1);
            kept[net] = true;
        }
    }
    cuts.only(|net| kept[net])
}

/// Effects of all decisions, with slots assigned; `None` if there are too few slots.
fn steps(order: &[UnitId], cuts: &Cuts, rules: &Rules) -> Option<Vec<DecisionEffects>> {
    let mut of_unit = Keyed::filled(Vec::new(), order.len());
    for net in cuts.ids() {
        for &unit in cuts.pins(net) {
            of_unit[unit].push(net);
        }
    }
    let placed = rules.is_placed(order.len());
    let partners = partners(order, rules);
    let mut left: Keyed<CutId, usize> = cuts.ids().map(|net| cuts.pins(net).len()).collect();
    let mut slot_of = Keyed::filled(0, cuts.len());
    // `[position]`: slot of the decision, if the decision is remembered.
    let mut remembered = vec![0u32; order.len()];
    let mut free: Vec<u32> = (0..SLOTS).rev().collect();
    let mut all = Vec::with_capacity(order.len());
    for (place, &unit) in order.iter().enumerate() {
        let mut step = DecisionEffects { outside: placed[unit], ..DecisionEffects::default() };
        for &net in &of_unit[unit] {
            let opens = left[net] == cuts.pins(net).len();
            if opens {
                slot_of[net] = free.pop()?;
            }
            left[net] -= 1;
            step.nets.push(Touch { net, slot: slot_of[net], opens, closes: left[net] == 0 });
        }
        if partners[place].last().is_some_and(|&(last, _)| last > place) {
            remembered[place] = free.pop()?;
            step.remembered = Some(remembered[place]);
        }
        for &(before, together) in partners[place].iter().filter(|&&(before, _)| before < place) {
            let slot = remembered[before];
            step.watches.push(Watch { slot, together });
            if partners[before].last().is_some_and(|&(last, _)| last == place)
                && !step.forgotten.contains(&slot)
            {
                step.forgotten.push(slot);
            }
        }
        // A slot becomes free for other uses only after this decision.
        free.extend(step.nets.iter().filter(|touch| touch.closes).map(|touch| touch.slot));
        free.extend(&step.forgotten);
        all.push(step);
    }
    Some(all)
}

/// `[position]`: positions paired with this one, ascending, each with whether the two are together.
fn partners(order: &[UnitId], rules: &Rules) -> Vec<Vec<(usize, bool)>> {
    let place: Keyed<_, usize> = places(order);
    let mut partners = vec![Vec::new(); order.len()];
    for pair in &rules.pairs {
        let [first, second] = pair.units.map(|unit| place[unit]);
        partners[first].push((second, pair.together));
        partners[second].push((first, pair.together));
    }
    partners.iter_mut().for_each(|partners| partners.sort_unstable());
    partners
}

impl DecisionEffects {
    /// Whether the rules forbid a decision.
    fn forbids(&self, key: u128, inside: bool) -> bool {
        (inside && self.outside)
            || self.watches.iter().any(|watch| {
                let partner = key >> (watch.slot * BITS) & STATUS == INSIDE;
                if watch.together { inside != partner } else { inside && partner }
            })
    }

    /// The state after a decision. Calls `pay` for each net that the decision makes mixed.
    fn decide(&self, mut key: u128, inside: bool, mut pay: impl FnMut(CutId)) -> u128 {
        let here = if inside { INSIDE } else { OUTSIDE };
        for touch in &self.nets {
            let shift = touch.slot * BITS;
            let before = if touch.opens { here } else { key >> shift & STATUS };
            let after = if before == here { before } else { MIXED };
            if before != MIXED && after == MIXED {
                pay(touch.net);
            }
            key &= !(STATUS << shift);
            if !touch.closes {
                key |= after << shift;
            }
        }
        for &slot in &self.forgotten {
            key &= !(STATUS << (slot * BITS));
        }
        if let Some(slot) = self.remembered {
            key |= here << (slot * BITS);
        }
        key
    }
}

/// A representative pool for each distinct table of transfer times, and for each pool the index of its table.
fn links(cuts: &Cuts, pools: usize) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut links: Vec<usize> = Vec::new();
    let same = |a: usize, b: usize| cuts.ids().all(|net| cuts.seconds(net, a) == cuts.seconds(net, b));
    let link_of = (0..pools)
        .map(|pool| {
            if cuts.ids().all(|net| cuts.seconds(net, pool) == 0.0) {
                return None;
            }
            Some(links.iter().position(|&link| same(link, pool)).unwrap_or_else(|| {
                links.push(pool);
                links.len() - 1
            }))
        })
        .collect();
    (links, link_of)
}
