//! The check of a plan of layer flow.

mod cover;
mod proof;

use std::collections::BTreeMap;
use std::fmt;

use stagewright_core::document::{
    FlowEnd, FlowOutside, LAYER_BOUND_SOURCES, LAYER_PLAN_SCHEMA, LayerFlowDocument, LayerPlanDocument,
    PlanStatus, STOP_REASONS,
};
use stagewright_core::tolerance;

use crate::error::CheckError;

/// Maximum number of layers, and of nodes.
const LARGEST: usize = 1000;
/// Range of the rates of nodes in tokens per second.
const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e12;
/// Largest rate of a link in tokens per second.
const WIDEST_LINK: f64 = 1e15;

/// Result of a check of a plan of layer flow. All figures are recomputed.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerReport {
    /// Tokens per second; `None` without a plan, or if the plan breaks a constraint.
    pub value: Option<f64>,
    /// Largest number of nodes that a token passes; `None` without a plan.
    pub hops: Option<u32>,
    /// Violations; empty if the plan holds.
    pub violations: Vec<LayerViolation>,
    /// Verdict on the claimed bound.
    pub bound: LayerVerdict,
}

impl LayerReport {
    /// Whether there is no violation.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

/// A constraint or a claim that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerViolation {
    /// Stable name: `node`, `link`, `balance`, `hops`, `figure`, `bound`, `status` or `name`.
    pub kind: &'static str,
    /// The violation, for display.
    pub message: String,
}

impl fmt::Display for LayerViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Verdict on the bound of a plan of layer flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LayerVerdict {
    /// The plan claims no bound.
    NoClaim,
    /// Nothing refutes the bound, and no certificate proves it.
    NotVerified,
    /// The certificate proves the bound.
    Verified {
        /// The bound that the certificate proves, at most the claimed one.
        proved: f64,
    },
    /// The bound is below the flow of the plan, or its certificate does not prove it.
    Refuted,
}

/// A problem in the form that the check reads.
pub(crate) struct Network<'d> {
    layers: usize,
    rates: Vec<&'d [f64]>,
    /// Tokens per second from node to node, `[from · nodes + to]`.
    links: Vec<f64>,
    source: Vec<f64>,
    sink: Vec<f64>,
}

impl Network<'_> {
    fn nodes(&self) -> usize {
        self.rates.len()
    }

    fn capacity(&self, from: FlowEnd, to: FlowEnd) -> Option<f64> {
        let node = |node: u32| ((node as usize) < self.nodes()).then_some(node as usize);
        match (from, to) {
            (FlowEnd::Node(from), FlowEnd::Node(to)) => {
                Some(self.links[node(from)? * self.nodes() + node(to)?])
            }
            (FlowEnd::Outside(FlowOutside::Source), FlowEnd::Node(to)) => Some(self.source[node(to)?]),
            (FlowEnd::Node(from), FlowEnd::Outside(FlowOutside::Sink)) => Some(self.sink[node(from)?]),
            _ => None,
        }
    }
}

/// Checks a plan of layer flow: ranges, rates, links, the balance of every node, the claims, and the certificate of the bound.
/// Covers are searched for best first, up to two million partial ones; a certificate that needs more is not verified.
///
/// # Errors
/// If the documents do not describe a problem and a plan.
pub fn check_layers(
    problem: &LayerFlowDocument,
    plan: &LayerPlanDocument,
) -> Result<LayerReport, CheckError> {
    let network = network(problem)?;
    if plan.schema != LAYER_PLAN_SCHEMA {
        return Err(CheckError::Schema {
            document: "plan",
            found: plan.schema.clone(),
            expected: LAYER_PLAN_SCHEMA,
        });
    }
    let mut check = Check { network: &network, plan, violations: Vec::new() };
    let has_plan = matches!(plan.status, PlanStatus::Optimal | PlanStatus::Feasible)
        || plan.value.is_some()
        || plan.hops.is_some()
        || plan.gap.is_some()
        || !plan.nodes.is_empty()
        || !plan.links.is_empty();
    let (mut value, mut hops) = (None, None);
    if has_plan {
        (value, hops) = check.plan();
    }
    let bound = check.bound(value);
    check.claims(value, has_plan);
    if !plan.problem.is_empty() && plan.problem != problem.name {
        check.figure("problem", &plan.problem, &problem.name);
    }
    Ok(LayerReport { value, hops, violations: check.violations, bound })
}

