//! Moves: pieces of a call, closed under predecessors or successors within the call, move elsewhere.
//!
//! A single operator can rarely leave a call: its predecessors and successors in the call would then wait for one
//! another. So a move takes a *piece*: an operator with all of its predecessors (or successors) in its call or, on
//! hosts, possibly the operator alone, together with everything that must share a device with a member. The piece moves
//!
//! - to a neighbour: the site of an outside operator that the piece reads from or feeds (a boundary shifts; if the
//!   piece is the whole call, two calls merge);
//! - to an empty call (a call splits);
//! - to the hosts.
//!
//! A further move exchanges two accelerators, with all their calls.

use rand::{Rng, RngExt};
use stagewright_core::call_timing::Site;
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::ids::Keyed;

use super::state::SiteAssignment;

/// Generator of random moves, without allocation.
#[derive(Debug)]
pub(super) struct Moves {
    piece: Vec<OpId>,
    /// Round in which each operator was last added to a piece.
    stamp: Keyed<OpId, u32>,
    round: u32,
    around: Vec<Site>,
    moves: Vec<(OpId, Site)>,
}

/// Number of moves of each kind among 16: to hosts, to an empty call, exchanges; the rest go to neighbours.
const TO_HOSTS: u32 = 4;
const TO_EMPTY: u32 = 2;
const EXCHANGES: u32 = 1;
/// Number of pieces among 4 on hosts that include predecessors or successors.
const HOST_PIECES: u32 = 2;
/// Maximum size at which a piece on hosts stops growing.
const MAX_ON_HOSTS: usize = 64;

impl Moves {
    pub(super) fn new(graph: &Graph) -> Moves {
        Moves {
            piece: Vec::new(),
            stamp: Keyed::filled(0, graph.operator_count()),
            round: 0,
            around: Vec::new(),
            moves: Vec::new(),
        }
    }

    /// Draws a move; empty if the drawn move changes nothing.
    pub(super) fn draw(&mut self, state: &SiteAssignment<'_>, rng: &mut impl Rng) -> &[(OpId, Site)] {
        self.moves.clear();
        let graph = state.problem().graph();
        let op = OpId::new(rng.random_range(0..graph.operator_count()));
        let kind = rng.random_range(0..16u32);
        if kind < EXCHANGES {
            self.exchange(state, op, rng);
            return &self.moves;
        }
        let before = rng.random_bool(0.5);
        self.take(state, op, before, rng);
        if kind < EXCHANGES + TO_HOSTS {
            for &op in &self.piece {
                self.moves.extend(state.on_host(op).map(|site| (op, site)));
            }
            if self.moves.len() < self.piece.len() {
                self.moves.clear();
            }
            return &self.moves;
        }
        let to = if kind < EXCHANGES + TO_HOSTS + TO_EMPTY {
            empty_call(state, rng)
        } else {
            self.find_around(state);
            (!self.around.is_empty()).then(|| self.around[rng.random_range(0..self.around.len())])
        };
        if let Some(to) = to {
            self.moves.extend(self.piece.iter().map(|&op| (op, to)));
        }
        &self.moves
    }

    /// Takes the operator with all of its predecessors, or all of its successors, on its site, and the operators
    /// colocated with any of them.
    fn take(&mut self, state: &SiteAssignment<'_>, op: OpId, before: bool, rng: &mut impl Rng) {
        let graph = state.problem().graph();
        self.round = self.round.wrapping_add(1);
        self.piece.clear();
        let home = state.site(op);
        let along = match home {
            Site::Call(_) => true,
            Site::Host(_) => rng.random_range(0..4u32) < HOST_PIECES,
        };
        let limit = match home {
            Site::Call(_) => usize::MAX,
            Site::Host(_) => rng.random_range(1..=MAX_ON_HOSTS),
        };
        self.push(op);
        let mut next = 0;
        while next < self.piece.len() {
            let member = self.piece[next];
            next += 1;
            for &other in graph.class(graph.class_of(member)) {
                self.push(other);
            }
            if !along || self.piece.len() >= limit {
                continue;
            }
            let next = if before { graph.predecessors(member) } else { graph.successors(member) };
            for &other in next.iter().filter(|&&other| state.site(other) == home) {
                self.push(other);
            }
        }
    }

    fn push(&mut self, op: OpId) {
        if self.stamp[op] != self.round {
            self.stamp[op] = self.round;
            self.piece.push(op);
        }
    }

    /// Finds the calls adjacent to a piece.
    fn find_around(&mut self, state: &SiteAssignment<'_>) {
        let graph = state.problem().graph();
        self.around.clear();
        for &op in &self.piece {
            let near = graph.predecessors(op).iter().chain(graph.successors(op));
            for &other in near.filter(|&&other| self.stamp[other] != self.round) {
                let site = state.site(other);
                if matches!(site, Site::Call(_)) && site != state.site(op) {
                    self.around.push(site);
                }
            }
        }
        self.around.sort_unstable();
        self.around.dedup();
    }

    /// Exchanges two accelerators, call by call.
    fn exchange(&mut self, state: &SiteAssignment<'_>, op: OpId, rng: &mut impl Rng) {
        let slots = state.slots();
        let Site::Call(own) = state.site(op) else { return };
        let own = slots.of_device(own);
        let other = slots.of_device(rng.random_range(0..slots.calls.len() as u32));
        if own == other {
            return;
        }
        for op in state.problem().graph().operators() {
            let Site::Call(call) = state.site(op) else { continue };
            if own.contains(&call) {
                self.moves.push((op, Site::Call(call - own.start + other.start)));
            } else if other.contains(&call) {
                self.moves.push((op, Site::Call(call - other.start + own.start)));
            }
        }
    }
}

/// The first empty call of a random accelerator.
fn empty_call(state: &SiteAssignment<'_>, rng: &mut impl Rng) -> Option<Site> {
    let calls = state.slots().calls.len() as u32;
    if calls == 0 {
        return None;
    }
    let any = rng.random_range(0..calls);
    let mut of_device = state.slots().of_device(any);
    of_device.find(|&call| state.members(call) == 0).map(Site::Call)
}
