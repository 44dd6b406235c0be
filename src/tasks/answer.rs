//! Answer of a task: a plan, bounds, a verdict or an explanation, each as data, text and JSON.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use stagewright_core::document::PlanStatus;
use stagewright_core::text::visible;
use stagewright_report::convergence::Convergence;
use stagewright_report::wrap::{self, facts};

use super::Document;
use crate::code::X001;
use crate::failure::{Failure, Result};

/// A result as text for a terminal and as JSON for programs.
pub struct Shown {
    json: String,
    text: Box<dyn Fn(Option<u16>) -> String + Send + Sync>,
    page: Option<Page>,
}

/// Writes a page.
type Page = Box<dyn Fn(&mut dyn Write) -> io::Result<()> + Send + Sync>;

impl Shown {
    /// Creates a result from its JSON and a function that renders its text for a width in characters.
    pub(super) fn new(json: String, text: impl Fn(Option<u16>) -> String + Send + Sync + 'static) -> Shown {
        Shown { json, text: Box::new(text), page: None }
    }

    /// The result with a page for a browser.
    pub(super) fn with_page(
        self,
        page: impl Fn(&mut dyn Write) -> io::Result<()> + Send + Sync + 'static,
    ) -> Shown {
        Shown { page: Some(Box::new(page)), ..self }
    }

    /// The result as pretty-printed JSON that ends with a newline.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The result as text for a terminal of `width` characters; `None` means unlimited.
    pub fn text(&self, width: Option<u16>) -> String {
        (self.text)(width)
    }

    /// Writes the result as a page for a browser; nothing if it has none.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn html(&self, out: &mut dyn Write) -> io::Result<()> {
        self.page.as_ref().map_or(Ok(()), |page| page(out))
    }
}

/// Formats a value as pretty-printed JSON that ends with a newline.
///
/// # Errors
/// If the value cannot be written as JSON, such as a map whose keys are not strings (X001).
pub(super) fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(X001, format!("cannot write JSON: {error}")))?;
    Ok(text + "\n")
}

/// The only bound of a question as JSON.
///
/// # Errors
/// As for [`json`].
pub(super) fn bound_json<B: Serialize>(bound: &B) -> Result<String> {
    #[derive(Serialize)]
    struct BoundsDocument<'b, B> {
        bounds: [&'b B; 1],
        strongest: &'b B,
    }
    json(&BoundsDocument { bounds: [bound], strongest: bound })
}

/// The verdict on a bound as JSON.
#[derive(Serialize)]
pub(super) struct BoundSummary {
    pub(super) verdict: &'static str,
    pub(super) proved: Option<f64>,
}

/// A violation as JSON.
#[derive(Serialize)]
pub(super) struct ViolationSummary {
    pub(super) kind: &'static str,
    pub(super) message: String,
}

