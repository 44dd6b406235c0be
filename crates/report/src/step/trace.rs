//! The timeline of a step as a trace for `chrome://tracing` and Perfetto.
//!
//! Each device is a process with a row each for compute, sends and receives, and a memory counter. A host has no
//! ports and therefore only the compute row. One more process has a row for the uplink of each group. An operator
//! is an event of category `forward`, `backward` or `update`; a transfer is an event of category `transfer` in the
//! row of each port that it holds. A transfer without ports, between hosts, would overlap others in a row, so it is
//! an asynchronous event.
//!
//! Times are rounded to nanoseconds, the finest resolution of viewers, so that no event begins before the previous
//! one in its row has ended.
//!
//! Literature: the Trace Event Format of the Chromium project (Trace Viewer), JSON object format.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Pass;
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::ids::Keyed;
use stagewright_core::simulate::{Ports, Span};

use super::Step;
use super::memory::Level;
use crate::units::bytes;

const COMPUTES: u32 = 1;
const SENDS: u32 = 2;
const RECEIVES: u32 = 3;

/// A trace event, with the field names of the format.
#[derive(Debug, Serialize)]
struct Event<'a> {
    name: &'a str,
    ph: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u32>,
    args: Value,
}

/// Row of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    process: u32,
    thread: u32,
}

/// Writes the trace of a step, event by event, in O((operators + pins) log (operators + pins)).
///
/// # Errors
/// If the writer fails.
pub fn write(step: &Step, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
    let mut trace = Trace { step, rows: Rows::new(step), out, is_first: true };
    trace.names()?;
    trace.operators()?;
    trace.transfers()?;
    trace.memory()?;
    out.write_all(b"\n]}\n")
}

/// The rows of a trace.
struct Rows {
    /// Process of each device in use, from 1.
    process_of: Keyed<DeviceId, Option<u32>>,
    /// Row of each port.
    row_of: Keyed<u32, Option<Row>>,
    /// Process of the uplinks.
    uplinks: u32,
}

impl Rows {
    fn new(step: &Step) -> Rows {
        let ports = Ports::new(step.problem);
        let used = step.placement.used();
        let mut process_of = Keyed::filled(None, step.problem.cluster().device_count());
        let mut row_of = Keyed::filled(None, ports.count() as usize);
        for (process, &device) in (1..).zip(&used) {
            process_of[device] = Some(process);
            row_of[ports.egress(device)] = Some(Row { process, thread: SENDS });
            row_of[ports.ingress(device)] = Some(Row { process, thread: RECEIVES });
        }
        let uplinks = used.len() as u32 + 1;
        for (thread, group) in (1..).zip(0..step.problem.cluster().group_count()) {
            row_of[ports.uplink(group)] = Some(Row { process: uplinks, thread });
        }
        Rows { process_of, row_of, uplinks }
    }
}

struct Trace<'a> {
    step: &'a Step<'a>,
    rows: Rows,
    out: &'a mut dyn Write,
    is_first: bool,
}

