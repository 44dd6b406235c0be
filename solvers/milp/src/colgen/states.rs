//! The state graph of the frontier program.
//!
//! A set S of units is decided unit by unit along a linear order: outside or inside. After some decisions, all that
//! the load of S still depends on is, per *open* net (some pins decided, some not), whether the pins so far are all
//! outside, all inside, or mixed. A net is paid when it first becomes mixed, and forgotten after its last pin. A
//! layer holds the states between two decisions; the graph of layers depends on the nets and the order alone, not
//! on prices, loads or thresholds, so it is built once and every pricing walks it.
//!
//! A graph with more than a stated number of states is not built. [`States::relaxed`] then leaves out the cheapest
//! nets where too many are open: every set's load falls or stays, so bounds stay valid.

use rustc_hash::FxHashMap;
use stagewright_core::solver::Stop;

use super::cuts::Cuts;

const OUTSIDE: u128 = 0;
const INSIDE: u128 = 1;
const MIXED: u128 = 2;
/// Bits of a status, and all of them set.
const BITS: u32 = 2;
const STATUS: u128 = (1 << BITS) - 1;
/// Most nets open at once.
const SLOTS: usize = 128 / BITS as usize;

/// Layers of states with the two decisions at each.
#[derive(Debug, Clone)]
pub struct States {
    order: Vec<u32>,
    /// First state of each layer; one more than layers, the last layer being the end.
    first: Vec<u32>,
    /// Per state where the decisions outside and inside lead, as global numbers.
    next: Vec<[u32; 2]>,
    /// Per distinct link, per state, the seconds of the nets that each decision cuts.
    cut: Vec<Vec<[f64; 2]>>,
    /// The distinct link of each pool; none where nothing costs anything.
    link_of: Vec<Option<usize>>,
}

/// A pin of the unit at hand.
struct Touch {
    net: usize,
    slot: u32,
    opens: bool,
    closes: bool,
}

impl States {
    /// The state graph; none where it has more than `most` states or needs too many slots.
    /// O(states · nets of a unit).
    pub fn new(order: &[u32], cuts: &Cuts, pools: usize, most: usize) -> Option<States> {
        let touches = touches(order, cuts)?;
        let (links, link_of) = links(cuts, pools);
        let mut states = States {
            order: order.to_vec(),
            first: vec![0],
            next: Vec::new(),
            cut: vec![Vec::new(); links.len()],
            link_of,
        };
        let mut paid = vec![[0.0; 2]; links.len()];
        let mut layer: Vec<u128> = vec![0];
        let mut index: FxHashMap<u128, u32> = FxHashMap::default();
        for touches in &touches {
            let begin = states.next.len() + layer.len();
            if begin > most {
                return None;
            }
            states.first.push(begin as u32);
            index.clear();
            let mut following: Vec<u128> = Vec::new();
            for &key in &layer {
                let mut next = [0; 2];
                paid.fill([0.0; 2]);
                for (choice, next) in next.iter_mut().enumerate() {
                    let key = decide(key, touches, choice == 1, |net| {
                        for (paid, &link) in paid.iter_mut().zip(&links) {
                            paid[choice] += cuts.seconds(net, link);
                        }
                    });
                    let fresh = following.len() as u32;
                    let at = *index.entry(key).or_insert_with(|| {
                        following.push(key);
                        fresh
                    });
                    *next = begin as u32 + at;
                }
                states.next.push(next);
                for (cut, &paid) in states.cut.iter_mut().zip(&paid) {
                    cut.push(paid);
                }
            }
            layer = following;
        }
        // Every net is closed at the end, which is one state without decisions.
        Some(states)
    }

    /// The state graph with as many of the dearest nets as `most` states allow, and whether any was left out. None
    /// where the clock ran out, or there are more units than `most`.
    pub fn relaxed(
        order: &[u32],
        cuts: &Cuts,
        pools: usize,
        most: usize,
        stop: &Stop,
    ) -> Option<(States, bool)> {
        if let Some(states) = States::new(order, cuts, pools, most) {
            return Some((states, false));
        }
        WIDTHS.iter().take_while(|_| stop.reason().is_none()).find_map(|&width| {
            let states = States::new(order, &narrowed(order, cuts, width), pools, most)?;
            Some((states, true))
        })
    }

