//! The check of a strategy plan.

mod replay;

use std::collections::BTreeMap;
use std::fmt;

use stagewright_core::document::{
    FORBIDDEN_COST, PlanStatus, STOP_REASONS, STRATEGY_BOUND_SOURCES, STRATEGY_PLAN_SCHEMA,
    StrategyPlanDocument, StrategyProblemDocument,
};
use stagewright_core::tolerance;

use crate::error::CheckError;

/// Maximum sum of costs, or of usages, that the checker accepts.
const LARGEST_TOTAL: i128 = 1 << 62;

/// Result of a check of a strategy plan. All figures are recomputed.
#[derive(Debug, Clone, PartialEq)]
pub struct StrategyReport {
    /// The cost; `None` without a plan, or if the plan has a strategy that does not exist or is not allowed.
    pub cost: Option<i64>,
    /// The largest usage at any time; `None` without a plan, or if the plan has a strategy that does not exist.
    pub peak_usage: Option<i64>,
    /// Violations; empty if the plan holds.
    pub violations: Vec<StrategyViolation>,
    /// Verdict on the claimed bound.
    pub bound: StrategyVerdict,
}

impl StrategyReport {
    /// Whether there is no violation.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

/// A constraint or a claim that does not hold.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StrategyViolation {
    /// The number of strategies differs from the number of nodes.
    Length {
        /// Number of strategies.
        found: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// A strategy that a node does not have.
    Missing {
        /// The node.
        node: usize,
        /// The strategy.
        strategy: u32,
        /// Number of strategies of the node.
        count: usize,
    },
    /// A strategy that is not allowed.
    Node {
        /// The node.
        node: usize,
    },
    /// A pair of strategies that is not allowed.
    Edge {
        /// The edge.
        edge: usize,
        /// Nodes at the ends of the edge.
        nodes: [usize; 2],
    },
    /// Usage above the limit.
    Usage {
        /// The first time with more usage than the limit.
        time: i64,
        /// The usage at that time.
        usage: i128,
        /// The limit.
        limit: i64,
    },
    /// A figure that the plan states, but that differs from the recomputed one.
    Figure {
        /// Name of the figure in the document.
        name: &'static str,
        /// The stated figure, for display.
        stated: String,
        /// The recomputed figure, for display.
        found: String,
    },
    /// A bound above the cost of the plan, or above the bound that its certificate proves.
    Bound {
        /// The bound.
        stated: f64,
        /// Maximum that the bound could be; `None` if the certificate is malformed.
        most: Option<f64>,
        /// Evidence that refutes the bound.
        by: String,
    },
    /// A status that the rest of the plan contradicts.
    Status {
        /// The contradiction.
        why: &'static str,
    },
    /// An unknown name.
    Name {
        /// Meaning of the name, for display.
        field: &'static str,
        /// The name.
        found: String,
    },
}

impl StrategyViolation {
    /// Stable name.
    pub fn kind(&self) -> &'static str {
        match self {
            StrategyViolation::Length { .. } => "length",
            StrategyViolation::Missing { .. } => "strategy",
            StrategyViolation::Node { .. } => "node",
            StrategyViolation::Edge { .. } => "edge",
            StrategyViolation::Usage { .. } => "usage",
            StrategyViolation::Figure { .. } => "figure",
            StrategyViolation::Bound { .. } => "bound",
            StrategyViolation::Status { .. } => "status",
            StrategyViolation::Name { .. } => "name",
        }
    }
}

