//! The head of the page: value, bound and status.

use std::fmt::Write;

use stagewright_core::document::PlanStatus;

use super::Page;
use super::markup::{self, count, escape};
use super::names::visible;
use super::shell::Section;
use crate::comparison::Comparison;
use crate::table;
use crate::throughput::rate;

/// Summary section: the figures of a plan, or the reason why there is none.
pub(super) fn section(page: &Page) -> Section {
    let plan = page.document;
    let value = plan.objective.value_s;
    let rate = value.and_then(|value| rate(&plan.objective, value, plan.throughput.as_ref()));
    let claims = Claims {
        status: plan.status,
        value: value.zip(Some(rate.unwrap_or_default())),
        bound: plan.bound.value_s.zip(Some(plan.bound.source.as_str())),
        gap: plan.gap,
        stop: plan.stop.as_deref(),
        reason: plan.reason.as_deref(),
        seconds: (!is_given(page.comparison)).then_some(plan.seconds),
        solver: &plan.solver,
    };
    let mut markup = heading(&table::objective(&plan.objective), page.model, Some(page.cluster));
    markup.push_str(&claims.markup());
    markup.push_str(&facts(&of_problem(page)));
    Section { id: "summary", title: "Summary", markup }
}

/// Whether a page shows a plan that no solver of its comparison found.
pub(super) fn is_given(comparison: Option<&Comparison>) -> bool {
    comparison.is_some_and(Comparison::is_leader_given)
}

/// Title of a page.
pub(super) fn title(model: &str, cluster: Option<&str>) -> String {
    let on = cluster.map(|cluster| format!(" on {}", visible(cluster)));
    format!("{}{}", visible(model), on.unwrap_or_default())
}

/// Heading of a page, under its objective.
pub(super) fn heading(objective: &str, model: &str, cluster: Option<&str>) -> String {
    let on = cluster.map(|cluster| format!(" <span>on</span> <bdi>{}</bdi>", escape(&visible(cluster))));
    format!(
        "<p class=\"eyebrow\">{}</p>\n<h1 id=\"summary-title\"><bdi>{}</bdi>{}</h1>\n",
        escape(objective),
        escape(&visible(model)),
        on.unwrap_or_default()
    )
}

/// Contents of a plan document.
pub(super) struct Claims<'a> {
    pub(super) status: PlanStatus,
    /// The value, and the rate that corresponds to it.
    pub(super) value: Option<(f64, String)>,
    /// The bound and its source.
    pub(super) bound: Option<(f64, &'a str)>,
    pub(super) gap: Option<f64>,
    pub(super) stop: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
    /// Duration of the solve; `None` for a given plan.
    pub(super) seconds: Option<f64>,
    pub(super) solver: &'a str,
}

impl Claims<'_> {
    /// Status, figures, and the reason if there is one.
    pub(super) fn markup(&self) -> String {
        verdict(self.status, self.gap) + &self.figures() + &reasons(self.reason)
    }

    fn figures(&self) -> String {
        let none = || "none".to_owned();
        let (value, bound) = (self.value.as_ref().map(|value| value.0), self.bound.map(|bound| bound.0));
        let rate = self.value.as_ref().map_or("", |value| &value.1);
        let source = self.bound.map_or("", |bound| bound.1);
        let stop = self.stop.map(|stop| format!("stopped by {stop}")).unwrap_or_default();
        let rows = [
            ("value", value.map_or_else(none, markup::seconds), rate),
            ("bound", bound.map_or_else(none, markup::seconds), source),
            ("gap", self.gap.map_or_else(none, markup::percent), &stop),
            match self.seconds {
                Some(seconds) => ("solved in", markup::seconds(seconds), self.solver),
                None => ("plan", "given".to_owned(), self.solver),
            },
        ];
        let mut text = figures(rows);
        if let (Some(value), Some(bound)) = (value, bound)
            && value > 0.0
            && (bound / value).is_finite()
        {
            text.push_str(&gauge(bound / value));
        }
        text
    }
}

/// Status and gap in a sentence.
pub(super) fn verdict(status: PlanStatus, gap: Option<f64>) -> String {
    let sentence = match (status, gap) {
        (PlanStatus::Optimal, _) => "The plan is optimal: the bound has reached the value.".into(),
        (PlanStatus::Feasible, Some(gap)) => {
            format!("No plan is better by more than {}.", markup::percent(gap))
        }
        (PlanStatus::Feasible, None) => {
            "The gap is unknown: another plan could be better by any amount.".into()
        }
        (PlanStatus::Infeasible, _) => "There is no plan: infeasibility is proved.".into(),
        (PlanStatus::Unknown, _) => {
            "There is no plan: the search neither found one nor proved infeasibility.".into()
        }
    };
    let status = status.name();
    format!(
        "<p class=\"verdict\"><span class=\"status {status}\" id=\"status\">{status}</span> {sentence}</p>\n"
    )
}

/// The lines of a reason; empty without one.
pub(super) fn reasons(reason: Option<&str>) -> String {
    let Some(reason) = reason else { return String::new() };
    let lines = reason.lines().map(|line| format!("<li><bdi>{}</bdi></li>\n", escape(&visible(line))));
    format!("<ul class=\"reason\" id=\"reason\">\n{}</ul>\n", lines.collect::<String>())
}

/// A bar of which the proved share is filled.
pub(super) fn gauge(share: f64) -> String {
    format!(
        "<svg class=\"gauge\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"open\" width=\"1000\" height=\"10\"/><rect class=\"proved\" width=\"{:.1}\" \
         height=\"10\"/></svg>\n",
        share.clamp(0.0, 1.0) * 1000.0
    )
}

fn of_problem(page: &Page) -> Vec<(&'static str, String)> {
    let graph = page.problem.graph();
    let cluster = page.problem.cluster();
    let devices = match page.document.devices.len() {
        0 => count(cluster.device_count()),
        _ => {
            let used: u32 = page.document.devices.iter().map(|device| device.replicas).sum();
            format!("{} of {} in use", count(used as usize), count(cluster.device_count()))
        }
    };
    let mut rows = vec![
        ("operators", count(graph.operator_count())),
        ("tensors", count(graph.tensor_count())),
        ("devices", devices),
    ];
    if !is_given(page.comparison) {
        rows.push(("seed", page.document.seed.to_string()));
    }
    let selected = table::selection(page.document).into_iter().chain(table::robustness(page.document));
    rows.extend(selected.map(|(name, text)| (name, escape(&visible(&text)))));
    rows
}

/// The figures of a page: names, markup of figures, and notes.
pub(super) fn figures<'a>(rows: impl IntoIterator<Item = (&'a str, String, &'a str)>) -> String {
    let mut text = String::from("<dl class=\"figures\">\n");
    for (name, figure, note) in rows {
        let id = name.replace(' ', "-");
        let note = escape(&visible(note));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<div><dt>{name}</dt><dd id=\"{id}\">{figure}</dd><dd class=\"note\">{note}</dd></div>"
        );
    }
    text.push_str("</dl>\n");
    text
}

/// A list of facts, whose markup is given.
pub(super) fn facts(rows: &[(&str, String)]) -> String {
    let mut text = String::from("<dl class=\"facts\">\n");
    for (name, fact) in rows {
        let _ = writeln!(text, "<div><dt>{name}</dt><dd>{fact}</dd></div>");
    }
    text.push_str("</dl>\n");
    text
}
