//! Plans with all stages within a given time.
//!
//! Sets of layers closed under successors are visited by size. A label summarises the stages of such a set by two
//! numbers: the sum of their copies, on which the memory of earlier stages depends, and the number of their devices;
//! only undominated labels are kept. A label is extended by every stage that may precede its set and takes at most the
//! threshold: for each degree of tensor parallelism with the fewest copies that time and memory allow, since further
//! copies only add cost.
//!
//! A set is not extended further than the time and memory of one microbatch allow at any degree, and a label is not
//! extended if the remaining layers take more device seconds than the remaining devices have.
//!
//! If there is no plan, the smallest time above the threshold is the next threshold that can change the result.

use rustc_hash::FxHashMap;
use stagewright_core::bits;
use stagewright_core::stop::Stop;
use stagewright_core::tolerance::OPTIMAL_RELATIVE;

use crate::choice::Outcome;
use crate::sample::lattice::Lattice;
use crate::sample::problem::Problem;
use crate::sample::stage::{Degrees, Least, Stage, Sums};

/// The outcome if no choice fits into memory.
const NOTHING_FITS: Outcome = Outcome::Above(f64::INFINITY);

/// Number of sets of layers between two checks of the clock.
const PATIENCE: u32 = 1 << 10;

/// The outcome for a threshold.
pub(crate) enum Answer {
    /// A plan: stages from the last to the first.
    Plan(Vec<Planned>),
    /// No plan takes less than this time in seconds.
    Above(f64),
    /// Undecided: no plan is known, and none is excluded.
    Unknown,
}

/// A stage of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    pub(crate) layers: Vec<usize>,
    pub(crate) degrees: Degrees,
    pub(crate) in_flight: u32,
    pub(crate) seconds: f64,
    /// Position of the configuration of every layer among those of its degree.
    pub(crate) configurations: Vec<u32>,
}

/// Resources of the stages of a set.
#[derive(Debug, Clone, Copy)]
struct Label {
    /// Sum of the copies of all stages.
    copies: u32,
    devices: u32,
    /// The set without its first stage, the index of its label, and the degrees of the stage.
    from: (u32, u32),
    degrees: Degrees,
}

struct Set {
    members: Box<[u64]>,
    labels: Vec<Label>,
}

/// Finds a plan whose stages take at most `threshold` seconds.
pub(crate) fn within(
    problem: &Problem,
    least: &Least,
    lattice: &Lattice,
    threshold: f64,
    memory: Option<u64>,
    stop: &Stop,
) -> Answer {
    let mut search = Search::new(problem, least, lattice, threshold, memory, stop);
    search.run();
    search.answer()
}

struct Search<'p> {
    problem: &'p Problem,
    least: &'p Least,
    lattice: &'p Lattice,
    threshold: f64,
    /// Device seconds of all layers.
    work: f64,
    stop: &'p Stop,
    /// Maximum bytes of the sets.
    memory: u64,
    bytes: u64,
    sets: Vec<Set>,
    of_members: FxHashMap<Box<[u64]>, u32>,
    /// Sets by their number of layers.
    by_size: Vec<Vec<u32>>,
    /// Smallest time above the threshold that was encountered.
    next: f64,
    /// Whether some stage was skipped without proof.
    is_undecided: bool,
    is_stopped: bool,
    is_found: bool,
    patience: u32,
    growth: Growth,
}

/// The stage that is being grown.
#[derive(Default)]
struct Growth {
    from: u32,
    /// Number of layers after the stage.
    behind: usize,
    labels: Vec<Label>,
    members: Vec<u64>,
    is_inside: Vec<bool>,
    layers: Vec<usize>,
    /// Number of positions that each position still waits for.
    missing: Vec<u32>,
    /// Device seconds of the layers that are in no stage yet, without and with the stage.
    work: f64,
    rest: f64,
    /// Minimum figures by degree, after every layer of the stage.
    sums: Vec<Vec<Sums>>,
}

