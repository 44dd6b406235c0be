//! Convergence of value and bound over solve time, as a chart and as a table.

use std::fmt::Write;

use stagewright_core::document::PlanDocument;

use super::markup;
use super::shell::Section;
use crate::convergence::{Convergence, Moment};
use crate::units;

/// Width and height of the drawing, which is stretched to the width of the page.
const SIZE: [f64; 2] = [1000.0, 240.0];
/// Maximum number of points of a line that are drawn and listed. If there are more, the time is divided into this many
/// parts, and the first point and the last in each part are kept.
const MOST: usize = 400;

/// Convergence section, whose lines end with the answer. `None` without a plan, because there is nothing to converge
/// to, or if nothing was reported before the answer.
pub(super) fn section(convergence: &Convergence, plan: &PlanDocument) -> Option<Section> {
    plan.objective.value_s?;
    if convergence.values().is_empty() && convergence.bounds().is_empty() {
        return None;
    }
    let watched = convergence.clone().with_answer(plan.objective.value_s, plan.bound.value_s, plan.seconds);
    let end =
        watched.values().iter().chain(watched.bounds()).fold(plan.seconds, |end, it| end.max(it.elapsed));
    let values = thinned(watched.values(), end);
    let bounds = thinned(watched.bounds(), end);
    let reached = || values.iter().chain(&bounds).map(|moment| moment.reached);
    let (low, high) = (reached().reduce(f64::min)?, reached().reduce(f64::max)?);
    let frame = Frame { end, low, high };
    let lead = match bounds.is_empty() {
        true => "The best plan over the course of the solve.",
        false => {
            "The best plan and the strongest bound over the course of the solve; the optimum is between them."
        }
    };
    let (mut key, mut paths) = (String::new(), String::new());
    for (class, moments) in [("value", &values), ("bound", &bounds)] {
        if let Some(line) = frame.line(moments) {
            // Writing to a string cannot fail, here and below.
            let _ = write!(key, "<li><i class=\"line {class}\"></i>{class}</li>");
            // The value is drawn over the bound.
            paths.insert_str(0, &format!("<path class=\"{class}\" d=\"{line}\"/>"));
        }
    }
    let mut markup = format!(
        "<h2 id=\"convergence-title\">Convergence</h2>\n<p class=\"lead\">{lead}</p>\n\
         <figure class=\"chart\" aria-label=\"Value and bound over {}\">\n\
         <ul class=\"key\" aria-hidden=\"true\">{key}</ul>\n\
         <span class=\"top\">{}</span><span class=\"bottom\">{}</span>\n\
         <svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{paths}",
        units::seconds(end),
        units::seconds(high),
        units::seconds(low),
        SIZE[0],
        SIZE[1]
    );
    let _ = write!(
        markup,
        "</svg>\n<span class=\"start\">0 s</span><span class=\"end\">{}</span>\n</figure>\n",
        units::seconds(end)
    );
    markup.push_str(&table(&values, &bounds));
    Some(Section { id: "convergence", title: "Convergence", markup })
}

/// Thins out moments to little more than [`MOST`]: the first, and the last in each part of the time up to `end`.
fn thinned(moments: &[Moment], end: f64) -> Vec<Moment> {
    if moments.len() <= MOST || end <= 0.0 {
        return moments.to_vec();
    }
    let part = |moment: &Moment| (moment.elapsed / end * MOST as f64).floor();
    let parts = moments.chunk_by(|left, right| part(left) == part(right));
    // The start is as informative as the end.
    let mut kept: Vec<Moment> =
        moments.first().into_iter().chain(parts.filter_map(<[Moment]>::last)).copied().collect();
    kept.dedup();
    kept
}

/// Ranges of the axes.
struct Frame {
    end: f64,
    low: f64,
    high: f64,
}

impl Frame {
    /// Step line from moment to moment and on to the end; `None` without moments.
    fn line(&self, moments: &[Moment]) -> Option<String> {
        let across = |elapsed: f64| if self.end > 0.0 { elapsed / self.end * SIZE[0] } else { 0.0 };
        let height = self.high - self.low;
        // A constant line is drawn in the middle.
        let down = |reached: f64| {
            if height > 0.0 { (self.high - reached) / height * SIZE[1] } else { SIZE[1] / 2.0 }
        };
        let (first, rest) = moments.split_first()?;
        let mut line = format!("M{:.1} {:.1}", across(first.elapsed), down(first.reached));
        for moment in rest {
            let _ = write!(line, "H{:.1}V{:.1}", across(moment.elapsed), down(moment.reached));
        }
        let _ = write!(line, "H{:.1}", SIZE[0]);
        Some(line)
    }
}

fn table(values: &[Moment], bounds: &[Moment]) -> String {
    let mut rows: Vec<(Moment, &str)> = values.iter().map(|&moment| (moment, "value")).collect();
    rows.extend(bounds.iter().map(|&moment| (moment, "bound")));
    rows.sort_by(|(left, _), (right, _)| left.elapsed.total_cmp(&right.elapsed));
    let mut text = String::from(
        "<details class=\"all\"><summary>All moments as a table</summary>\n\
         <div class=\"scroll tall\" role=\"region\" tabindex=\"0\" aria-label=\"Values and bounds by time\">\n\
         <table class=\"narrow\"><caption class=\"hidden\">Values and bounds by time</caption><thead><tr>\
         <th scope=\"col\">after</th><th scope=\"col\" class=\"word\">what</th><th scope=\"col\">reached</th></tr></thead><tbody>\n",
    );
    for (moment, what) in rows {
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}</th><td class=\"word\">{what}</td><td>{}</td></tr>",
            markup::seconds(moment.elapsed),
            markup::seconds(moment.reached)
        );
    }
    text.push_str("</tbody></table></div></details>\n");
    text
}
