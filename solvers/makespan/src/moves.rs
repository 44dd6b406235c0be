//! Moves of the searches: they change the device of a group, or the queue positions of two operators.
//!
//! Many moves start from the critical path: from an operator on it, or from one end of a tensor on it. The fraction of
//! such moves, and the size of the groups that they move, depend on past gains ([`choice`](super::choice)). A group
//! mostly moves to the device of an operator that sends to it or reads from it, since on any other device all its
//! tensors have to be sent. With guidance, half of the moves of groups are drawn from the guidance: the class to move,
//! the classes that move with it, and the device. A move that starts from the critical path keeps its own class and
//! takes only the other two from the guidance.

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{ClassId, Graph, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::simulate::{Activity, Change, Flow, Timeline};

use super::choice::{Change as Changed, Choice, Kind};
use super::groups::Groups;
use super::guidance::Guidance;
use super::instance::Instance;
use super::schedule::Schedule;

/// Fraction of the device moves that go to a neighbour's device.
const TO_NEIGHBOUR: f64 = 0.7;
/// Fraction of the moves of groups drawn from guidance, if there is any.
const GUIDED: f64 = 0.5;
/// Maximum distance in the queue between two operators that are exchanged.
const FARTHEST: usize = 32;

/// A move that can be undone.
#[derive(Debug, Clone, Default)]
pub(super) struct Move {
    /// Moved classes with their previous devices.
    devices: Vec<(ClassId, DeviceId)>,
    /// Two exchanged positions in the order of the queues.
    swapped: Option<(usize, usize)>,
    /// Index of the kind of the move.
    pub(super) kind: usize,
}

/// A schedule changed by moves, with its queues as an order.
#[derive(Debug, Clone)]
pub(super) struct SearchState {
    pub(super) schedule: Schedule,
    /// The device of every class.
    homes: Keyed<ClassId, DeviceId>,
    /// The operators by rank.
    order: Vec<OpId>,
    /// Operators on the critical path, or at one end of a tensor on it.
    critical: Vec<OpId>,
}

impl Move {
    /// The moved classes, each with its previous device.
    pub(super) fn homes(&self) -> &[(ClassId, DeviceId)] {
        &self.devices
    }

    /// The moved classes.
    pub(super) fn classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.devices.iter().map(|&(class, _)| class)
    }
}

impl SearchState {
    /// The state of a schedule of `instance`; a schedule without priorities gets `order`.
    pub(super) fn new(schedule: &Schedule, order: &[OpId], instance: &Instance<'_>) -> SearchState {
        let mut by_rank = order.to_vec();
        if !schedule.ranks.is_empty() {
            by_rank.sort_by_key(|op| (schedule.ranks[op.index()], op.0));
        }
        let graph = instance.graph();
        let home = |class| schedule.device_of[graph.class(class)[0].index()];
        SearchState {
            homes: graph.class_ids().map(home).collect(),
            schedule: Schedule::by_order(schedule.device_of.clone(), &by_rank),
            order: by_rank,
            critical: Vec::new(),
        }
    }

    /// The device of a class.
    pub(super) fn home(&self, class: ClassId) -> DeviceId {
        self.homes[class]
    }

    /// The two operators that a move has exchanged.
    pub(super) fn swapped(&self, made: &Move) -> Option<[OpId; 2]> {
        made.swapped.map(|(a, b)| [a, b].map(|place| self.order[place]))
    }

