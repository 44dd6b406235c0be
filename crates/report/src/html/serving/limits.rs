//! Values of the best plans within other limits on times, as a chart, and with other devices.

use std::fmt::Write;

use stagewright_core::document::ServingPlanDocument;

use super::{Explained, Point};
use crate::html::markup::{escape, table};
use crate::html::names::visible;
use crate::html::shell::Section;
use crate::serving::amount;
use crate::units;

/// Width and height of the drawing, which is stretched to the width of the page.
const SIZE: [f64; 2] = [1000.0, 240.0];

/// Section of what-ifs; `None` if nothing else was asked.
pub(super) fn section(plan: &ServingPlanDocument, explained: &Explained) -> Option<Section> {
    if explained.frontier.is_empty() && explained.what_ifs.is_empty() {
        return None;
    }
    let mut markup = String::from("<h2 id=\"limits-title\">What if</h2>\n");
    if let Some(chart) = chart(plan, &explained.frontier) {
        markup.push_str(
            "<p class=\"lead\">The best plans if one limit on times were another and the rest of the question the same. A \
             line keeps its height up to the next limit that was solved.</p>\n",
        );
        markup.push_str(&chart);
    }
    markup.push_str(&what_ifs(plan, explained));
    markup.push_str(&frontier(plan, &explained.frontier));
    Some(Section { id: "limits", title: "What if", markup })
}

/// Limits as multiples of the question's, with the values within them, in increasing order.
fn line(points: &[Point], limits: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut line: Vec<(f64, f64)> =
        points.iter().filter_map(|point| limits(point).zip(point.value)).collect();
    line.retain(|(multiple, value)| multiple.is_finite() && *multiple > 0.0 && value.is_finite());
    line.sort_by(|left, right| left.0.total_cmp(&right.0));
    line
}

/// The chart of values by limits; `None` without two values.
fn chart(plan: &ServingPlanDocument, points: &[Point]) -> Option<String> {
    let (goal, ttft, tpot) = (plan.question.goal, plan.question.ttft_s, plan.question.tpot_s);
    let multiple = |own: Option<f64>, question: Option<f64>| Some(own? / question?);
    let lines = [
        ("TPOT", "", line(points, |point| multiple(point.tpot_s, tpot).filter(|_| point.ttft_s == ttft))),
        (
            "TTFT",
            "bound",
            line(points, |point| multiple(point.ttft_s, ttft).filter(|_| point.tpot_s == tpot)),
        ),
    ];
    // A limit that has only the question's own value says nothing.
    let lines: Vec<_> = lines.into_iter().filter(|(_, _, line)| line.len() > 1).collect();
    let all = || lines.iter().flat_map(|(_, _, line)| line);
    let range = |coordinate: fn(&(f64, f64)) -> f64| {
        let (low, high) = (all().map(coordinate).reduce(f64::min)?, all().map(coordinate).reduce(f64::max)?);
        Some((low, high))
    };
    let (least, most) = range(|point| point.0)?;
    let (low, high) = range(|point| point.1)?;
    let across = |multiple: f64| (multiple / least).ln() / (most / least).ln() * SIZE[0];
    let down = |value: f64| if high > low { (high - value) / (high - low) * SIZE[1] } else { SIZE[1] / 2.0 };
    let (mut key, mut paths) = (String::new(), String::new());
    if (least..=most).contains(&1.0) {
        let _ = write!(paths, "<path class=\"own\" d=\"M{:.1} 0V{}\"/>", across(1.0), SIZE[1]);
    }
    for (name, class, line) in &lines {
        let _ = write!(key, "<li><i class=\"line {class}\"></i>limit on {name}</li>");
        let (mut path, mut dots) = (String::new(), String::new());
        for &(multiple, value) in line {
            let (x, y) = (across(multiple), down(value));
            let _ =
                if path.is_empty() { write!(path, "M{x:.1} {y:.1}") } else { write!(path, "H{x:.1}V{y:.1}") };
            // A line without length has round ends, which no stretching distorts.
            let _ = write!(dots, "M{x:.1} {y:.1}h0");
        }
        let _ = write!(
            paths,
            "<path class=\"{class}\" d=\"{path}\"/><path class=\"dots {class}\" d=\"{dots}\"/>"
        );
    }
    let times = |multiple: f64| format!("{multiple} × the limit");
    Some(format!(
        "<figure class=\"chart\" aria-label=\"Values by limits on times\">\n<ul class=\"key\" aria-hidden=\"true\">{key}\
         <li>the vertical line is the question</li></ul>\n<span class=\"top\">{}</span><span class=\"bottom\">{}</span>\n\
         <svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{paths}</svg>\n\
         <span class=\"start\">{}</span><span class=\"end\">{}</span>\n</figure>\n",
        escape(&amount(goal, high)),
        if low < high { escape(&amount(goal, low)) } else { String::new() },
        SIZE[0],
        SIZE[1],
        times(least),
        times(most)
    ))
}

/// Table of changed clusters.
fn what_ifs(plan: &ServingPlanDocument, explained: &Explained) -> String {
    if explained.what_ifs.is_empty() {
        return String::new();
    }
    let columns = [("change", true), ("value", false), ("difference", false)];
    let rows = explained.what_ifs.iter().map(|what_if| {
        let change = format!("<bdi>{}</bdi>", escape(&visible(&what_if.change)));
        let [value, difference] = cells(plan, what_if.value);
        vec![change, value, difference]
    });
    table("what-if-table", "Values with other devices", &columns, rows)
}

/// Table of changed limits.
fn frontier(plan: &ServingPlanDocument, points: &[Point]) -> String {
    if points.is_empty() {
        return String::new();
    }
    let columns = [("TTFT at most", false), ("TPOT at most", false), ("value", false), ("difference", false)];
    let limit =
        |limit: Option<f64>| limit.map_or_else(|| "any".into(), |limit| escape(&units::seconds(limit)));
    let rows = points.iter().map(|point| {
        let [value, difference] = cells(plan, point.value);
        vec![limit(point.ttft_s), limit(point.tpot_s), value, difference]
    });
    format!(
        "<details class=\"all\"><summary>All limits as a table</summary>\n{}</details>\n",
        table("frontier-table", "Values by limits on times", &columns, rows)
    )
}

/// A value, and its difference from that of the plan.
fn cells(plan: &ServingPlanDocument, value: Option<f64>) -> [String; 2] {
    let shown = value.map_or_else(|| "no plan".into(), |value| escape(&amount(plan.question.goal, value)));
    let difference = match value.zip(plan.value) {
        Some((value, own)) if own > 0.0 => format!("{:+.1}%", 100.0 * (value / own - 1.0)),
        _ => String::new(),
    };
    [shown, difference]
}