impl fmt::Display for StrategyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrategyViolation::Length { found, nodes } => {
                write!(f, "the plan has {found} strategies for {nodes} nodes")
            }
            StrategyViolation::Missing { node, strategy, count } => {
                write!(f, "node {node} has strategy {strategy} in the plan, but only {count} strategies")
            }
            StrategyViolation::Node { node } => write!(f, "the strategy of node {node} is not allowed"),
            StrategyViolation::Edge { edge, nodes: [first, second] } => {
                write!(
                    f,
                    "the strategies of nodes {first} and {second} are not allowed together (edge {edge})"
                )
            }
            StrategyViolation::Usage { time, usage, limit } => {
                write!(f, "the usage at time {time} is {usage}, above the limit of {limit}")
            }
            StrategyViolation::Figure { name, stated, found } => {
                write!(f, "the plan states {name} {stated}, but it is {found}")
            }
            StrategyViolation::Bound { stated, most: Some(limit), by } => {
                write!(f, "the bound is {stated}, but {by} shows that it is {limit} at most")
            }
            StrategyViolation::Bound { stated, most: None, by } => {
                write!(f, "the bound is {stated}, but its certificate is malformed: {by}")
            }
            StrategyViolation::Status { why } => f.write_str(why),
            StrategyViolation::Name { field, found } => {
                write!(f, "{field} is `{found}`, which does not exist")
            }
        }
    }
}

/// Verdict on the bound of a strategy plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StrategyVerdict {
    /// The plan claims no bound.
    NoClaim,
    /// Nothing refutes the bound, and no certificate proves it.
    NotVerified {
        /// The weaker bound that the certificate proves, if there is one.
        proved: Option<f64>,
    },
    /// The certificate proves the bound.
    Verified {
        /// The bound that the certificate proves, at least the claimed one.
        proved: f64,
    },
    /// The bound is above the cost of the plan, or its certificate proves less than claimed.
    Refuted,
}

/// Checks a strategy plan: the figures, the limit, the claims, and the certificate of the bound. O(numbers of the
/// problem and of the certificate · log nodes), plus the matrices of a node for every merge, and up to four million
/// triples of strategies for every elimination. A bound that the certificate proves is lowered by the largest possible
/// rounding error.
///
/// # Errors
/// If the documents do not describe a problem and a plan.
pub fn check_strategies(
    problem: &StrategyProblemDocument,
    plan: &StrategyPlanDocument,
) -> Result<StrategyReport, CheckError> {
    validate_problem(problem)?;
    if plan.schema != STRATEGY_PLAN_SCHEMA {
        return Err(CheckError::Schema {
            document: "plan",
            found: plan.schema.clone(),
            expected: STRATEGY_PLAN_SCHEMA,
        });
    }
    let mut violations = Vec::new();
    let has_plan = matches!(plan.status, PlanStatus::Optimal | PlanStatus::Feasible)
        || !plan.strategies.is_empty()
        || plan.cost.is_some()
        || plan.peak_usage.is_some()
        || plan.gap.is_some();
    let (mut cost, mut peak_usage) = (None, None);
    if has_plan && validate_strategies(problem, &plan.strategies, &mut violations).is_some() {
        let (found, peak) = figures(problem, &plan.strategies, &mut violations);
        (cost, peak_usage) = (found, i64::try_from(peak).ok());
        for (name, stated, found) in [("cost", plan.cost, cost), ("peak_usage", plan.peak_usage, peak_usage)]
        {
            if let Some(stated) = stated
                && found != Some(stated)
            {
                let found = found.map_or_else(|| "none".into(), |found| found.to_string());
                violations.push(StrategyViolation::Figure { name, stated: stated.to_string(), found });
            }
        }
    }
    let bound = verdict(problem, plan, cost, &mut violations);
    if let (Some(stated), Some(cost), Some(bound)) = (plan.gap, cost, plan.bound.cost) {
        let found = tolerance::gap(cost as f64, bound);
        if (found - stated).abs() > tolerance::VALUE_RELATIVE {
            let (stated, found) = (stated.to_string(), found.to_string());
            violations.push(StrategyViolation::Figure { name: "gap", stated, found });
        }
    }
    check_status(plan, cost, has_plan, &mut violations);
    check_names(problem, plan, &mut violations);
    Ok(StrategyReport { cost, peak_usage, violations, bound })
}