struct Check<'c> {
    network: &'c Network<'c>,
    plan: &'c LayerPlanDocument,
    violations: Vec<LayerViolation>,
}

impl Check<'_> {
    fn violate(&mut self, kind: &'static str, message: String) {
        self.violations.push(LayerViolation { kind, message });
    }

    fn figure(&mut self, name: &str, stated: &dyn fmt::Display, found: &dyn fmt::Display) {
        self.violate("figure", format!("the plan states {name} {stated}, but it is {found}"));
    }

    /// The tokens per second and the hops of the plan, if it breaks no constraint.
    fn plan(&mut self) -> (Option<f64>, Option<u32>) {
        let Some(ranges) = self.ranges() else { return (None, None) };
        let Some(value) = self.flows(&ranges) else { return (None, None) };
        let hops = hops(self.network, &ranges, &self.plan.links);
        match hops {
            Some(hops) if self.plan.max_hops.is_some_and(|limit| hops > limit) => {
                let limit = self.plan.max_hops.unwrap_or_default();
                self.violate(
                    "hops",
                    format!("tokens pass up to {hops} nodes, more than the limit of {limit}"),
                );
            }
            _ => {}
        }
        if !self.plan.value.is_some_and(|stated| tolerance::same(stated, value)) {
            let stated = self.plan.value.map_or_else(|| "no value".into(), |stated| stated.to_string());
            self.figure("the value", &stated, &value);
        }
        if self.plan.hops != hops {
            let shown = |hops: Option<u32>| hops.map_or_else(|| "none".into(), |hops| hops.to_string());
            self.figure("hops", &shown(self.plan.hops), &shown(hops));
        }
        (Some(value), hops)
    }

    /// The range of every node: its first layer and the layer after its last one.
    fn ranges(&mut self) -> Option<Vec<Option<(usize, usize)>>> {
        let mut ranges = vec![None; self.network.nodes()];
        let before = self.violations.len();
        for held in &self.plan.nodes {
            let (node, first, layers) = (held.node as usize, held.first as usize, held.layers as usize);
            if node >= ranges.len() {
                self.violate("node", format!("node {node} does not exist"));
            } else if ranges[node].is_some() {
                self.violate("node", format!("node {node} is listed twice"));
            } else if layers == 0 || layers > self.network.rates[node].len() {
                let limit = self.network.rates[node].len();
                self.violate("node", format!("node {node} holds {layers} layers, but may hold 1 to {limit}"));
            } else if first + layers > self.network.layers {
                self.violate("node", format!("node {node} holds layers after the last one"));
            } else {
                ranges[node] = Some((first, first + layers));
            }
        }
        (self.violations.len() == before).then_some(ranges)
    }

    /// Tokens per second that leave the source, if all flows keep within rates and links and every node sends what it
    /// receives.
    fn flows(&mut self, ranges: &[Option<(usize, usize)>]) -> Option<f64> {
        let before = self.violations.len();
        let count = ranges.len();
        let (mut received, mut sent) = (vec![0.0; count], vec![0.0; count]);
        let (mut begun, mut ended, mut carried) = (0.0, 0.0, BTreeMap::new());
        for &(from, to, flow) in &self.plan.links {
            let range = |node: u32| ranges.get(node as usize).copied().flatten();
            let fits = match (from, to) {
                (FlowEnd::Node(from), FlowEnd::Node(to)) => {
                    range(from).zip(range(to)).is_some_and(|(first, second)| first.1 == second.0)
                }
                (FlowEnd::Outside(FlowOutside::Source), FlowEnd::Node(to)) => {
                    range(to).is_some_and(|range| range.0 == 0)
                }
                (FlowEnd::Node(from), FlowEnd::Outside(FlowOutside::Sink)) => {
                    range(from).is_some_and(|range| range.1 == self.network.layers)
                }
                _ => false,
            };
            let name = format!("the link from {} to {}", shown(from), shown(to));
            if !fits {
                self.violate("link", format!("{name} joins no layers that follow each other"));
                continue;
            }
            if !(flow >= 0.0 && flow.is_finite()) {
                self.violate("link", format!("{name} carries {flow}"));
                continue;
            }
            *carried.entry((key(from), key(to))).or_insert(0.0) += flow;
            let total = carried[&(key(from), key(to))];
            let capacity = self.network.capacity(from, to).unwrap_or(0.0);
            if total > capacity * (1.0 + tolerance::VALUE_RELATIVE) {
                self.violate("link", format!("{name} carries {total}, more than {capacity}"));
            }
            match to {
                FlowEnd::Node(node) => received[node as usize] += flow,
                FlowEnd::Outside(_) => ended += flow,
            }
            match from {
                FlowEnd::Node(node) => sent[node as usize] += flow,
                FlowEnd::Outside(_) => begun += flow,
            }
        }
        // What all nodes together may lose must not change the value.
        let value = f64::min(begun, ended);
        let slack = tolerance::VALUE_RELATIVE * value / count as f64;
        for held in &self.plan.nodes {
            let node = held.node as usize;
            let rate = self.network.rates[node][held.layers as usize - 1];
            let (received, sent) = (received[node], sent[node]);
            if (received - sent).abs() > slack || (held.flow - sent).abs() > slack || !held.flow.is_finite() {
                let stated = held.flow;
                let message = format!("node {node} receives {received}, sends {sent} and states {stated}");
                self.violate("balance", message);
            }
            if sent > rate * (1.0 + tolerance::VALUE_RELATIVE) {
                self.violate("node", format!("node {node} serves {sent}, more than {rate}"));
            }
        }
        if value <= 0.0 {
            self.violate("figure", "the plan serves no tokens".into());
        }
        (self.violations.len() == before).then_some(value)
    }

    fn bound(&mut self, value: Option<f64>) -> LayerVerdict {
        let Some(stated) = self.plan.bound.value else { return LayerVerdict::NoClaim };
        if stated.is_nan() || value.is_some_and(|value| value > stated * (1.0 + tolerance::VALUE_RELATIVE)) {
            let value = value.unwrap_or_default();
            self.violate("bound", format!("the bound is {stated}, below the flow of {value}"));
            return LayerVerdict::Refuted;
        }
        let Some(certificate) = &self.plan.bound.certificate else { return LayerVerdict::NotVerified };
        match proof::proved(self.network, self.plan.max_hops, certificate) {
            Ok(Some(proved)) if proved <= stated * (1.0 + tolerance::VALUE_RELATIVE) => {
                LayerVerdict::Verified { proved }
            }
            Ok(None) => LayerVerdict::NotVerified,
            Ok(Some(proved)) => {
                self.violate("bound", format!("the bound is {stated}, but its certificate is for {proved}"));
                LayerVerdict::Refuted
            }
            Err(why) => {
                self.violate("bound", format!("the certificate does not prove the bound {stated}: {why}"));
                LayerVerdict::Refuted
            }
        }
    }

    fn claims(&mut self, value: Option<f64>, has_plan: bool) {
        let bound = self.plan.bound.value;
        if let (Some(stated), Some(value), Some(bound)) = (self.plan.gap, value, bound) {
            let found = tolerance::gap(bound, value);
            let is_right = (found - stated).abs() <= 2.0 * tolerance::VALUE_RELATIVE;
            if !is_right {
                self.figure("gap", &stated, &found);
            }
        }
        if let (None, Some(_), Some(_)) = (self.plan.gap, value, bound) {
            self.violate("figure", "the plan states no gap, but has a value and a bound".into());
        }
        if has_plan && self.plan.status == PlanStatus::Unknown {
            self.violate("status", "no plan is claimed to be known, but there is one".into());
        }
        let is_closed = value.zip(bound).is_some_and(|(value, bound)| tolerance::gap(bound, value) == 0.0);
        if self.plan.status == PlanStatus::Optimal && !is_closed && self.violations.is_empty() {
            self.violate("status", "the plan claims to be optimal, but its bound is above its flow".into());
        }
        if self.plan.status == PlanStatus::Infeasible && has_plan {
            self.violate("status", "the problem is claimed to be infeasible, but there is a plan".into());
        }
        if self.plan.status == PlanStatus::Infeasible && bound != Some(0.0) {
            self.violate("status", "the problem is claimed to be infeasible, but the bound is not 0".into());
        }
        let source = &self.plan.bound.source;
        if !LAYER_BOUND_SOURCES.contains(&source.as_str()) {
            self.violate("name", format!("the source of the bound is `{source}`, which does not exist"));
        }
        if let Some(reason) = self.plan.stop.as_deref()
            && !STOP_REASONS.contains(&reason)
        {
            self.violate("name", format!("the reason to stop is `{reason}`, which does not exist"));
        }
    }
}