    /// Changes of the schedule by a move that has been made.
    pub(super) fn changes<'a>(
        &'a self,
        made: &'a Move,
        graph: &'a Graph,
    ) -> impl Iterator<Item = Change> + 'a {
        let moved = |class: ClassId| {
            let home = self.home(class);
            graph.class(class).iter().map(move |&op| Change::Device(op, home))
        };
        let swapped = made.swapped.into_iter().flat_map(<[usize; 2]>::from);
        let ranked = |op: OpId| Change::Rank(op, self.schedule.ranks[op.index()]);
        let swapped = swapped.map(move |place| ranked(self.order[place]));
        made.classes().flat_map(moved).chain(swapped)
    }

    /// Records the critical path.
    pub(super) fn see(&mut self, (flow, timeline): (&Flow, &Timeline), graph: &Graph) {
        self.critical.clear();
        for step in timeline.critical_path(flow) {
            match step.activity {
                Activity::Operator(op) => self.critical.push(OpId(op)),
                Activity::Transfer(transfer) => {
                    let there: Vec<u32> = flow.destinations(transfer).collect();
                    let is_there = |op: &&OpId| there.contains(&self.schedule.device_of[op.index()].0);
                    let readers = graph.successors(OpId(flow.producer_of(transfer)));
                    self.critical.extend(readers.iter().find(is_there));
                }
            }
        }
    }

    /// Makes a random move; `None` if the drawn move changes nothing.
    pub(super) fn step(
        &mut self,
        instance: &Instance<'_>,
        groups: &Groups,
        guidance: Option<&Guidance>,
        choice: &Choice,
        rng: &mut impl Rng,
    ) -> Option<Move> {
        let kind = choice.draw(rng);
        let Kind { is_critical, change } = choice.kind(kind);
        let place =
            (is_critical && !self.critical.is_empty()).then(|| rng.random_range(0..self.critical.len()));
        let op = match place {
            Some(place) => self.critical[place],
            None => self.order[rng.random_range(0..self.order.len())],
        };
        let made = match (change, place) {
            (Changed::Queue, _) => self.swap(op, rng),
            _ if instance.device_count() < 2 => self.swap(op, rng),
            (Changed::Stretch, Some(place)) => {
                let (classes, to) = self.stretch(place, instance.graph(), rng)?;
                self.shift(&classes, to, instance)
            }
            (Changed::Stretch, None) => None,
            (Changed::Group(level), _) => match guidance.filter(|_| rng.random_bool(GUIDED)) {
                Some(guidance) => {
                    // A move that starts from the critical path moves an operator on it.
                    let class = match place {
                        Some(_) => instance.graph().class_of(op),
                        None => guidance.pick(rng)?,
                    };
                    let to = guidance.target(class, rng)?;
                    let groups = guidance.groups();
                    self.shift(groups.around(level.min(groups.level_count() - 1), class), to, instance)
                }
                None => {
                    let to = self.target(op, instance, rng)?;
                    self.shift(groups.around(level, instance.graph().class_of(op)), to, instance)
                }
            },
        };
        made.map(|made| Move { kind, ..made })
    }

    /// The classes of a stretch of the critical path that is on one device and ends or begins at `place`, and the other
    /// device that the path visits right before or after the stretch.
    fn stretch(&self, place: usize, graph: &Graph, rng: &mut impl Rng) -> Option<(Vec<ClassId>, DeviceId)> {
        let device = |index: usize| self.schedule.device_of[self.critical[index].index()];
        let here = device(place);
        let first = (0..place).rev().find(|&index| device(index) != here);
        let last = (place + 1..self.critical.len()).find(|&index| device(index) != here);
        let (begin, end) = (first.map_or(0, |index| index + 1), last.unwrap_or(self.critical.len()));
        // The part from one end of the stretch to `place`.
        let (part, to) = match rng.random_bool(0.5) {
            true => (begin..place + 1, first?),
            false => (place..end, last?),
        };
        let classes = self.critical[part].iter().map(|&op| graph.class_of(op)).collect();
        Some((classes, device(to)))
    }

    /// A device for an operator, other than its own.
    fn target(&self, op: OpId, instance: &Instance<'_>, rng: &mut impl Rng) -> Option<DeviceId> {
        let graph = instance.graph();
        let here = self.schedule.device_of[op.index()];
        let [before, after] = [graph.predecessors(op), graph.successors(op)];
        let neighbours = before.len() + after.len();
        if neighbours > 0 && rng.random_bool(TO_NEIGHBOUR) {
            let index = rng.random_range(0..neighbours);
            let neighbour = before.get(index).copied().unwrap_or_else(|| after[index - before.len()]);
            let there = self.schedule.device_of[neighbour.index()];
            if there != here {
                return Some(there);
            }
        }
        let homes = instance.homes(op);
        let there = homes[rng.random_range(0..homes.len())];
        (there != here).then_some(there)
    }

    /// Moves classes to a device, skipping those that cannot run there.
    fn shift(&mut self, classes: &[ClassId], to: DeviceId, instance: &Instance<'_>) -> Option<Move> {
        let mut made = Move::default();
        for &class in classes {
            let from = self.home(class);
            let first = instance.graph().class(class)[0];
            if from != to && instance.seconds(first, to).is_finite() {
                made.devices.push((class, from));
                self.settle(class, to, instance);
            }
        }
        (!made.devices.is_empty()).then_some(made)
    }

    fn settle(&mut self, class: ClassId, to: DeviceId, instance: &Instance<'_>) {
        self.homes[class] = to;
        for op in instance.graph().class(class) {
            self.schedule.device_of[op.index()] = to;
        }
    }

    /// Exchanges an operator with one on the same device that is near in the queues.
    fn swap(&mut self, op: OpId, rng: &mut impl Rng) -> Option<Move> {
        let here = self.schedule.device_of[op.index()];
        let position = self.schedule.ranks[op.index()] as usize;
        let far = rng.random_range(1..=FARTHEST);
        let is_here = |&place: &usize| self.schedule.device_of[self.order[place].index()] == here;
        let other = match rng.random_bool(0.5) {
            true => (position.saturating_sub(far)..position).find(is_here),
            false => (position + 1..(position + 1 + far).min(self.order.len())).rfind(is_here),
        }?;
        self.exchange(position, other);
        Some(Move { swapped: Some((position, other)), ..Move::default() })
    }

    fn exchange(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
        self.schedule.ranks.swap(self.order[a].index(), self.order[b].index());
    }

    /// Undoes a move. Undoing the returned move redoes it.
    pub(super) fn undo(&mut self, made: &Move, instance: &Instance<'_>) -> Move {
        let back = |&(class, _): &(ClassId, DeviceId)| (class, self.home(class));
        let redo = Move { devices: made.devices.iter().map(back).collect(), ..*made };
        for &(class, from) in &made.devices {
            self.settle(class, from, instance);
        }
        if let Some((a, b)) = made.swapped {
            self.exchange(a, b);
        }
        redo
    }
}
