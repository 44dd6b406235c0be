//! One period of the full pipeline, beside the single step: as a table, and as a timeline.

use std::fmt::Write;

use stagewright_core::evaluate::{Place, SteadyState, SteadyTask, SteadyWork};
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::simulate::Span;

use super::markup::{self, escape};
use super::names::visible;
use super::tables::{Tables, pass_number};
use super::timeline::{Activity, Doing, GRADIENTS, KEY, NO_PASS, TimelineData, view};
use crate::steady::{Steady, idle, in_flight, memory};
use crate::table::share;
use crate::units;

/// Markup of the text and the place of the timeline, or of the reason why there is no steady state.
pub(super) fn markup(steady: &Steady) -> String {
    let state = match &steady.state {
        Ok(state) => state,
        Err(why) => {
            return format!("<p class=\"note\" id=\"no-steady\">No steady state: {}.</p>\n", escape(why));
        }
    };
    let mut text = format!(
        "<h3>Steady state</h3>\n<p class=\"lead\" id=\"steady-lead\">One period of the full pipeline: {}, the value of \
         the plan. It works on {}, each of which takes {} from beginning to end. Batch n is the one that the period \
         begins, n \u{2212} 1 the one before.</p>\n",
        units::seconds(state.period),
        in_flight(state),
        units::seconds(state.latency)
    );
    text.push_str(&view("steady", "one period of the full pipeline", KEY));
    text.push_str(&figures(steady, state));
    if let Some(memory) = memory(state) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "<p class=\"note\">Memory: {memory}.</p>");
    }
    text
}

/// The figures of all devices.
fn figures(steady: &Steady, state: &SteadyState) -> String {
    let synchronises = state.devices.iter().any(|device| device.synchronised > 0.0);
    let mut text = String::from(
        "<div class=\"scroll tall\" role=\"region\" tabindex=\"0\" aria-label=\"Devices in the steady state\">\n\
         <table id=\"steady-table\"><caption class=\"hidden\">Devices in the steady state</caption><thead><tr>\
         <th scope=\"col\">in a period</th><th scope=\"col\">compute</th><th scope=\"col\">utilisation</th>\
         <th scope=\"col\">sent</th><th scope=\"col\">received</th>",
    );
    if synchronises {
        text.push_str("<th scope=\"col\">synchronised</th>");
    }
    text.push_str(
        "<th scope=\"col\">load</th><th scope=\"col\">idle</th><th scope=\"col\">in flight</th></tr></thead><tbody>\n",
    );
    for device in &state.devices {
        let name = escape(&visible(&steady.device(device)));
        let utilisation = markup::percent(share(device.compute, state.period));
        let mut cells = vec![markup::seconds(device.compute), utilisation];
        cells.extend([device.sent, device.received].map(markup::seconds));
        cells.extend(synchronises.then(|| markup::seconds(device.synchronised)));
        cells.extend([device.load, idle(state, device)].map(markup::seconds));
        cells.push(markup::count(device.in_flight as usize));
        let _ = write!(text, "<tr><th scope=\"row\"><bdi>{name}</bdi></th>");
        for cell in cells {
            let _ = write!(text, "<td>{cell}</td>");
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// The data of the timeline; `None` without a steady state, or if its period takes no time.
pub(super) fn data(steady: &Steady, tables: &mut Tables) -> Option<TimelineData> {
    let (problem, state) = (steady.problem(), steady.state.as_ref().ok()?);
    let mut doing = Doing::new(state.devices.len(), state.uplinks.len());
    for task in &state.tasks {
        let (operator, pass) = what(steady, task, tables);
        let row = match (task.place, task.work) {
            (Place::Uplink(group), _) => &mut doing.uplinks[group],
            (Place::Device(device), SteadyWork::Operator(_)) => &mut doing.computes[device],
            (Place::Device(device), SteadyWork::Send(_)) => &mut doing.sends[device],
            (Place::Device(device), SteadyWork::Synchronise) => &mut doing.synchronises[device],
            (Place::Device(device), _) => &mut doing.receives[device],
        };
        let (start, batch) = task.within(state.period);
        let end = start + task.seconds;
        let mut push = |start, end, batch| {
            row.push(Activity { span: Span { start, end }, operator, pass, batch });
        };
        push(start, end.min(state.period), batch);
        // A bar cut off by the end of the period continues at its beginning, for the previous batch.
        if end > state.period {
            push(0.0, end - state.period, batch + 1);
        }
    }
    TimelineData::new(state.period, doing.lanes(problem), &mut tables.seconds)
}

/// The operator that names a task, and its label in place of a pass.
fn what(steady: &Steady, task: &SteadyTask, tables: &Tables) -> (u32, u8) {
    let graph = steady.problem().graph();
    let place = |op: OpId| tables.place_of[op];
    let made = |tensor: TensorId| (place(graph.producer(tensor)), NO_PASS);
    match task.work {
        SteadyWork::Operator(op) => (place(op), pass_number(graph.operator(op).pass)),
        SteadyWork::Send(tensor) | SteadyWork::Cross(tensor) | SteadyWork::Receive(tensor) => made(tensor),
        SteadyWork::CrossGradient(_) | SteadyWork::Synchronise => (0, GRADIENTS),
    }
}