/// Largest number of nodes on a path of links that carry tokens.
fn hops(
    network: &Network<'_>,
    ranges: &[Option<(usize, usize)>],
    links: &[(FlowEnd, FlowEnd, f64)],
) -> Option<u32> {
    let mut order: Vec<usize> = (0..ranges.len()).filter(|&node| ranges[node].is_some()).collect();
    order.sort_by_key(|&node| ranges[node].map_or(0, |range| range.0));
    let mut longest: Vec<u32> = vec![0; ranges.len()];
    let mut whole = None;
    for node in order {
        let is_into = |to: FlowEnd| to == FlowEnd::Node(node as u32);
        for &(from, to, _) in links.iter().filter(|link| link.2 > 0.0) {
            match from {
                FlowEnd::Outside(_) if is_into(to) => longest[node] = longest[node].max(1),
                FlowEnd::Node(before) if is_into(to) && longest[before as usize] > 0 => {
                    longest[node] = longest[node].max(longest[before as usize] + 1);
                }
                _ => {}
            }
        }
        if ranges[node].is_some_and(|range| range.1 == network.layers) && longest[node] > 0 {
            whole = whole.max(Some(longest[node]));
        }
    }
    whole
}

fn key(end: FlowEnd) -> (u8, u32) {
    match end {
        FlowEnd::Outside(FlowOutside::Source) => (0, 0),
        FlowEnd::Node(node) => (1, node),
        FlowEnd::Outside(FlowOutside::Sink) => (2, 0),
    }
}