impl Trace<'_> {
    fn write(&mut self, event: &Event) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }

    /// Writes a metadata event about a process or one of its rows.
    fn about(
        &mut self,
        what: &'static str,
        process: u32,
        thread: Option<u32>,
        args: Value,
    ) -> io::Result<()> {
        let (cat, ts, dur, id) = (None, None, None, None);
        self.write(&Event { name: what, ph: "M", cat, pid: process, tid: thread, ts, dur, id, args })
    }

    fn process(&mut self, process: u32, name: &str) -> io::Result<()> {
        self.about("process_name", process, None, json!({"name": name}))?;
        self.about("process_sort_index", process, None, json!({"sort_index": process}))
    }

    fn row(&mut self, row: Row, name: &str) -> io::Result<()> {
        self.about("thread_name", row.process, Some(row.thread), json!({"name": name}))?;
        self.about("thread_sort_index", row.process, Some(row.thread), json!({"sort_index": row.thread}))
    }

    fn names(&mut self) -> io::Result<()> {
        let cluster = self.step.problem.cluster();
        for device in cluster.devices() {
            let Some(process) = self.rows.process_of[device] else { continue };
            let kind = cluster.kind(cluster.kind_of(device));
            self.process(process, &cluster.device_name(device))?;
            let memory = kind.memory_bytes.map_or_else(|| "unlimited memory".into(), bytes);
            self.about("process_labels", process, None, json!({"labels": memory}))?;
            self.row(Row { process, thread: COMPUTES }, "computes")?;
            if !kind.host {
                self.row(Row { process, thread: SENDS }, "sends")?;
                self.row(Row { process, thread: RECEIVES }, "receives")?;
            }
        }
        let groups = &cluster.document().groups;
        if !groups.is_empty() {
            self.process(self.rows.uplinks, "uplinks")?;
        }
        for (thread, group) in (1..).zip(groups) {
            self.row(Row { process: self.rows.uplinks, thread }, &group.name)?;
        }
        Ok(())
    }

    /// Writes a complete event, an interval in one row.
    fn complete(
        &mut self,
        row: Row,
        name: &str,
        cat: &'static str,
        span: Span,
        args: Value,
    ) -> io::Result<()> {
        let (start, end) = (nanoseconds(span.start), nanoseconds(span.end));
        self.write(&Event {
            name,
            ph: "X",
            cat: Some(cat),
            pid: row.process,
            tid: Some(row.thread),
            ts: Some(start / 1e3),
            dur: Some((end - start) / 1e3),
            id: None,
            args,
        })
    }

    fn operators(&mut self) -> io::Result<()> {
        let step = self.step;
        for (op, &span) in (0..).zip(step.timeline.operators()) {
            let Some(process) = self.rows.process_of[step.device_of(op)] else { continue };
            let operator = step.problem.graph().operator(OpId(op));
            let cat = match operator.pass {
                Pass::Forward => "forward",
                Pass::Backward => "backward",
                Pass::Update => "update",
            };
            let mut args = serde_json::Map::new();
            for (field, value) in [("kind", &operator.kind), ("layer", &operator.layer)] {
                if let Some(value) = value {
                    args.insert(field.into(), value.clone().into());
                }
            }
            let row = Row { process, thread: COMPUTES };
            self.complete(row, &operator.name, cat, span, Value::Object(args))?;
        }
        Ok(())
    }

    fn transfers(&mut self) -> io::Result<()> {
        let step = self.step;
        let name_of = |device: DeviceId| step.problem.cluster().device_name(device);
        for (transfer, &span) in (0..).zip(step.timeline.transfers()) {
            let name = step.tensor(transfer);
            let [from, to] = step.ends_of(transfer);
            let bytes = step.problem.graph().bytes(TensorId(step.flow.tensor_of(transfer)));
            let args = json!({"from": name_of(from), "to": name_of(to), "bytes": bytes});
            let ports = step.flow.ports_of(transfer);
            for &port in ports {
                if let Some(row) = self.rows.row_of[port] {
                    self.complete(row, &name, "transfer", span, args.clone())?;
                }
            }
            if ports.is_empty()
                && let Some(process) = self.rows.process_of[to]
            {
                self.asynchronous(process, transfer, &name, span, args)?;
            }
        }
        Ok(())
    }

    /// Writes an event that may overlap others, as a begin and an end event.
    fn asynchronous(&mut self, process: u32, id: u32, name: &str, span: Span, args: Value) -> io::Result<()> {
        for (ph, moment, args) in [("b", span.start, args), ("e", span.end, json!({}))] {
            self.write(&Event {
                name,
                ph,
                cat: Some("transfer"),
                pid: process,
                tid: Some(RECEIVES),
                ts: Some(nanoseconds(moment) / 1e3),
                dur: None,
                id: Some(id),
                args,
            })?;
        }
        Ok(())
    }

    fn memory(&mut self) -> io::Result<()> {
        for (device, levels) in self.step.problem.cluster().devices().zip(self.step.levels()) {
            let Some(process) = self.rows.process_of[device] else { continue };
            let moment = |level: &Level| nanoseconds(level.from);
            for level in
                levels.chunk_by(|left, right| moment(left) == moment(right)).filter_map(<[Level]>::last)
            {
                // Sums and differences of bytes leave rounding errors.
                let args = json!({"bytes": level.bytes.max(0.0).round()});
                let ts = Some(moment(level) / 1e3);
                let (cat, tid, dur, id) = (None, None, None, None);
                self.write(&Event { name: "memory", ph: "C", cat, pid: process, tid, ts, dur, id, args })?;
            }
        }
        Ok(())
    }
}

/// Converts seconds to whole nanoseconds.
fn nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round()
}
