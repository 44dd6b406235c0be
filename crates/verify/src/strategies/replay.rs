//! The bound that a certificate proves, from the costs of the problem.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use stagewright_core::document::{FORBIDDEN_COST, StrategyCertificateDocument, StrategyProblemDocument};

type Replayed<T> = Result<T, String>;

/// The nodes and edges that remain while the certificate is replayed.
struct Model {
    /// Costs by node and strategy; infinite if the strategy is not allowed.
    costs: Vec<Vec<f64>>,
    /// Costs of edges by their ends, the smaller index first: a row for each strategy of the first end, and in it a
    /// column for each strategy of the second.
    edges: BTreeMap<(usize, usize), Vec<f64>>,
    neighbours: Vec<BTreeSet<usize>>,
    constant: f64,
    /// Largest rounding error that may have accumulated so far.
    error: f64,
}

/// Computes the bound of a certificate; an error states the malformed part.
pub(super) fn bound(
    problem: &StrategyProblemDocument,
    certificate: &StrategyCertificateDocument,
) -> Replayed<f64> {
    let cutoff = certificate.cutoff.unwrap_or(FORBIDDEN_COST).min(FORBIDDEN_COST);
    // Costs are not negative, so a plan with any cost of at least the cutoff costs at least the cutoff.
    let limit = if cutoff < FORBIDDEN_COST { cutoff as f64 } else { f64::INFINITY };
    let mut model = Model::new(problem, cutoff, &certificate.prices)?;
    let everything = model.edges.keys().copied().collect();
    model.remove_unmatched(everything);
    for &[kept, merged] in &certificate.merged {
        model.merge(kept as usize, merged as usize)?;
    }
    if model.costs.iter().any(|costs| !costs.is_empty() && costs.iter().all(|cost| cost.is_infinite())) {
        // No choice is allowed.
        return Ok(limit);
    }
    model.fold_decided();
    model.drop_separable();
    for &node in &certificate.eliminated {
        model.eliminate(node as usize)?;
    }
    Ok(model.messages(certificate)?.min(limit))
}

/// Relative error of one operation.
const ROUNDING: f64 = f64::EPSILON;

/// Integers up to this are exact in double precision.
const EXACT: f64 = (1u64 << 53) as f64;

/// Maximum number of triples of strategies of an elimination. No solver uses more.
const MAX_TRIPLES: usize = 1 << 22;

fn largest(entries: &[f64]) -> f64 {
    entries.iter().map(|entry| entry.abs()).filter(|entry| entry.is_finite()).fold(0.0, f64::max)
}

fn allowed(costs: &[f64]) -> impl Iterator<Item = usize> + Clone {
    (0..costs.len()).filter(|&strategy| costs[strategy].is_finite())
}

fn least(costs: impl IntoIterator<Item = f64>) -> f64 {
    costs.into_iter().fold(f64::INFINITY, f64::min)
}

/// Prices of usage over time.
struct UsagePrices {
    /// Times that have a price, ascending, with the sum of the prices before each.
    before: Vec<(i64, f64)>,
    /// Sum of all prices.
    sum: f64,
}

impl UsagePrices {
    fn new(prices: &[(i64, f64)]) -> UsagePrices {
        let mut before: Vec<(i64, f64)> = prices.to_vec();
        before.sort_by_key(|price| price.0);
        let mut sum = 0.0;
        for (_, price) in &mut before {
            sum += std::mem::replace(price, sum);
        }
        UsagePrices { before, sum }
    }

    /// Sum of the prices before a time.
    fn until(&self, time: i64) -> f64 {
        let next = self.before.partition_point(|&(known, _)| known < time);
        self.before.get(next).map_or(self.sum, |&(_, sum)| sum)
    }

    /// Sum of the prices in an interval.
    fn over(&self, [start, end]: [i64; 2]) -> f64 {
        if start < end { self.until(end) - self.until(start) } else { 0.0 }
    }
}

