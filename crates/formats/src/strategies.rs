//! Strategy problems: files of the ASPLOS 2025 contest on intra-operator parallelism (IOPDDL), and plans for them.
//!
//! A plan is a document of its own, or the contest's notation for one: a list of the strategies of all nodes.

use stagewright_core::document::{
    PlanStatus, STRATEGY_PLAN_SCHEMA, StrategiesDocument, StrategyBoundDocument, StrategyPlanDocument,
    StrategyProblemDocument,
};

use super::error::Result;
use super::notation::Notation;
use super::pretty_json;
use super::text::text;

/// Number of bytes that suffice to recognise a strategy problem.
pub const HEAD: usize = 1024;

/// Recognises a strategy problem by its first bytes: an object whose first key is `problem`.
pub fn is_strategies(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    head.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"problem\""))
}

/// Reads a strategy problem. Its numbers are not checked.
///
/// # Errors
/// If the text is not a strategy problem.
pub fn import_strategies(label: &str, bytes: &[u8]) -> Result<StrategyProblemDocument> {
    let read: Result<StrategiesDocument> = Notation::Json.read(label, text(label, bytes)?);
    read.map(|document| document.problem)
}

/// Reads a plan for a strategy problem. It is not compared with the problem.
///
/// # Errors
/// If the text is neither a document nor a list of strategies.
pub fn import_strategy_plan(label: &str, bytes: &[u8]) -> Result<StrategyPlanDocument> {
    let text = text(label, bytes)?;
    if !text.trim_start().starts_with('[') {
        return Notation::Json.read_as(label, text, &[STRATEGY_PLAN_SCHEMA]);
    }
    Ok(StrategyPlanDocument {
        schema: STRATEGY_PLAN_SCHEMA.into(),
        // A list has a strategy for every node, so it claims to be feasible.
        status: PlanStatus::Feasible,
        solver: "unknown".into(),
        problem: String::new(),
        cost: None,
        peak_usage: None,
        bound: StrategyBoundDocument { cost: None, source: "none".into(), certificate: None },
        gap: None,
        seconds: 0.0,
        seed: 0,
        origin: None,
        stop: None,
        strategies: Notation::Json.read(label, text)?,
    })
}

/// Formats a strategy plan as JSON.
pub fn write_strategy_plan(plan: &StrategyPlanDocument) -> String {
    // A line for every number of a certificate would take most of the file.
    let is_long = plan.bound.certificate.is_some() || plan.strategies.len() > 1000;
    match is_long {
        true => serde_json::to_string(plan).map_or_else(|_| pretty_json(plan), |text| text + "\n"),
        false => pretty_json(plan),
    }
}
