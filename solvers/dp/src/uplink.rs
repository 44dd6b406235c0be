//! Group uplinks as resources of the recurrence.
//!
//! A net loads the uplink of a group once it has pins inside the group and outside it. The uplink loads of a chain of
//! stages, present and future, follow from its *label*:
//!
//! ```text
//! for each net that crosses the ideal     the groups that hold its pins so far
//! for each group and pass                 the load so far
//! ```
//!
//! Devices outside every group form one more group, whose load is not counted. A stage on group g adds g to the
//! groups of the nets it pins: a net that spreads to a second group loads the first group and g, and each further
//! group only itself. A way to reach an ideal is redundant only if another with the same devices has the same groups
//! for every crossing net, no greater value and no greater load: labels are compared, not merged, and there can be
//! exponentially many. The recurrence without labels runs first and gives a bound.

use stagewright_core::bits::{contains, members};
use stagewright_core::contraction::Units;
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;

use crate::lattice::{Lattice, LocalNet, Position};

/// Maximum number of groups: one bit of a word each, and one bit for the devices outside every group.
pub(crate) const MAX_GROUPS: usize = 63;

/// Transfer times on the uplinks for the nets of a lattice.
pub(crate) struct Uplinks {
    passes: usize,
    groups: usize,
    /// `[net][group]`: seconds that the net takes on the uplink of the group.
    seconds: Vec<f64>,
    /// `[net]`: whether the net takes time on any uplink.
    counts: Keyed<LocalNet, bool>,
    /// `[pool]`: the group of the pool, as a bit.
    bit: Vec<u64>,
}

/// Groups that hold pins of a crossing net.
#[derive(Clone, Copy, PartialEq)]
struct Spread {
    net: LocalNet,
    groups: u64,
}

/// Store of labels in flat arrays.
#[derive(Default)]
pub(crate) struct Labels {
    loads: Vec<f64>,
    spreads: Vec<Spread>,
    ends: Vec<u32>,
}

/// Uplink loads of a chain of stages, and the groups of its crossing nets.
#[derive(Clone, Copy)]
pub(crate) struct Label<'a> {
    /// `[group][pass]`: uplink load so far.
    loads: &'a [f64],
    /// The crossing nets with their groups, ascending by net.
    spreads: &'a [Spread],
}

impl Label<'_> {
    /// Whether `other` is redundant next to this label: equal groups for every net, and no smaller load.
    pub(crate) fn dominates(self, other: Label<'_>) -> bool {
        self.spreads == other.spreads && self.loads.iter().zip(other.loads).all(|(load, other)| load <= other)
    }

    /// Largest uplink load in a pass.
    pub(crate) fn load(self, pass: usize, passes: usize) -> f64 {
        self.loads.iter().skip(pass).step_by(passes).copied().fold(0.0, f64::max)
    }
}

impl Labels {
    /// Label at an index. All labels of a store have equally many loads.
    pub(crate) fn get(&self, index: usize) -> Label<'_> {
        let width = self.loads.len() / self.ends.len();
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Label {
            loads: &self.loads[index * width..(index + 1) * width],
            spreads: &self.spreads[from..self.ends[index] as usize],
        }
    }

    /// Appends a copy of a label.
    pub(crate) fn push(&mut self, label: Label<'_>) {
        self.loads.extend_from_slice(label.loads);
        self.spreads.extend_from_slice(label.spreads);
        self.ends.push(self.spreads.len() as u32);
    }

    /// Number of labels.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Total number of crossing nets over all labels.
    pub(crate) fn spreads(&self) -> usize {
        self.spreads.len()
    }

    /// Removes the last label.
    pub(crate) fn pop(&mut self) {
        let width = self.loads.len() / self.ends.len();
        self.loads.truncate(self.loads.len() - width);
        self.ends.pop();
        self.spreads.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    /// Bytes in use, spare capacity included.
    pub(crate) fn bytes(&self) -> u64 {
        let Labels { loads, spreads, ends } = self;
        let arrays = loads.capacity() * size_of::<f64>() + spreads.capacity() * size_of::<Spread>();
        (arrays + ends.capacity() * size_of::<u32>()) as u64
    }
}

impl Uplinks {
    /// Uplink times of a problem. `None` if no net takes time on an uplink, or if there are more than [`MAX_GROUPS`]
    /// groups.
    pub(crate) fn new(problem: &Problem, units: &Units, lattice: &Lattice) -> Option<Uplinks> {
        let groups = problem.cluster().group_count();
        if groups > MAX_GROUPS {
            return None;
        }
        let nets = lattice.net_count();
        let uplinks = |&net| (0..groups).map(move |group| units.uplink(net, group));
        let seconds: Vec<f64> = lattice.unit_net.iter().flat_map(uplinks).collect();
        let counts: Keyed<LocalNet, bool> = (0..nets)
            .map(|net| seconds[net * groups..(net + 1) * groups].iter().any(|&time| time > 0.0))
            .collect();
        let bit = problem.pools().iter().map(|pool| 1 << pool.group.unwrap_or(groups)).collect();
        let any = counts.iter().any(|&counts| counts);
        any.then_some(Uplinks { passes: lattice.passes, groups, seconds, counts, bit })
    }

    /// The label of the empty ideal.
    pub(crate) fn start(&self) -> Labels {
        Labels { loads: vec![0.0; self.groups * self.passes], spreads: Vec::new(), ends: vec![0] }
    }

    /// Appends the label after one more stage, from the ideal `before` to `set` on a pool.
    pub(crate) fn extend(
        &self,
        lattice: &Lattice,
        label: Label<'_>,
        (before, set): (&[u64], &[u64]),
        pool: usize,
        labels: &mut Labels,
    ) {
        let bit = self.bit[pool];
        let stage: Vec<u64> = set.iter().zip(before).map(|(set, before)| set & !before).collect();
        let mut touched: Vec<LocalNet> =
            members(&stage).flat_map(|unit| lattice.nets_of(Position::new(unit))).copied().collect();
        touched.retain(|&net| self.counts[net]);
        touched.sort_unstable();
        touched.dedup();
        let from = labels.loads.len();
        labels.loads.extend_from_slice(label.loads);
        let mut old = label.spreads.iter().copied().peekable();
        for net in touched {
            while let Some(untouched) = old.next_if(|spread| spread.net < net) {
                labels.spreads.push(untouched);
            }
            let groups = old.next_if(|spread| spread.net == net).map_or(0, |spread| spread.groups);
            self.load(&mut labels.loads[from..], net, usize::from(lattice.net_pass[net]), groups, bit);
            if lattice.pins(net).iter().any(|&pin| !contains(set, pin.index())) {
                labels.spreads.push(Spread { net, groups: groups | bit });
            }
        }
        labels.spreads.extend(old);
        labels.ends.push(labels.spreads.len() as u32);
    }

    /// Adds the load that a net causes when a group joins those that hold its pins.
    fn load(&self, loads: &mut [f64], net: LocalNet, pass: usize, groups: u64, bit: u64) {
        if groups == 0 || groups & bit != 0 {
            return;
        }
        let newly = if groups.is_power_of_two() { groups | bit } else { bit };
        for group in (0..self.groups).filter(|group| newly >> group & 1 == 1) {
            loads[group * self.passes + pass] += self.seconds[net.index() * self.groups + group];
        }
    }
}