/// Checks that the status agrees with the cost of the plan, its bound, and whether the document has a plan.
fn check_status(
    plan: &StrategyPlanDocument,
    cost: Option<i64>,
    has_plan: bool,
    violations: &mut Vec<StrategyViolation>,
) {
    let is_closed =
        |cost: i64| plan.bound.cost.is_some_and(|bound| tolerance::gap(cost as f64, bound) == 0.0);
    if plan.status == PlanStatus::Optimal && !cost.is_some_and(is_closed) && violations.is_empty() {
        violations.push(StrategyViolation::Status {
            why: "the plan claims to be optimal, but its bound is below its cost",
        });
    }
    if plan.status == PlanStatus::Infeasible && has_plan {
        violations.push(StrategyViolation::Status {
            why: "the problem is claimed to be infeasible, but there is a plan",
        });
    }
}

/// Checks the names of the problem, of the source of the bound and of the reason to stop.
fn check_names(
    problem: &StrategyProblemDocument,
    plan: &StrategyPlanDocument,
    violations: &mut Vec<StrategyViolation>,
) {
    if !plan.problem.is_empty() && plan.problem != problem.name {
        let (stated, found) = (plan.problem.clone(), problem.name.clone());
        violations.push(StrategyViolation::Figure { name: "problem", stated, found });
    }
    let mut name = |field, found: &str, known: &[&str]| {
        if !known.contains(&found) {
            violations.push(StrategyViolation::Name { field, found: found.to_owned() });
        }
    };
    name("the source of the bound", &plan.bound.source, STRATEGY_BOUND_SOURCES);
    plan.stop.iter().for_each(|reason| name("the reason to stop", reason, STOP_REASONS));
}

/// Checks that the columns of a problem match, and that its numbers are in range.
fn validate_problem(problem: &StrategyProblemDocument) -> Result<(), CheckError> {
    let count = problem.nodes.costs.len();
    let number =
        |what: String, value: f64, range: &'static str| Err(CheckError::Figure { what, value, range });
    let is_right = problem.nodes.intervals.len() == count
        && problem.nodes.usages.len() == count
        && problem.edges.costs.len() == problem.edges.nodes.len();
    if !is_right {
        return number("the number of entries of a column".into(), count as f64, "that of the other columns");
    }
    for (node, (costs, usages)) in problem.nodes.costs.iter().zip(&problem.nodes.usages).enumerate() {
        let [start, end] = problem.nodes.intervals[node];
        if costs.is_empty() || costs.len() != usages.len() || end < start {
            let what = format!("the number of strategies of node {node}");
            return number(
                what,
                costs.len() as f64,
                "that of its usages, and its interval must not end before it begins",
            );
        }
        if let Some(&value) = costs.iter().chain(usages).find(|&&value| value < 0) {
            return number(format!("a cost or usage of node {node}"), value as f64, "0 or more");
        }
    }
    let largest = |values: &[i64]| {
        i128::from(values.iter().copied().filter(|&value| value < FORBIDDEN_COST).max().unwrap_or(0))
    };
    let costs: i128 =
        problem.nodes.costs.iter().chain(&problem.edges.costs).map(|costs| largest(costs)).sum();
    let usages: i128 = problem.nodes.usages.iter().map(|usages| largest(usages)).sum();
    if costs.max(usages) > LARGEST_TOTAL {
        return number("the sum of the costs or usages".into(), costs.max(usages) as f64, "2^62 at most");
    }
    for (edge, (&[first, second], costs)) in problem.edges.nodes.iter().zip(&problem.edges.costs).enumerate()
    {
        let is_right = first < count
            && second < count
            && first != second
            && costs.len() == problem.nodes.costs[first].len() * problem.nodes.costs[second].len();
        if !is_right {
            return number(
                format!("the number of costs of edge {edge}"),
                costs.len() as f64,
                "one a pair of strategies",
            );
        }
        if let Some(&value) = costs.iter().find(|&&value| value < 0) {
            return number(format!("a cost of edge {edge}"), value as f64, "0 or more");
        }
    }
    Ok(())
}