impl Model {
    fn new(problem: &StrategyProblemDocument, cutoff: i64, prices: &[(i64, f64)]) -> Replayed<Model> {
        let cost = |cost: i64| if cost >= cutoff { f64::INFINITY } else { cost as f64 };
        let count = problem.nodes.costs.len();
        let (mut constant, mut priced) = (0.0, 0.0);
        for &(_, price) in prices {
            if !(price.is_finite() && price >= 0.0) {
                return Err(format!("a price is {price}"));
            }
            match problem.usage_limit {
                Some(limit) => {
                    constant -= price * limit as f64;
                    priced += price;
                }
                None if price == 0.0 => {}
                None => return Err("there is a price, but no limit".into()),
            }
        }
        let usage_prices = UsagePrices::new(prices);
        let mut most_priced = 0.0f64;
        let mut costs: Vec<Vec<f64>> = Vec::with_capacity(count);
        for node in 0..count {
            let price = usage_prices.over(problem.nodes.intervals[node]);
            let strategies = problem.nodes.costs[node].iter().zip(&problem.nodes.usages[node]);
            let mut largest = 0.0f64;
            let row = strategies.map(|(&own, &usage)| {
                let added = price * usage as f64;
                largest = largest.max(usage_prices.sum * usage as f64);
                cost(own) + added
            });
            costs.push(row.collect());
            most_priced += largest;
        }
        // Larger integers are rounded when they become floating-point numbers.
        let largest_of = |lists: &[Vec<i64>]| -> f64 {
            lists.iter().map(|costs| largest(&costs.iter().map(|&own| cost(own)).collect::<Vec<_>>())).sum()
        };
        let integers = largest_of(&problem.nodes.costs) + largest_of(&problem.edges.costs);
        let error = ROUNDING * (if integers > EXACT { integers } else { 0.0 })
            + ROUNDING
                * (prices.len() + 4) as f64
                * (priced * problem.usage_limit.unwrap_or(0) as f64 + most_priced);
        if !error.is_finite() {
            return Err("the prices are too large".into());
        }
        let mut model = Model {
            costs,
            edges: BTreeMap::new(),
            neighbours: vec![BTreeSet::new(); count],
            constant,
            error,
        };
        for (&[first, second], costs) in problem.edges.nodes.iter().zip(&problem.edges.costs) {
            let columns = model.costs[second].len();
            model.add(first, second, |from, to| cost(costs[from * columns + to]));
        }
        Ok(model)
    }

    /// The cost of a pair of strategies of neighbours.
    fn pair(&self, node: usize, from: usize, neighbour: usize, to: usize) -> f64 {
        if node < neighbour {
            self.edges[&(node, neighbour)][from * self.costs[neighbour].len() + to]
        } else {
            self.edges[&(neighbour, node)][to * self.costs[node].len() + from]
        }
    }

    /// Adds costs between two nodes.
    fn add(&mut self, node: usize, other: usize, cost: impl Fn(usize, usize) -> f64) {
        let (first, second) = (node.min(other), node.max(other));
        let (rows, columns) = (self.costs[first].len(), self.costs[second].len());
        let sums = self.edges.entry((first, second)).or_insert_with(|| vec![0.0; rows * columns]);
        for from in 0..rows {
            for to in 0..columns {
                sums[from * columns + to] += if node == first { cost(from, to) } else { cost(to, from) };
            }
        }
        self.neighbours[first].insert(second);
        self.neighbours[second].insert(first);
    }

    fn remove_edge(&mut self, node: usize, other: usize) {
        self.edges.remove(&(node.min(other), node.max(other)));
        self.neighbours[node].remove(&other);
        self.neighbours[other].remove(&node);
    }

    /// Removes strategies that have no allowed partner across an edge.
    fn remove_unmatched(&mut self, mut waiting: VecDeque<(usize, usize)>) {
        while let Some((first, second)) = waiting.pop_front() {
            if !self.edges.contains_key(&(first, second)) {
                continue;
            }
            for (node, other) in [(first, second), (second, first)] {
                let unmatched: Vec<usize> = allowed(&self.costs[node])
                    .filter(|&strategy| {
                        allowed(&self.costs[other])
                            .all(|to| self.pair(node, strategy, other, to).is_infinite())
                    })
                    .collect();
                for &strategy in &unmatched {
                    self.costs[node][strategy] = f64::INFINITY;
                }
                if !unmatched.is_empty() {
                    waiting
                        .extend(self.neighbours[node].iter().map(|&near| (node.min(near), node.max(near))));
                }
            }
        }
    }