fn shown(end: FlowEnd) -> String {
    match end {
        FlowEnd::Outside(FlowOutside::Source) => "the source".into(),
        FlowEnd::Node(node) => format!("node {node}"),
        FlowEnd::Outside(FlowOutside::Sink) => "the sink".into(),
    }
}

/// Reads a problem.
fn network(problem: &LayerFlowDocument) -> Result<Network<'_>, CheckError> {
    let wrong =
        |what: String, value: f64, range: &'static str| Err(CheckError::Figure { what, value, range });
    let (layers, count) = (problem.layers as usize, problem.nodes.len());
    for (what, number) in [("layers", layers), ("nodes", count)] {
        if !(1..=LARGEST).contains(&number) {
            return wrong(format!("the number of {what}"), number as f64, "1 to 1000");
        }
    }
    let mut network = Network {
        layers,
        rates: Vec::with_capacity(count),
        links: vec![0.0; count * count],
        source: vec![0.0; count],
        sink: vec![0.0; count],
    };
    for (index, node) in problem.nodes.iter().enumerate() {
        if let Some(&rate) = node.throughput.iter().find(|rate| !RATES.contains(rate)) {
            return wrong(format!("a rate of node {index}"), rate, "10^-6 to 10^12");
        }
        network.rates.push(&node.throughput[..node.throughput.len().min(layers)]);
    }
    for (index, &(from, to, rate)) in problem.links.iter().enumerate() {
        let what = format!("the rate of link {index}");
        if !(0.0..=WIDEST_LINK).contains(&rate) {
            return wrong(what, rate, "0 to 10^15");
        }
        if network.capacity(from, to).is_none() || from == to {
            return wrong(
                format!("an end of link {index}"),
                index as f64,
                "two nodes, or one and the source or the sink",
            );
        }
        match (from, to) {
            (FlowEnd::Node(from), FlowEnd::Node(to)) => {
                network.links[from as usize * count + to as usize] += rate
            }
            (FlowEnd::Outside(_), FlowEnd::Node(node)) => network.source[node as usize] += rate,
            (FlowEnd::Node(node), _) => network.sink[node as usize] += rate,
            _ => {}
        }
    }
    Ok(network)
}