    /// The order of decisions.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Number of states, the end aside.
    pub fn len(&self) -> usize {
        self.next.len()
    }

    /// Whether there is no unit to decide.
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// The states before the decision on the unit at a place of the order, as global numbers.
    pub fn layer(&self, place: usize) -> std::ops::Range<usize> {
        self.first[place] as usize..self.first[place + 1] as usize
    }

    /// Where the decisions outside and inside lead from a state.
    #[inline]
    pub fn next(&self, state: usize) -> [u32; 2] {
        self.next[state]
    }

    /// Per state the seconds of the nets that each decision cuts on a pool's link; none where all are zero.
    pub fn cut(&self, pool: usize) -> Option<&[[f64; 2]]> {
        self.link_of[pool].map(|link| self.cut[link].as_slice())
    }
}

/// Most open nets that [`States::relaxed`] tries, one after the other.
const WIDTHS: [usize; 11] = [24, 16, 12, 9, 7, 5, 4, 3, 2, 1, 0];

/// The nets that remain where at most `width` are open at any place: the cheapest go first.
fn narrowed(order: &[u32], cuts: &Cuts, width: usize) -> Cuts {
    let mut place = vec![0usize; order.len()];
    for (at, &unit) in order.iter().enumerate() {
        place[unit as usize] = at;
    }
    let mut dearest: Vec<usize> = (0..cuts.len()).collect();
    dearest.sort_by(|&a, &b| cuts.most_seconds(b).total_cmp(&cuts.most_seconds(a)));
    let mut open = vec![0usize; order.len()];
    let mut kept = vec![false; cuts.len()];
    for net in dearest {
        let places = || cuts.pins(net).iter().map(|&unit| place[unit as usize]);
        let span = places().min().unwrap_or(0)..places().max().unwrap_or(0);
        if open[span.clone()].iter().all(|&open| open < width) {
            open[span].iter_mut().for_each(|open| *open += 1);
            kept[net] = true;
        }
    }
    cuts.only(|net| kept[net])
}

/// What each decision touches, with slots given out; none where there are too few slots.
fn touches(order: &[u32], cuts: &Cuts) -> Option<Vec<Vec<Touch>>> {
    let mut of_unit = vec![Vec::new(); order.len()];
    for net in 0..cuts.len() {
        for &unit in cuts.pins(net) {
            of_unit[unit as usize].push(net);
        }
    }
    let mut left: Vec<usize> = (0..cuts.len()).map(|net| cuts.pins(net).len()).collect();
    let mut slot_of = vec![0u32; cuts.len()];
    let mut free: Vec<u32> = (0..SLOTS as u32).rev().collect();
    let mut all = Vec::with_capacity(order.len());
    for &unit in order {
        let mut here = Vec::new();
        for &net in &of_unit[unit as usize] {
            let opens = left[net] == cuts.pins(net).len();
            if opens {
                slot_of[net] = free.pop()?;
            }
            left[net] -= 1;
            here.push(Touch { net, slot: slot_of[net], opens, closes: left[net] == 0 });
        }
        // A slot is free for others only after this decision.
        free.extend(here.iter().filter(|touch| touch.closes).map(|touch| touch.slot));
        all.push(here);
    }
    Some(all)
}

/// The state after a decision; `pay` is told of each net that becomes mixed by it.
fn decide(mut key: u128, touches: &[Touch], inside: bool, mut pay: impl FnMut(usize)) -> u128 {
    let here = if inside { INSIDE } else { OUTSIDE };
    for touch in touches {
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
    key
}

/// One pool per distinct table of transfers, and the table of each pool.
fn links(cuts: &Cuts, pools: usize) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut links: Vec<usize> = Vec::new();
    let same = |a: usize, b: usize| (0..cuts.len()).all(|net| cuts.seconds(net, a) == cuts.seconds(net, b));
    let link_of = (0..pools)
        .map(|pool| {
            if (0..cuts.len()).all(|net| cuts.seconds(net, pool) == 0.0) {
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
