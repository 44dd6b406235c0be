//! The timelines of a plan: one step as the simulator plays it, and the steady state beside it.

use std::fmt::Write;

use rustc_hash::FxHashMap;
use stagewright_core::graph::OpId;
use stagewright_core::simulate::Ports;

use super::shell::Section;
use super::tables::{Tables, pass_number};
use super::timeline::{Activity, Doing, KEY, NO_PASS, TimelineData, view};
use super::{Page, steady};
use crate::steady::Steady;
use crate::step::Step;
use crate::step::text::parts;
use crate::units;

/// The section in which the timelines are drawn; `None` without a step.
pub(super) fn section(page: &Page, steady: Option<&Steady>) -> Option<Section> {
    let step = page.step?;
    let mut markup = String::from("<h2 id=\"timeline-title\">Timeline</h2>\n");
    if let Some(steady) = steady {
        markup.push_str(&steady::markup(steady));
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        markup,
        "<h3>One step</h3>\n<p class=\"lead\">One batch alone under dataflow execution, in {}: {} on \
         the critical path.</p>",
        units::seconds(step.makespan()),
        parts(&step.critical_path(), step.makespan())
    );
    markup.push_str(&view("timeline", "one step", KEY));
    Some(Section { id: "timeline", title: "Timeline", markup })
}

/// Returns the data of a step; `None` if its makespan is zero or non-finite.
pub(super) fn data(step: &Step, tables: &mut Tables) -> Option<TimelineData> {
    TimelineData::new(step.makespan(), doing(step, tables).lanes(step.problem()), &mut tables.seconds)
}

/// Activities of a step, by device and uplink.
fn doing(step: &Step, tables: &Tables) -> Doing {
    let graph = step.problem().graph();
    let ports = Ports::new(step.problem());
    let groups = step.problem().cluster().group_count();
    let mut doing = Doing::new(tables.number_of.len(), groups);
    let group_of: FxHashMap<u32, usize> = (0..groups).map(|group| (ports.uplink(group), group)).collect();
    let number = |device| tables.number_of.get(&device).map(|&number| number as usize);
    for (op, &span) in (0..).zip(step.timeline().operators()) {
        let pass = pass_number(graph.operator(OpId(op)).pass);
        if let Some(device) = number(step.device_of(op)) {
            let operator = tables.place_of[OpId(op)];
            doing.computes[device].push(Activity { span, operator, pass, batch: 0 });
        }
    }
    for (transfer, &span) in (0..).zip(step.timeline().transfers()) {
        let producer = step.flow().producer_of(transfer);
        let operator = tables.place_of[OpId(producer)];
        let activity = Activity { span, operator, pass: NO_PASS, batch: 0 };
        let [from, to] = step.ends_of(transfer).map(number);
        if let (Some(from), Some(to)) = (from, to) {
            doing.sends[from].push(activity);
            doing.receives[to].push(activity);
        }
        for port in step.flow().ports_of(transfer) {
            if let Some(&group) = group_of.get(port) {
                doing.uplinks[group].push(activity);
            }
        }
    }
    doing
}