    /// Merges a node into a neighbour whose strategy determines its own.
    fn merge(&mut self, kept: usize, merged: usize) -> Replayed<()> {
        if !self.neighbours.get(kept).is_some_and(|near| near.contains(&merged)) {
            return Err(format!("node {merged} is merged into {kept}, which is no neighbour"));
        }
        let mut partner = vec![None; self.costs[kept].len()];
        for from in allowed(&self.costs[kept]).collect::<Vec<_>>() {
            let mut matching =
                allowed(&self.costs[merged]).filter(|&to| self.pair(kept, from, merged, to).is_finite());
            partner[from] = matching.next();
            if matching.next().is_some() {
                return Err(format!(
                    "node {merged} is merged into {kept}, which does not decide its strategy"
                ));
            }
        }
        let is_reduced = allowed(&self.costs[kept]).any(|from| partner[from].is_none());
        for (from, partner) in partner.iter().enumerate() {
            self.costs[kept][from] += match *partner {
                Some(to) => self.pair(kept, from, merged, to) + self.costs[merged][to],
                None => f64::INFINITY,
            };
        }
        self.round(kept);
        self.remove_edge(kept, merged);
        let mut changed = VecDeque::new();
        for near in self.neighbours[merged].clone() {
            let costs: Vec<Vec<f64>> = partner
                .iter()
                .map(|partner| {
                    let row = |to: usize| (0..self.costs[near].len()).map(move |from| (to, from));
                    match *partner {
                        Some(to) => row(to).map(|(to, from)| self.pair(merged, to, near, from)).collect(),
                        None => vec![0.0; self.costs[near].len()],
                    }
                })
                .collect();
            self.remove_edge(merged, near);
            self.add(kept, near, |from, to| costs[from][to]);
            changed.push_back((kept.min(near), kept.max(near)));
        }
        self.costs[merged].clear();
        if is_reduced {
            changed.extend(self.neighbours[kept].iter().map(|&near| (kept.min(near), kept.max(near))));
        }
        self.remove_unmatched(changed);
        Ok(())
    }

    /// Adds the rounding error of the costs of a node, which have become sums.
    fn round(&mut self, node: usize) {
        self.error += 4.0 * ROUNDING * largest(&self.costs[node]);
    }

    /// Folds nodes with one allowed strategy into their neighbours.
    fn fold_decided(&mut self) {
        for node in 0..self.costs.len() {
            let strategies: Vec<usize> = allowed(&self.costs[node]).take(2).collect();
            let [only] = strategies[..] else { continue };
            for near in self.neighbours[node].clone() {
                for to in 0..self.costs[near].len() {
                    self.costs[near][to] += self.pair(node, only, near, to);
                }
                self.round(near);
                self.remove_edge(node, near);
            }
            self.constant += self.costs[node][only];
            self.costs[node].clear();
        }
    }

    /// Removes edges whose cost is the sum of a term for one end and a term for the other.
    fn drop_separable(&mut self) {
        for (first, second) in self.edges.keys().copied().collect::<Vec<_>>() {
            let rows: Vec<usize> = allowed(&self.costs[first]).collect();
            let columns: Vec<usize> = allowed(&self.costs[second]).collect();
            let pair = |row: usize, to: usize| self.pair(first, rows[row], second, columns[to]);
            let is_separable = (0..rows.len()).all(|row| {
                (0..columns.len()).all(|to| {
                    let cost = pair(row, to);
                    // Differences of integers are exact even where their sums may not be.
                    cost.is_finite() && cost - pair(row, 0) == pair(0, to) - pair(0, 0)
                })
            });
            if is_separable {
                let of_rows: Vec<f64> = (0..rows.len()).map(|row| pair(row, 0)).collect();
                let of_columns: Vec<f64> = (0..columns.len()).map(|to| pair(0, to) - pair(0, 0)).collect();
                for (&row, cost) in rows.iter().zip(of_rows) {
                    self.costs[first][row] += cost;
                }
                for (&to, cost) in columns.iter().zip(of_columns) {
                    self.costs[second][to] += cost;
                }
                self.round(first);
                self.round(second);
                self.remove_edge(first, second);
            }
        }
    }

    /// Eliminates a node: its minimum cost, given its neighbours' strategies, is added to their costs.
    fn eliminate(&mut self, node: usize) -> Replayed<()> {
        if self.costs.get(node).is_none_or(|costs| costs.is_empty()) {
            return Err(format!("node {node} is eliminated, but not there"));
        }
        let own: Vec<(usize, f64)> =
            allowed(&self.costs[node]).map(|strategy| (strategy, self.costs[node][strategy])).collect();
        let near: Vec<usize> = self.neighbours[node].iter().copied().collect();
        match near[..] {
            [] => self.constant += least(own.iter().map(|&(_, cost)| cost)),
            [neighbour] => {
                for to in allowed(&self.costs[neighbour]).collect::<Vec<_>>() {
                    self.costs[neighbour][to] += least(
                        own.iter().map(|&(strategy, cost)| cost + self.pair(node, strategy, neighbour, to)),
                    );
                }
                self.round(neighbour);
                self.remove_edge(node, neighbour);
            }
            [left, right] => {
                let triples =
                    own.len() * allowed(&self.costs[left]).count() * allowed(&self.costs[right]).count();
                if triples > MAX_TRIPLES {
                    return Err(format!(
                        "the elimination of node {node} has {triples} triples of strategies"
                    ));
                }
                let mut table = vec![vec![0.0; self.costs[right].len()]; self.costs[left].len()];
                for from in allowed(&self.costs[left]) {
                    for to in allowed(&self.costs[right]) {
                        table[from][to] = least(own.iter().map(|&(mid, cost)| {
                            cost + self.pair(node, mid, left, from) + self.pair(node, mid, right, to)
                        }));
                    }
                }
                self.remove_edge(node, left);
                self.remove_edge(node, right);
                self.add(left, right, |from, to| table[from][to]);
                let sums = &self.edges[&(left.min(right), left.max(right))];
                self.error += 4.0 * ROUNDING * largest(sums);
            }
            _ => return Err(format!("node {node} is eliminated with {} neighbours", near.len())),
        }
        self.costs[node].clear();
        Ok(())
    }