impl<'p> Search<'p> {
    fn new(
        problem: &'p Problem,
        least: &'p Least,
        lattice: &'p Lattice,
        threshold: f64,
        memory: Option<u64>,
        stop: &'p Stop,
    ) -> Search<'p> {
        let nothing: Box<[u64]> = vec![0; lattice.words()].into();
        let start = Label { copies: 0, devices: 0, from: (0, 0), degrees: Degrees { tensor: 0, copies: 0 } };
        let mut by_size = vec![Vec::new(); lattice.len() + 1];
        by_size[0].push(0);
        Search {
            problem,
            least,
            lattice,
            threshold,
            work: least.device_seconds.iter().sum(),
            stop,
            memory: memory.unwrap_or(u64::MAX),
            bytes: 0,
            of_members: FxHashMap::from_iter([(nothing.clone(), 0)]),
            sets: vec![Set { members: nothing, labels: vec![start] }],
            by_size,
            next: f64::INFINITY,
            is_undecided: false,
            is_stopped: false,
            is_found: false,
            patience: PATIENCE,
            growth: Growth::default(),
        }
    }

    fn run(&mut self) {
        for size in 0..self.lattice.len() {
            for set in std::mem::take(&mut self.by_size[size]) {
                self.extend(set);
                if self.is_stopped || self.is_found {
                    return;
                }
            }
        }
    }

    /// Extends the labels of a set by every stage that may precede it.
    fn extend(&mut self, set: u32) {
        let Set { members, labels } = &mut self.sets[set as usize];
        labels.sort_unstable_by_key(|label| (label.copies, label.devices));
        let (ready, missing) = self.lattice.frontier(members);
        let mut growth = std::mem::take(&mut self.growth);
        growth.from = set;
        growth.behind = members.iter().map(|word| word.count_ones() as usize).sum();
        growth.labels.clone_from(labels);
        growth.members.clear();
        growth.members.extend_from_slice(members);
        growth.is_inside.clear();
        growth.is_inside.resize(self.lattice.len(), false);
        growth.rest = 0.0;
        for (position, &layer) in self.lattice.layer_at.iter().enumerate() {
            if !bits::contains(members, position) {
                growth.rest += self.least.device_seconds[layer];
            }
        }
        growth.work = growth.rest;
        growth.missing = missing;
        growth.sums = vec![vec![Sums::default(); self.problem.degrees.len()]];
        self.growth = growth;
        self.grow(&ready);
    }

    /// Adds each of the ready layers to the stage, and then recursively the later layers of the list and those that
    /// become ready.
    fn grow(&mut self, ready: &[u32]) {
        for (i, &position) in ready.iter().enumerate() {
            let layer = self.lattice.layer_at[position as usize];
            let rest = self.growth.rest;
            self.enter(position as usize, layer);
            if self.evaluate() {
                let mut next: Vec<u32> = ready[i + 1..].to_vec();
                let following = self.lattice.following(position as usize);
                next.extend(following.iter().filter(|&&next| self.growth.missing[next as usize] == 0));
                if !next.is_empty() {
                    self.grow(&next);
                }
            }
            self.leave(position as usize, layer, rest);
            if self.is_stopped {
                return;
            }
        }
    }

    fn enter(&mut self, position: usize, layer: usize) {
        let Growth { members, is_inside, layers, missing, rest, sums, .. } = &mut self.growth;
        bits::insert(members, position);
        let mut with_layer = sums[sums.len() - 1].clone();
        self.least.add(self.problem, &mut with_layer, layer, is_inside);
        sums.push(with_layer);
        is_inside[layer] = true;
        layers.push(layer);
        *rest -= self.least.device_seconds[layer];
        self.lattice.following(position).iter().for_each(|&next| missing[next as usize] -= 1);
    }

    fn leave(&mut self, position: usize, layer: usize, rest: f64) {
        let growth = &mut self.growth;
        bits::remove(&mut growth.members, position);
        growth.sums.pop();
        growth.is_inside[layer] = false;
        growth.layers.pop();
        growth.rest = rest;
        self.lattice.following(position).iter().for_each(|&next| growth.missing[next as usize] += 1);
    }

    /// Extends the labels by the stage. Returns whether a larger stage may be possible.
    fn evaluate(&mut self) -> bool {
        self.patience -= 1;
        if self.patience == 0 {
            self.patience = PATIENCE;
            self.is_stopped |= self.stop.reason().is_some() || self.bytes > self.memory;
        }
        let problem = self.problem;
        let is_whole = self.growth.layers.len() == self.lattice.len();
        let set = self.of_members.get(&self.growth.members[..]).copied();
        let extends = (problem.terms.pipeline || is_whole) && !self.is_no_use(set);
        let (mut is_alive, mut least_of_larger) = (false, f64::INFINITY);
        for tensor in 0..problem.degrees.len() {
            let sums = self.growth.sums[self.growth.sums.len() - 1][tensor];
            if sums.is_too_large(problem) {
                continue;
            }
            let max_copies = problem.devices / problem.degrees[tensor];
            let copies = &problem.copies[..problem.copies.partition_point(|&copies| copies <= max_copies)];
            // The time is monotonic in the number of copies, so its minimum is at an end.
            let ends = copies.first().into_iter().chain(copies.last());
            let of_larger = ends.map(|&copies| sums.seconds(problem, copies).1).fold(f64::INFINITY, f64::min);
            is_alive |= of_larger <= self.threshold;
            least_of_larger = least_of_larger.min(of_larger);
            if !extends {
                continue;
            }
            let mut usable = Vec::new();
            for &copies in copies {
                let seconds = sums.seconds(problem, copies).0;
                match seconds <= self.threshold {
                    true => usable.push(copies),
                    false => self.next = self.next.min(seconds.max(self.above())),
                }
            }
            if !usable.is_empty() {
                self.extend_labels(tensor, &usable, &sums);
            }
        }
        if !is_alive {
            self.next = self.next.min(least_of_larger.max(self.above()));
        }
        is_alive && !self.is_stopped
    }

    /// Whether the front already contains a label at least as good as every extension by the stage.
    fn is_no_use(&mut self, set: Option<u32>) -> bool {
        let labels = &self.growth.labels;
        let Some(copies) = labels.iter().map(|label| label.copies).min() else { return true };
        let devices = f64::from(labels.iter().map(|label| label.devices).min().unwrap_or(0));
        let Some(set) = set else { return false };
        let known = self.sets[set as usize].labels.iter().filter(|label| label.copies <= copies + 1);
        let Some(known) = known.map(|label| f64::from(label.devices)).reduce(f64::min) else { return false };
        let work = (self.growth.work - self.growth.rest - self.work * OPTIMAL_RELATIVE).max(0.0);
        if devices + (work / self.threshold).ceil().max(1.0) < known {
            return false;
        }
        // At this threshold the stage may need one device fewer than the label.
        let fewer = known - 1.0 - devices;
        if fewer > 0.0 {
            self.next = self.next.min((work / fewer).max(self.above()));
        }
        true
    }

    /// Smallest threshold that counts as above this one.
    fn above(&self) -> f64 {
        self.threshold * (1.0 + OPTIMAL_RELATIVE)
    }

    fn extend_labels(&mut self, tensor: usize, usable: &[u32], sums: &Sums) {
        let problem = self.problem;
        let degree = problem.degrees[tensor];
        let labels = std::mem::take(&mut self.growth.labels);
        // Numbers of microbatches in flight that are known to fit and known not to fit, by copies.
        let mut known = vec![(0, u32::MAX); usable.len()];
        for (index, label) in labels.iter().enumerate() {
            for (&copies, known) in usable.iter().zip(&mut known) {
                let (all, devices) = (label.copies + copies, label.devices + copies * degree);
                if all > problem.most_copies() || devices > problem.devices {
                    break;
                }
                let left = f64::from(problem.devices - devices);
                // The rest is a sum of differences, which may leave a small error.
                let rest = self.growth.rest - self.work * OPTIMAL_RELATIVE;
                if left * self.threshold < rest {
                    self.next = self.next.min((rest / left).max(self.above()));
                    break;
                }
                if self.is_dominated(all, devices) {
                    break;
                }
                let in_flight = all.div_ceil(copies);
                if in_flight >= known.1 {
                    continue;
                }
                if in_flight > known.0 {
                    let Growth { layers, is_inside, .. } = &self.growth;
                    let stage = Stage { layers, is_inside };
                    let degrees = Degrees { tensor, copies };
                    let decided = sums.decide(problem, copies, in_flight, self.threshold);
                    let choose = || problem.choose(stage, degrees, in_flight, self.threshold, self.threshold);
                    match decided.map_or_else(|| Some(choose()), |fits| (!fits).then_some(NOTHING_FITS)) {
                        None | Some(Outcome::Found(_)) => known.0 = in_flight,
                        Some(Outcome::Above(seconds)) => {
                            known.1 = in_flight;
                            self.next = self.next.min(seconds.max(self.above()));
                            continue;
                        }
                        Some(Outcome::Undecided) => {
                            known.1 = in_flight;
                            self.is_undecided = true;
                            continue;
                        }
                    }
                }
                self.keep(Label {
                    copies: all,
                    devices,
                    from: (self.growth.from, index as u32),
                    degrees: Degrees { tensor, copies },
                });
                break;
            }
        }
        self.growth.labels = labels;
    }

    fn is_dominated(&self, copies: u32, devices: u32) -> bool {
        let set = self.of_members.get(&self.growth.members[..]);
        set.is_some_and(|&set| {
            let labels = &self.sets[set as usize].labels;
            labels.iter().any(|label| label.copies <= copies && label.devices <= devices)
        })
    }

    fn keep(&mut self, label: Label) {
        let set = match self.of_members.get(&self.growth.members[..]) {
            Some(&set) => set,
            None => {
                let set = self.sets.len() as u32;
                let members: Box<[u64]> = self.growth.members.clone().into();
                // The set, its entry in the map, and room for labels.
                self.bytes += members.len() as u64 * 16 + 160;
                self.of_members.insert(members.clone(), set);
                let size: u32 = members.iter().map(|word| word.count_ones()).sum();
                self.by_size[size as usize].push(set);
                self.sets.push(Set { members, labels: Vec::new() });
                set
            }
        };
        // A set of all layers is a plan.
        self.is_found |= self.growth.layers.len() + self.growth.behind == self.lattice.len();
        let labels = &mut self.sets[set as usize].labels;
        let before = labels.len();
        labels.retain(|other| other.copies < label.copies || other.devices < label.devices);
        labels.push(label);
        self.bytes += (labels.len().saturating_sub(before) * size_of::<Label>()) as u64;
    }

    fn answer(mut self) -> Answer {
        let all = self.by_size[self.lattice.len()].first().copied();
        let Some(mut set) = all else {
            return match self.is_undecided || self.is_stopped {
                true => Answer::Unknown,
                false => Answer::Above(self.next),
            };
        };
        // The fewest devices, then the fewest copies.
        let labels = &self.sets[set as usize].labels;
        let best = labels.iter().min_by_key(|label| (label.devices, label.copies)).copied();
        let Some(mut label) = best else { return Answer::Unknown };
        let mut stages = Vec::new();
        while label.degrees.copies > 0 {
            let (before, index) = label.from;
            let members =
                bits::difference(&self.sets[set as usize].members, &self.sets[before as usize].members);
            let layers: Vec<usize> = members.map(|position| self.lattice.layer_at[position]).collect();
            self.growth.is_inside.fill(false);
            layers.iter().for_each(|&layer| self.growth.is_inside[layer] = true);
            let stage = Stage { layers: &layers, is_inside: &self.growth.is_inside };
            let in_flight = label.copies.div_ceil(label.degrees.copies);
            let fastest = f64::NEG_INFINITY;
            let choice = match self.problem.choose(stage, label.degrees, in_flight, fastest, self.above()) {
                Outcome::Found(choice) => choice,
                // A choice exists, but the search for the fastest did not find it.
                Outcome::Above(_) | Outcome::Undecided => return Answer::Unknown,
            };
            stages.push(Planned {
                layers,
                degrees: label.degrees,
                in_flight,
                seconds: choice.seconds,
                configurations: choice.configurations,
            });
            set = before;
            label = self.sets[before as usize].labels[index as usize];
        }
        stages.reverse();
        Answer::Plan(stages)
    }
}
