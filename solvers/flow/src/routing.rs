//! The most tokens that flow through given ranges of layers: Dinic's maximum flow (1970).

use stagewright_core::document::{FlowEnd, FlowOutside};

use crate::problem::Problem;

/// The layers of every node: its first layer, and their number; 0 layers if it holds none.
pub type Ranges = Vec<(usize, usize)>;

/// Tokens that flow through given ranges.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    /// Tokens per second.
    pub flow: f64,
    /// Tokens per second of every node.
    pub nodes: Vec<f64>,
    /// Links that carry tokens, with their tokens per second.
    pub links: Vec<(FlowEnd, FlowEnd, f64)>,
}

/// Share of the largest capacity below which a path counts as full.
const NEGLIGIBLE: f64 = 1e-13;

/// Share of the largest flow of a node up to which a flow is none.
const TRACE: f64 = 1e-12;

/// A network with capacities, kept between uses so that its memory is.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// Edges in pairs: an edge and its reverse.
    to: Vec<usize>,
    room: Vec<f64>,
    next: Vec<usize>,
    first: Vec<usize>,
    level: Vec<usize>,
    current: Vec<usize>,
    queue: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl Network {
    fn reset(&mut self, vertices: usize) {
        self.to.clear();
        self.room.clear();
        self.next.clear();
        self.first.clear();
        self.first.resize(vertices, NONE);
    }

    /// Adds an edge, and returns its index.
    fn connect(&mut self, from: usize, to: usize, room: f64) -> usize {
        let edge = self.to.len();
        for (end, other, room) in [(from, to, room), (to, from, 0.0)] {
            self.to.push(other);
            self.room.push(room);
            self.next.push(self.first[end]);
            self.first[end] = self.to.len() - 1;
        }
        edge
    }

    /// Tokens on an edge after [`Network::maximum`].
    fn carried(&self, edge: usize) -> f64 {
        self.room[edge + 1]
    }

    fn layer(&mut self, source: usize, sink: usize, negligible: f64) -> bool {
        self.level.clear();
        self.level.resize(self.first.len(), NONE);
        self.level[source] = 0;
        self.queue.clear();
        self.queue.push(source);
        let mut done = 0;
        while let Some(&vertex) = self.queue.get(done) {
            done += 1;
            let mut edge = self.first[vertex];
            while edge != NONE {
                let next = self.to[edge];
                if self.room[edge] > negligible && self.level[next] == NONE {
                    self.level[next] = self.level[vertex] + 1;
                    self.queue.push(next);
                }
                edge = self.next[edge];
            }
        }
        self.level[sink] != NONE
    }

    fn push(&mut self, vertex: usize, sink: usize, wanted: f64, negligible: f64) -> f64 {
        if vertex == sink {
            return wanted;
        }
        let mut pushed = 0.0;
        while self.current[vertex] != NONE {
            let edge = self.current[vertex];
            let next = self.to[edge];
            if self.room[edge] > negligible && self.level[next] == self.level[vertex] + 1 {
                let amount = self.push(next, sink, (wanted - pushed).min(self.room[edge]), negligible);
                self.room[edge] -= amount;
                self.room[edge ^ 1] += amount;
                pushed += amount;
                if wanted - pushed <= negligible {
                    return pushed;
                }
            }
            self.current[vertex] = self.next[edge];
        }
        pushed
    }

    /// The maximum flow.
    fn maximum(&mut self, source: usize, sink: usize) -> f64 {
        let negligible = self.room.iter().copied().fold(0.0, f64::max) * NEGLIGIBLE;
        let mut flow = 0.0;
        while self.layer(source, sink, negligible) {
            self.current.clone_from(&self.first);
            let pushed = self.push(source, sink, f64::INFINITY, negligible);
            if pushed <= negligible {
                break;
            }
            flow += pushed;
        }
        flow
    }
}

impl Network {
    /// Maximum flow through given ranges, in tokens per second. The network has the layers alone if links limit no plan, and
    /// every link otherwise. The recursion is as deep as a path has nodes.
    pub(crate) fn flow(&mut self, problem: &Problem, ranges: &Ranges) -> f64 {
        if problem.is_ample {
            self.over_layers(problem, ranges)
        } else {
            self.over_links(problem, ranges, |_, _, _| ())
        }
    }

    fn over_layers(&mut self, problem: &Problem, ranges: &Ranges) -> f64 {
        self.reset(problem.layers + 1);
        for (rates, &(first, layers)) in problem.rates.iter().zip(ranges) {
            if layers > 0 {
                self.connect(first, first + layers, rates[layers - 1]);
            }
        }
        self.maximum(0, problem.layers)
    }