    /// The position of every remaining node in an order.
    fn positions(&self, order: &[u32]) -> Replayed<BTreeMap<usize, usize>> {
        let mut position: BTreeMap<usize, usize> = BTreeMap::new();
        for (index, &node) in order.iter().enumerate() {
            if position.insert(node as usize, index).is_some() {
                return Err(format!("node {node} is twice in the order"));
            }
        }
        let left: Vec<usize> = (0..self.costs.len()).filter(|&node| !self.costs[node].is_empty()).collect();
        if left.len() != position.len() || !left.iter().all(|node| position.contains_key(node)) {
            return Err("the order is not that of the nodes that are left".into());
        }
        Ok(position)
    }

    /// The sum of the minimum costs of the remaining nodes and edges, once the messages are added.
    fn messages(&self, certificate: &StrategyCertificateDocument) -> Replayed<f64> {
        let position = self.positions(&certificate.order)?;
        // Edges by the positions of their ends.
        let by_position = |&(first, second): &(usize, usize)| {
            let (left, right) = (position[&first], position[&second]);
            (left.min(right), left.max(right))
        };
        let mut edges: Vec<(usize, usize)> = self.edges.keys().map(by_position).collect();
        edges.sort_unstable();
        if edges.len() != certificate.messages.len() {
            return Err(format!("{} messages for {} edges", certificate.messages.len(), edges.len()));
        }
        let node = |index: usize| certificate.order[index] as usize;
        let strategies: Vec<Vec<usize>> =
            (0..position.len()).map(|index| allowed(&self.costs[node(index)]).collect()).collect();
        let mut beliefs: Vec<Vec<f64>> = (0..position.len())
            .map(|index| {
                strategies[index].iter().map(|&strategy| self.costs[node(index)][strategy]).collect()
            })
            .collect();
        let mut degrees = vec![[0usize; 2]; position.len()];
        // Adds up the beliefs of every node, and the magnitudes of their terms.
        let mut magnitudes: Vec<f64> = beliefs.iter().map(|costs| largest(costs)).collect();
        for (&(earlier, later), messages) in edges.iter().zip(&certificate.messages) {
            for (end, message) in [(earlier, &messages[0]), (later, &messages[1])] {
                if message.len() != beliefs[end].len() || !message.iter().all(|entry| entry.is_finite()) {
                    return Err(format!("a message to node {} is malformed", node(end)));
                }
                beliefs[end].iter_mut().zip(message).for_each(|(sum, entry)| *sum += entry);
            }
            degrees[earlier][1] += 1;
            degrees[later][0] += 1;
            magnitudes[earlier] += largest(&messages[0]);
            magnitudes[later] += largest(&messages[1]);
        }
        // A node gives an equal share of its belief to each edge to an earlier node, and keeps the rest.
        let share = |index: usize| 1.0 / degrees[index][0].max(degrees[index][1]).max(1) as f64;
        let mut sum = self.constant;
        for (index, belief) in beliefs.iter().enumerate() {
            sum += (1.0 - share(index) * degrees[index][0] as f64) * least(belief.iter().copied());
        }
        for (&(earlier, later), [to_earlier, to_later]) in edges.iter().zip(&certificate.messages) {
            let mut low = f64::INFINITY;
            for (index, &strategy) in strategies[later].iter().enumerate() {
                let own = share(later) * beliefs[later][index] - to_later[index];
                for (to, &other) in strategies[earlier].iter().enumerate() {
                    low = low
                        .min(own + self.pair(node(later), strategy, node(earlier), other) - to_earlier[to]);
                }
            }
            sum += low;
        }
        // A sum errs by its number of terms times their magnitude, in the node and in each of its edges.
        let terms = |index: usize| (2 * (degrees[index][0] + degrees[index][1]) + 8) as f64;
        let of_nodes: f64 = (0..position.len()).map(|index| terms(index) * magnitudes[index]).sum();
        let of_sum = (position.len() + edges.len()) as f64 * sum.abs();
        let proved = sum - self.error - 2.0 * ROUNDING * (of_nodes + of_sum);
        if proved.is_finite() { Ok(proved) } else { Err("its sums are not finite".into()) }
    }
}
