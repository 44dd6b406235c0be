//! The cheapest covers of a layer: sets of nodes that together serve more than a flow, at prices of nodes.

use crate::problem::Type;

/// A node of a type with a number of layers, as a member of a cover.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Member {
    /// Index of the type.
    kind: usize,
    layers: usize,
    rate: f64,
    cost: f64,
}

/// Members of a cover: types, numbers of layers, and numbers of such nodes.
pub(crate) type Cover = Vec<(usize, usize, f64)>;

/// Number of partial covers after which a search gives up.
const STEPS: usize = 200_000;
/// Number of different members of a cover beyond which a search gives up.
const DEEPEST: usize = 500;

/// Members that may be in a cheapest cover, by their cost for a token per second.
pub(crate) struct Members(Vec<Member>);

impl Members {
    /// Members at prices of the types. Of members that serve no more at no less cost, only one is kept. O(n log n) with n
    /// the number of rates of all types.
    pub(crate) fn new(types: &[Type], prices: &[f64]) -> Members {
        let mut all: Vec<Member> = Vec::new();
        for (kind, (Type { rates, .. }, &price)) in types.iter().zip(prices).enumerate() {
            for (index, &rate) in rates.iter().enumerate() {
                let layers = index + 1;
                all.push(Member { kind, layers, rate, cost: price / layers as f64 });
            }
        }
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(b.rate.total_cmp(&a.rate)));
        let mut fastest = 0.0;
        all.retain(|member| {
            let is_faster = member.rate > fastest;
            fastest = member.rate.max(fastest);
            is_faster
        });
        all.sort_by(|a, b| (a.cost / a.rate).total_cmp(&(b.cost / b.rate)));
        Members(all)
    }

    /// The cheapest cover of at least `fewest` members (1 or 2) that serves more than `flow`, with its cost; `None` if the
    /// search gives up. Branch and bound by the cost for a token per second. The cost is infinite if there are no members.
    pub(crate) fn cheapest(&self, flow: f64, fewest: usize) -> Option<(f64, Cover)> {
        let mut search =
            Search { members: &self.0, best: f64::INFINITY, cover: Vec::new(), chosen: Vec::new(), steps: 0 };
        match fewest {
            0 | 1 => search.extend(0, flow, 0.0),
            // A second member may serve nothing that is needed: then it is the cheapest one.
            _ => {
                let cheapest = self.0.iter().copied().min_by(|a, b| a.cost.total_cmp(&b.cost));
                let Some(cheapest) = cheapest else { return Some((f64::INFINITY, Cover::new())) };
                for &member in &self.0 {
                    search.with(member, 1.0, |search| match member.rate > flow {
                        true => {
                            search.with(cheapest, 1.0, |search| search.offer(member.cost + cheapest.cost))
                        }
                        false => search.extend(0, flow - member.rate, member.cost),
                    });
                }
            }
        }
        (search.steps < STEPS).then_some((search.best, search.cover))
    }
}

struct Search<'m> {
    members: &'m [Member],
    best: f64,
    cover: Cover,
    chosen: Cover,
    steps: usize,
}

impl Search<'_> {
    /// Extends the chosen members, from the member `first` on, until they serve more than `missing`, which is not negative.
    fn extend(&mut self, first: usize, missing: f64, cost: f64) {
        for index in first..self.members.len() {
            let member = self.members[index];
            // Members are in the order of their cost for a token per second.
            if cost + missing * (member.cost / member.rate) >= self.best || self.is_over() {
                return;
            }
            let enough = (missing / member.rate).floor() + 1.0;
            self.with(member, enough, |search| search.offer(cost + enough * member.cost));
            let Some(next) = self.members.get(index + 1) else { return };
            let mut copies = enough - 1.0;
            while copies >= 1.0 && !self.is_over() {
                self.steps += 1;
                let rest = (missing - copies * member.rate).max(0.0);
                let cost = cost + copies * member.cost;
                // Fewer copies leave more to members that cost more.
                if cost + rest * (next.cost / next.rate) >= self.best {
                    break;
                }
                self.with(member, copies, |search| search.extend(index + 1, rest, cost));
                copies -= 1.0;
            }
        }
    }

    fn is_over(&mut self) -> bool {
        self.steps += 1;
        if self.chosen.len() > DEEPEST {
            self.steps = STEPS;
        }
        self.steps >= STEPS
    }

    fn with(&mut self, member: Member, copies: f64, then: impl FnOnce(&mut Self)) {
        self.chosen.push((member.kind, member.layers, copies));
        then(self);
        self.chosen.pop();
    }

    fn offer(&mut self, cost: f64) {
        if cost < self.best {
            self.best = cost;
            self.cover.clone_from(&self.chosen);
        }
    }
}