/// Checks that every node has a strategy, and that each strategy exists.
fn validate_strategies(
    problem: &StrategyProblemDocument,
    strategies: &[u32],
    violations: &mut Vec<StrategyViolation>,
) -> Option<()> {
    let nodes = problem.nodes.costs.len();
    if strategies.len() != nodes {
        violations.push(StrategyViolation::Length { found: strategies.len(), nodes });
        return None;
    }
    for (node, (&strategy, costs)) in strategies.iter().zip(&problem.nodes.costs).enumerate() {
        if strategy as usize >= costs.len() {
            violations.push(StrategyViolation::Missing { node, strategy, count: costs.len() });
        }
    }
    violations.is_empty().then_some(())
}

/// The cost, if the choice is allowed and within the usage limit, and the largest usage.
fn figures(
    problem: &StrategyProblemDocument,
    strategies: &[u32],
    violations: &mut Vec<StrategyViolation>,
) -> (Option<i64>, i128) {
    let mut sum = 0i128;
    for (node, costs) in problem.nodes.costs.iter().enumerate() {
        let cost = costs[strategies[node] as usize];
        sum += i128::from(cost);
        if cost >= FORBIDDEN_COST {
            violations.push(StrategyViolation::Node { node });
        }
    }
    for (edge, (&nodes, costs)) in problem.edges.nodes.iter().zip(&problem.edges.costs).enumerate() {
        let [first, second] = nodes.map(|node| strategies[node] as usize);
        let cost = costs[first * problem.nodes.costs[nodes[1]].len() + second];
        sum += i128::from(cost);
        if cost >= FORBIDDEN_COST {
            violations.push(StrategyViolation::Edge { edge, nodes });
        }
    }
    let mut changes: BTreeMap<i64, i128> = BTreeMap::new();
    for (node, &[start, end]) in problem.nodes.intervals.iter().enumerate() {
        let usage = i128::from(problem.nodes.usages[node][strategies[node] as usize]);
        *changes.entry(start).or_default() += usage;
        *changes.entry(end).or_default() -= usage;
    }
    let (mut usage, mut peak, mut over) = (0, 0, None);
    for (&time, change) in &changes {
        usage += change;
        peak = peak.max(usage);
        if let Some(limit) = problem.usage_limit
            && usage > i128::from(limit)
        {
            over = over.or(Some(StrategyViolation::Usage { time, usage, limit }));
        }
    }
    violations.extend(over);
    (i64::try_from(sum).ok().filter(|_| violations.is_empty()), peak)
}

fn verdict(
    problem: &StrategyProblemDocument,
    plan: &StrategyPlanDocument,
    cost: Option<i64>,
    violations: &mut Vec<StrategyViolation>,
) -> StrategyVerdict {
    let before = violations.len();
    let mut proved = None;
    if let Some(certificate) = &plan.bound.certificate {
        let stated = certificate.cost;
        match replay::bound(problem, certificate) {
            Ok(found) if stated <= found => proved = Some(stated),
            Ok(found) => {
                violations.push(StrategyViolation::Bound {
                    stated,
                    most: Some(found),
                    by: "its certificate".into(),
                });
            }
            Err(by) => violations.push(StrategyViolation::Bound { stated, most: None, by }),
        }
    }
    if let (Some(stated), Some(cost)) = (plan.bound.cost, cost)
        && stated > cost as f64 * (1.0 + tolerance::VALUE_RELATIVE)
    {
        violations.push(StrategyViolation::Bound { stated, most: Some(cost as f64), by: "the plan".into() });
    }
    match plan.bound.cost {
        _ if violations.len() > before => StrategyVerdict::Refuted,
        None => StrategyVerdict::NoClaim,
        Some(claimed) => match proved {
            Some(proved) if claimed <= proved => StrategyVerdict::Verified { proved },
            _ => StrategyVerdict::NotVerified { proved },
        },
    }
}
