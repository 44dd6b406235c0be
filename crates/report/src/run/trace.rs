//! The timeline of a run in the Chrome trace format, beside the predicted one.
//!
//! Process 1 has the measurements: a thread for each device, and one for its transfers. Process 2 has what a throughput
//! plan predicts for a full pipeline: every device starts a sample every period, after the devices before it.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{RunActivity, RunSpan};

/// Writes the spans of a run on `devices`.
///
/// # Errors
/// If the writer fails.
pub fn write(file: &mut dyn Write, devices: &[&str], spans: &[RunSpan]) -> io::Result<()> {
    let is_predicted = spans.iter().any(|span| span.activity == RunActivity::Load);
    let mut events = vec![named("process_name", 1, 0, "measured")];
    events.extend(is_predicted.then(|| named("process_name", 2, 0, "predicted")));
    for (device, name) in devices.iter().enumerate() {
        events.push(named("thread_name", 1, 2 * device, name));
        events.push(named("thread_name", 1, 2 * device + 1, &format!("{name} transfers")));
        events.extend(is_predicted.then(|| named("thread_name", 2, 2 * device, name)));
    }
    events.extend(spans.iter().map(|span| {
        let (process, thread) = match span.activity {
            RunActivity::Compute => (1, 2 * span.device),
            RunActivity::Send | RunActivity::Receive => (1, 2 * span.device + 1),
            RunActivity::Load => (2, 2 * span.device),
        };
        // Times are in microseconds.
        json!({
            "ph": "X", "name": format!("sample {}", span.sample), "cat": span.activity.name(), "pid": process,
            "tid": thread, "ts": 1e6 * span.start_s, "dur": 1e6 * (span.end_s - span.start_s),
        })
    }));
    serde_json::to_writer(&mut *file, &json!({ "displayTimeUnit": "ms", "traceEvents": events }))?;
    writeln!(file)
}

fn named(what: &str, process: u64, thread: usize, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": process, "tid": thread, "args": { "name": name } })
}
