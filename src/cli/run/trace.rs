//! The timeline of a run in the Chrome trace format, beside the predicted one.
//!
//! Process 1 is what happened: a thread for each device, and one for its transfers. Process 2 is what the plan predicts of a
//! full pipeline: every device starts a sample every period, after the devices before it.

use std::io::{self, Write};

use serde_json::{Value, json};
use stagewright::core::document::PlanDocument;
use stagewright::runtime::pipeline::Measured;
use stagewright::runtime::protocol::SpanKind;

/// Writes a timeline.
pub(super) fn write(file: &mut dyn Write, plan: &PlanDocument, measured: &Measured) -> io::Result<()> {
    let mut events = vec![named("process_name", 1, 0, "measured"), named("process_name", 2, 0, "predicted")];
    let spans = || measured.stages.iter().flat_map(|stage| &stage.report.spans);
    let start = spans().map(|span| span.start_ns).min().unwrap_or(0);
    let samples = spans().map(|span| span.sample + 1).max().unwrap_or(0);
    for stage in &measured.stages {
        let name = &plan.devices[stage.device].name;
        let lane = 2 * stage.device as u64;
        events.push(named("thread_name", 1, lane, name));
        events.push(named("thread_name", 1, lane + 1, &format!("{name} transfers")));
        events.push(named("thread_name", 2, lane, name));
        for span in &stage.report.spans {
            let (kind, lane) = match span.kind {
                SpanKind::Run => ("compute", lane),
                SpanKind::Send => ("send", lane + 1),
                SpanKind::Receive => ("receive", lane + 1),
            };
            let (from, to) =
                ((span.start_ns - start) as f64 * 1e-3, (span.end_ns - span.start_ns) as f64 * 1e-3);
            events.push(span_of(&format!("sample {}", span.sample), kind, 1, lane, from, to));
        }
    }
    let period = plan.objective.value_s.unwrap_or(0.0);
    let mut order: Vec<usize> = (0..plan.devices.len()).collect();
    order.sort_by_key(|&device| plan.devices[device].stage.unwrap_or(0));
    let mut before = 0.0;
    for device in order {
        let load = plan.devices[device].load_s;
        for sample in 0..samples {
            let from = before + period * f64::from(sample);
            let name = format!("sample {sample}");
            events.push(span_of(&name, "load", 2, 2 * device as u64, 1e6 * from, 1e6 * load));
        }
        if plan.devices[device].stage.is_some() {
            before += load;
        }
    }
    serde_json::to_writer(&mut *file, &json!({ "displayTimeUnit": "ms", "traceEvents": events }))?;
    writeln!(file)
}

fn named(what: &str, process: u64, thread: u64, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": process, "tid": thread, "args": { "name": name } })
}

/// A span in microseconds.
fn span_of(name: &str, kind: &str, process: u64, thread: u64, from: f64, duration: f64) -> Value {
    json!({ "ph": "X", "name": name, "cat": kind, "pid": process, "tid": thread, "ts": from, "dur": duration })
}
