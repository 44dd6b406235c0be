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

/// Members of a cover: types with numbers of layers.
pub(crate) type Cover = Vec<(usize, usize)>;

/// Number of partial covers after which a search gives up.
const STEPS: usize = 200_000;

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
                for first in 0..self.0.len() {
                    let member = self.0[first];
                    search.chosen.push((member.kind, member.layers));
                    if member.rate > flow {
                        search.add_cheapest(member.cost);
                    } else {
                        search.extend(0, flow - member.rate, member.cost);
                    }
                    search.chosen.pop();
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
            if cost + missing * (member.cost / member.rate) >= self.best || self.steps >= STEPS {
                return;
            }
            self.steps += 1;
            self.chosen.push((member.kind, member.layers));
            if member.rate > missing {
                self.offer(cost + member.cost);
            } else {
                self.extend(index, missing - member.rate, cost + member.cost);
            }
            self.chosen.pop();
        }
    }

    fn add_cheapest(&mut self, cost: f64) {
        if let Some(member) = self.members.iter().min_by(|a, b| a.cost.total_cmp(&b.cost)).copied() {
            self.chosen.push((member.kind, member.layers));
            self.offer(cost + member.cost);
            self.chosen.pop();
        }
    }

    fn offer(&mut self, cost: f64) {
        if cost < self.best {
            self.best = cost;
            self.cover.clone_from(&self.chosen);
        }
    }
}