    /// Calls `used` with the ends and the tokens of every edge; the two ends of a node are both its index.
    fn over_links(
        &mut self,
        problem: &Problem,
        ranges: &Ranges,
        mut used: impl FnMut(FlowEnd, FlowEnd, f64),
    ) -> f64 {
        let count = problem.nodes();
        let [source, sink] = [2 * count, 2 * count + 1];
        self.reset(2 * count + 2);
        let mut begins: Vec<Vec<usize>> = vec![Vec::new(); problem.layers + 1];
        for (node, &(first, layers)) in ranges.iter().enumerate() {
            if layers > 0 {
                begins[first].push(node);
            }
        }
        let mut edges = Vec::new();
        let index = |node: usize| FlowEnd::Node(node as u32);
        for (node, &(first, layers)) in ranges.iter().enumerate().filter(|(_, range)| range.1 > 0) {
            let end = first + layers;
            let rate = problem.rates[node][layers - 1];
            let serving = self.connect(2 * node, 2 * node + 1, rate);
            edges.push((index(node), index(node), serving));
            if first == 0 && problem.source[node] > 0.0 {
                let edge = self.connect(source, 2 * node, problem.source[node].min(rate));
                edges.push((FlowEnd::Outside(FlowOutside::Source), index(node), edge));
            }
            if end == problem.layers && problem.sink[node] > 0.0 {
                let edge = self.connect(2 * node + 1, sink, problem.sink[node].min(rate));
                edges.push((index(node), FlowEnd::Outside(FlowOutside::Sink), edge));
            }
            for &other in &begins[end] {
                // More than its node serves would only make rounding coarser.
                let room = problem.link(node, other).min(rate);
                if room > 0.0 {
                    let edge = self.connect(2 * node + 1, 2 * other, room);
                    edges.push((index(node), index(other), edge));
                }
            }
        }
        let flow = self.maximum(source, sink);
        for (from, to, edge) in edges {
            used(from, to, self.carried(edge));
        }
        flow
    }
}

/// Routes the most tokens per second through given ranges. Dinic's algorithm, O(nodes² · links) in the worst case.
///
/// # Panics
/// If a node holds more layers than it can, or layers that do not exist.
pub fn route(problem: &Problem, ranges: &Ranges) -> Routing {
    let mut nodes = vec![0.0; problem.nodes()];
    let mut links = Vec::new();
    let mut network = Network::default();
    let flow = network.over_links(problem, ranges, |from, to, carried| match (from, to) {
        (FlowEnd::Node(node), FlowEnd::Node(other)) if node == other => nodes[node as usize] = carried,
        _ => links.push((from, to, carried)),
    });
    // Rounding may leave a trace on edges that carry nothing.
    let trace = nodes.iter().copied().fold(0.0, f64::max) * TRACE;
    nodes.iter_mut().filter(|carried| **carried <= trace).for_each(|carried| *carried = 0.0);
    links.retain(|&(_, _, carried)| carried > trace);
    Routing { flow, nodes, links }
}

/// Largest number of nodes on a path from the first layer to the last through given ranges, over any links; 0 if there is
/// no path. At negligible the hops of any routing. O(nodes + layers).
pub(crate) fn hops_over_any_links(problem: &Problem, ranges: &Ranges) -> usize {
    let mut ends: Vec<Vec<usize>> = vec![Vec::new(); problem.layers + 1];
    for &(first, layers) in ranges.iter().filter(|range| range.1 > 0) {
        ends[first].push(first + layers);
    }
    // Largest number of nodes from the first layer to before each layer; 0 where no path leads.
    let mut longest = vec![0; problem.layers + 1];
    for first in 0..problem.layers {
        if first > 0 && longest[first] == 0 {
            continue;
        }
        for &end in &ends[first] {
            longest[end] = longest[end].max(longest[first] + 1);
        }
    }
    longest[problem.layers]
}

impl Routing {
    /// Largest number of nodes on a path of links that carry tokens; 0 if nothing flows. A path may join links that
    /// different tokens take. O(nodes · log nodes + links).
    pub fn hops(&self, ranges: &Ranges) -> usize {
        let mut order: Vec<usize> = (0..ranges.len()).filter(|&node| ranges[node].1 > 0).collect();
        order.sort_by_key(|&node| ranges[node].0);
        let mut sent: Vec<Vec<usize>> = vec![Vec::new(); ranges.len()];
        let mut longest = vec![0; ranges.len()];
        let mut last = vec![false; ranges.len()];
        for &(from, to, _) in &self.links {
            match (from, to) {
                (FlowEnd::Node(from), FlowEnd::Node(to)) => sent[from as usize].push(to as usize),
                (FlowEnd::Outside(_), FlowEnd::Node(node)) => longest[node as usize] = 1,
                (FlowEnd::Node(node), _) => last[node as usize] = true,
                _ => {}
            }
        }
        let mut whole = 0;
        for node in order {
            if longest[node] == 0 {
                continue;
            }
            for &next in &sent[node] {
                longest[next] = longest[next].max(longest[node] + 1);
            }
            if last[node] {
                whole = whole.max(longest[node]);
            }
        }
        whole
    }
}
