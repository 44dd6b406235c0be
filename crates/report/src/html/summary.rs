//! The head of the page: value, bound and status.

use std::fmt::Write;

use stagewright_core::document::{PlanDocument, PlanStatus};

use super::Page;
use super::markup::{self, count, escape};
use super::names::visible;
use super::shell::Section;
use crate::table;
use crate::throughput::rate;

/// Summary section: the figures of a plan, or the reason why there is none.
pub(super) fn section(page: &Page) -> Section {
    let plan = page.document;
    let mut markup = format!(
        "<p class=\"eyebrow\">{}</p>\n<h1 id=\"summary-title\"><bdi>{}</bdi> <span>on</span> <bdi>{}</bdi></h1>\n",
        escape(&table::objective(&plan.objective)),
        escape(&visible(page.model)),
        escape(&visible(page.cluster))
    );
    let status = plan.status.name();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        markup,
        "<p class=\"verdict\"><span class=\"status {status}\" id=\"status\">{status}</span> {}</p>",
        verdict(plan)
    );
    markup.push_str(&figures(plan));
    if let Some(reason) = &plan.reason {
        markup.push_str("<ul class=\"reason\" id=\"reason\">\n");
        for line in reason.lines() {
            let _ = writeln!(markup, "<li><bdi>{}</bdi></li>", escape(&visible(line)));
        }
        markup.push_str("</ul>\n");
    }
    markup.push_str(&facts(page));
    Section { id: "summary", title: "Summary", markup }
}

/// The status in a sentence.
fn verdict(plan: &PlanDocument) -> String {
    match (plan.status, plan.gap) {
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
    }
}

fn figures(plan: &PlanDocument) -> String {
    let none = || "none".to_owned();
    let value = plan.objective.value_s;
    let rate =
        value.and_then(|value| rate(&plan.objective, value, plan.throughput.as_ref())).unwrap_or_default();
    let source = plan.bound.value_s.map_or("", |_| plan.bound.source.as_str());
    let stop = plan.stop.as_ref().map(|stop| format!("stopped by {stop}")).unwrap_or_default();
    let rows = [
        ("value", value.map_or_else(none, markup::seconds), rate.as_str()),
        ("bound", plan.bound.value_s.map_or_else(none, markup::seconds), source),
        ("gap", plan.gap.map_or_else(none, markup::percent), &stop),
        ("solved in", markup::seconds(plan.seconds), &plan.solver),
    ];
    let mut text = String::from("<dl class=\"figures\">\n");
    for (name, figure, note) in rows {
        let id = name.replace(' ', "-");
        let note = escape(&visible(note));
        let _ = writeln!(
            text,
            "<div><dt>{name}</dt><dd id=\"{id}\">{figure}</dd><dd class=\"note\">{note}</dd></div>"
        );
    }
    text.push_str("</dl>\n");
    if let (Some(value), Some(bound)) = (value, plan.bound.value_s)
        && value > 0.0
    {
        let share = (bound / value).clamp(0.0, 1.0) * 1000.0;
        let _ = writeln!(
            text,
            "<svg class=\"gauge\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
             <rect class=\"open\" width=\"1000\" height=\"10\"/><rect class=\"proved\" width=\"{share:.1}\" \
             height=\"10\"/></svg>"
        );
    }
    text
}

fn facts(page: &Page) -> String {
    let graph = page.problem.graph();
    let cluster = page.problem.cluster();
    let devices = match page.document.devices.len() {
        0 => count(cluster.device_count()),
        _ => {
            let used: u32 = page.document.devices.iter().map(|device| device.replicas).sum();
            format!("{} of {} in use", count(used as usize), count(cluster.device_count()))
        }
    };
    let rows = [
        ("operators", count(graph.operator_count())),
        ("tensors", count(graph.tensor_count())),
        ("devices", devices),
        ("seed", page.document.seed.to_string()),
    ];
    let mut text = String::from("<dl class=\"facts\">\n");
    for (name, fact) in rows {
        let _ = writeln!(text, "<div><dt>{name}</dt><dd>{fact}</dd></div>");
    }
    text.push_str("</dl>\n");
    text
}