/// The text of a checked plan: lines of figures, the result, and the violations. `is_proved` says whether the bound is proved.
pub(super) fn checked_text(
    mut lines: Vec<(&'static str, String)>,
    status: PlanStatus,
    has_plan: bool,
    is_proved: bool,
    violations: &[impl fmt::Display],
    width: Option<u16>,
) -> String {
    let result = match violations.len() {
        0 if status == PlanStatus::Infeasible && is_proved => "infeasible, as claimed".into(),
        0 if status == PlanStatus::Infeasible => "not verified: infeasibility".into(),
        0 if !has_plan => "no plan to check".into(),
        0 => "the plan is feasible, and its claims hold".into(),
        1 => "1 violation".into(),
        count => format!("{count} violations"),
    };
    lines.push(("result", result));
    let mut text = facts(lines, width);
    if !violations.is_empty() {
        text.push('\n');
        for violation in violations {
            text.push_str(&wrap::lines(&visible(&violation.to_string()), width));
        }
    }
    text
}

/// The plan that answers a question, with its claims.
pub struct Answer {
    /// The plan document; it may report that there is no plan.
    pub document: Document,
    /// Relative gap to compare with the requested one: the worst-case gap for a robust plan, 0 if optimality is proved.
    pub gap: Option<f64>,
    /// Hints on how to get a better answer, one line each.
    pub hints: Vec<String>,
    pub(super) sheet: Box<dyn Sheet + Send + Sync>,
}

/// The output formats of a plan of one kind.
pub(super) trait Sheet {
    /// A table for a terminal of `width` characters.
    fn text(&self, document: &Document, width: Option<u16>) -> String;

    /// A page for a browser. `cluster` names the cluster if it has no name of its own.
    fn html(
        &self,
        document: &Document,
        cluster: Option<&str>,
        convergence: &Convergence,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>>;

    /// A drawing in Graphviz notation for a file called `label`; `None` if nothing is placed.
    fn drawing(&self, _document: &Document, _label: &str) -> Result<Option<String>> {
        Ok(None)
    }

    /// Whether the plan has a step with a timeline.
    fn has_step(&self) -> bool {
        false
    }

    /// Writes the timeline of one step for trace viewers; writes nothing if the plan has none.
    fn trace(&self, _out: &mut dyn Write) -> Result<io::Result<()>> {
        Ok(Ok(()))
    }
}

impl Answer {
    /// An answer whose gap is 0 if optimality is proved, and otherwise the document's gap.
    pub(super) fn new(document: Document, sheet: impl Sheet + Send + Sync + 'static) -> Answer {
        let gap = if document.status() == PlanStatus::Optimal { Some(0.0) } else { document.gap() };
        Answer { document, gap, hints: Vec::new(), sheet: Box::new(sheet) }
    }

    /// A table for a terminal of `width` characters; `None` means unlimited.
    pub fn text(&self, width: Option<u16>) -> String {
        self.sheet.text(&self.document, width)
    }

    /// Writes a page for a browser. `cluster` names the cluster if it has no name of its own.
    ///
    /// # Errors
    /// A plan whose step is not a valid problem. The inner error comes from the writer.
    pub fn html(
        &self,
        cluster: Option<&str>,
        convergence: &Convergence,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        self.sheet.html(&self.document, cluster, convergence, out)
    }

    /// A drawing in Graphviz notation for a file called `label`; `None` if nothing is placed.
    ///
    /// # Errors
    /// A plan that cannot be drawn.
    pub fn drawing(&self, label: &str) -> Result<Option<String>> {
        self.sheet.drawing(&self.document, label)
    }

    /// Whether the plan has a step with a timeline.
    pub fn has_step(&self) -> bool {
        self.sheet.has_step()
    }

    /// Writes the timeline of one step for trace viewers; writes nothing if the plan has none.
    ///
    /// # Errors
    /// A plan whose step is not a valid problem. The inner error comes from the writer.
    pub fn trace(&self, out: &mut dyn Write) -> Result<io::Result<()>> {
        self.sheet.trace(out)
    }
}

/// Lower bounds on the value of every plan.
pub struct Bounds {
    /// Value of the strongest bound; `None` if no bound has a value.
    pub strongest: Option<f64>,
    /// Whether a solver proved that there is no plan.
    pub is_infeasible: bool,
    /// Whether the strongest bound lacks a value because a limit ended its computation, rather than because no bound
    /// applies.
    pub is_cut_short: bool,
    /// Bounds by source.
    pub shown: Shown,
}

/// The findings of the independent checker on a plan.
pub struct Checked {
    /// Whether the plan is feasible and everything that it claims holds.
    pub holds: bool,
    /// The recomputed value; `None` if the plan cannot be evaluated.
    pub value: Option<f64>,
    /// The bound that the plan claims.
    pub bound: Option<f64>,
    /// Whether the checker proves the claimed bound.
    pub is_proved: bool,
    /// Violations of the plan, for display.
    pub violations: Vec<String>,
    /// The report.
    pub shown: Shown,
}
