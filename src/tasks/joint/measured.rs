//! `explain --measured`: a log of training beside the prediction of a joint plan, part by part.

use serde::ser::{Serialize, SerializeMap, Serializer};
use stagewright_core::document::{JointExecutionDocument, JointPlanDocument, TransferKind};
use stagewright_costs::training::{Exposed, Kind, Log, Pace, Part};
use stagewright_report::grid::{Column, Grid};
use stagewright_report::joint::devices;
use stagewright_report::units::{bytes, percent, seconds};
use stagewright_report::wrap;

use crate::code::U014;
use crate::failure::{Failure, Result};

/// A log beside a prediction.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Measured {
    /// The program that wrote the log.
    log: Kind,
    /// Readings in the medians: lines of a log, or steps of a trace.
    readings: usize,
    /// First readings that were left out.
    warm_up: usize,
    pub(super) iteration: Pair,
    /// Parts that the log says, some of them together, and parts that it does not say.
    pub(super) parts: Vec<Row>,
    /// Bytes of the fullest device.
    pub(super) memory: Pair,
    /// Index of the row with the largest difference in the same direction; `None` if no row explains any of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    largest: Option<usize>,
}

/// A figure that was measured, and its prediction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// `None` if the log does not say it.
    pub(super) measured: Option<f64>,
    pub(super) predicted: f64,
    /// Names of the two in JSON.
    names: [&'static str; 2],
}

impl Pair {
    fn seconds(measured: Option<f64>, predicted: f64) -> Pair {
        Pair { measured, predicted, names: ["measured_s", "predicted_s"] }
    }

    fn bytes(measured: Option<f64>, predicted: f64) -> Pair {
        Pair { measured, predicted, names: ["measured_bytes", "predicted_bytes"] }
    }

    /// Prediction over measurement, less 1.
    fn error(&self) -> Option<f64> {
        self.measured.map(|measured| self.predicted / measured - 1.0).filter(|error| error.is_finite())
    }

    fn difference(&self) -> f64 {
        self.measured.map_or(0.0, |measured| measured - self.predicted)
    }
}

impl Serialize for Pair {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [measured, predicted] = self.names;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(measured, &self.measured)?;
        map.serialize_entry(predicted, &self.predicted)?;
        if let Some(error) = self.error() {
            map.serialize_entry("error", &error)?;
        }
        map.end()
    }
}

/// Seconds of parts that the log counts together.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Row {
    pub(super) parts: Vec<Part>,
    #[serde(flatten)]
    pub(super) seconds: Pair,
}

/// The prediction for a plan.
pub(super) struct Predicted {
    pub(super) seconds: f64,
    /// Seconds of an iteration by part, in the order of [`Part::ALL`], on the slowest device.
    pub(super) parts: [f64; Part::ALL.len()],
    /// Bytes of the fullest device, with what the runtime reserves.
    pub(super) bytes: f64,
    /// Tokens of a sample, if known.
    pub(super) tokens: Option<f64>,
}

impl Measured {
    /// Compares a log with the prediction for a plan.
    ///
    /// # Errors
    /// A log that counts tokens, for a graph that does not (U014).
    pub(super) fn new(
        plan: &JointPlanDocument,
        predicted: &Predicted,
        log: &Log,
        label: &str,
    ) -> Result<Measured> {
        let iteration = iteration(plan, predicted, log).ok_or_else(|| {
            Failure::new(U014, "the log counts tokens, and the graph does not say those of a sample")
                .at(label)
                .help("state `tokens` in `batch` of the graph, or give a log with seconds of iterations")
        })?;
        let parts = rows(plan, &predicted.parts, iteration, log);
        let iteration = Pair::seconds(Some(iteration), predicted.seconds);
        let missing = iteration.difference();
        let largest = (0..parts.len()).filter(|&row| parts[row].seconds.difference() * missing > 0.0).max_by(
            |&a, &b| {
                let size = |row: usize| parts[row].seconds.difference().abs();
                // Of equal ones the first.
                size(a).total_cmp(&size(b)).then(b.cmp(&a))
            },
        );
        Ok(Measured {
            log: log.kind,
            readings: log.readings,
            warm_up: log.warm_up,
            iteration,
            parts,
            memory: Pair::bytes(log.memory_bytes, predicted.bytes),
            largest,
        })
    }

    /// Measured over predicted seconds of the row of a part; `None` if the log does not say them.
    pub(super) fn ratio(&self, part: Part) -> Option<f64> {
        let row = self.parts.iter().find(|row| row.parts.contains(&part))?;
        let ratio = row.seconds.measured? / row.seconds.predicted;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    /// Whether the log divides the seconds of an iteration.
    pub(super) fn has_parts(&self) -> bool {
        self.parts.iter().any(|row| row.seconds.measured.is_some())
    }

    /// Where the figures come from.
    pub(super) fn source(&self) -> String {
        let counted = |count: usize| format!("{count} {}", if count == 1 { "reading" } else { "readings" });
        let skipped = match self.warm_up {
            0 => String::new(),
            count => format!(" after {} of warm-up", counted(count)),
        };
        format!("{}, {}{skipped}", self.log.description(), counted(self.readings))
    }

    /// The comparison as a table.
    pub(super) fn text(&self, width: Option<u16>) -> String {
        let columns = ["part", "measured", "predicted", "error"];
        let alignments = [Column::Words, Column::Figures, Column::Figures, Column::Figures];
        let mut grid = Grid::new(columns.into_iter().zip(alignments));
        let mut add = |name: String, pair: &Pair, unit: fn(f64) -> String| {
            let measured = pair.measured.map_or_else(|| "not in the log".into(), unit);
            grid.row([name, measured, unit(pair.predicted), pair.error().map(signed).unwrap_or_default()]);
        };
        add("iteration".into(), &self.iteration, seconds);
        for row in &self.parts {
            add(row.name(), &row.seconds, seconds);
        }
        add("memory".into(), &self.memory, bytes);
        let mut text = format!("\n{}", wrap::lines(&format!("measured: {}", self.source()), width));
        text.push_str(&grid.text(width));
        if let Some(row) = self.largest.and_then(|row| self.parts.get(row)) {
            let (part, whole) = (row.seconds.difference(), self.iteration.difference());
            let direction = if whole > 0.0 { "longer" } else { "shorter" };
            let said = format!(
                "an iteration takes {} {direction} than predicted; the largest part is {}: {} {direction}",
                seconds(whole.abs()),
                row.name(),
                seconds(part.abs()),
            );
            text.push_str(&wrap::lines(&said, width));
        }
        text
    }
}

impl Row {
    fn name(&self) -> String {
        self.parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(", ")
    }
}

/// A share with its sign.
fn signed(share: f64) -> String {
    if share > 0.0 { format!("+{}", percent(share)) } else { percent(share).replace('-', "−") }
}

/// Seconds of an iteration, from whatever pace the log has; `None` if tokens are needed and not known.
fn iteration(plan: &JointPlanDocument, predicted: &Predicted, log: &Log) -> Option<f64> {
    let batch = plan.objective.global_batch as f64;
    Some(match log.pace {
        Pace::Iteration(seconds) => seconds,
        Pace::Microbatch(seconds) => seconds * microbatches(plan),
        Pace::Samples(rate) => batch / rate,
        Pace::Tokens(rate) => batch * predicted.tokens? / (rate * devices(plan).0 as f64),
    })
}

/// Microbatches of a copy in an iteration.
fn microbatches(plan: &JointPlanDocument) -> f64 {
    plan.execution.as_ref().map_or(1.0, |execution| f64::from(execution.microbatches))
}

/// The parts of an iteration, in groups that the log does not divide.
fn rows(plan: &JointPlanDocument, predicted: &[f64; Part::ALL.len()], iteration: f64, log: &Log) -> Vec<Row> {
    let predicted = |part: Part| predicted[part as usize];
    let mut known: Vec<(Vec<Part>, f64)> = Vec::new();
    let mut add = |parts: &[Part], seconds: f64| {
        // A timer of parts that the plan has none of counts what else happens there.
        let wanted: Vec<Part> = parts.iter().copied().filter(|&part| predicted(part) > 0.0).collect();
        let mut group = (if wanted.is_empty() { vec![Part::Outside] } else { wanted }, seconds);
        // Groups with a part in common are one.
        let is_apart = |(parts, _): &(Vec<Part>, f64)| !parts.iter().any(|part| group.0.contains(part));
        let (apart, shared): (Vec<_>, Vec<_>) = known.drain(..).partition(is_apart);
        for (parts, seconds) in shared {
            group.0.extend(parts);
            group.1 += seconds;
        }
        group.0.sort_unstable();
        group.0.dedup();
        known = apart;
        known.push(group);
    };
    for timed in &log.timed {
        add(&timed.parts, timed.seconds);
    }
    for exposed in &log.exposed {
        add(parts_of(plan, exposed), exposed.seconds);
    }
    if !log.rest.is_empty() {
        let said =
            log.timed.iter().map(|timed| timed.seconds).chain(log.exposed.iter().map(|known| known.seconds));
        add(&log.rest, (iteration - said.sum::<f64>()).max(0.0));
    }
    let unknown = Part::ALL.into_iter().filter(|&part| predicted(part) > 0.0);
    let unknown = unknown.filter(|part| !known.iter().any(|(parts, _)| parts.contains(part)));
    let unknown: Vec<Row> = unknown
        .map(|part| Row { parts: vec![part], seconds: Pair::seconds(None, predicted(part)) })
        .collect();
    let row = |(parts, seconds): (Vec<Part>, f64)| {
        let predicted = parts.iter().map(|&part| predicted(part)).sum();
        Row { parts, seconds: Pair::seconds(Some(seconds), predicted) }
    };
    let mut rows: Vec<Row> = known.into_iter().map(row).chain(unknown).collect();
    rows.retain(|row| {
        row.seconds.predicted > 0.0 || row.seconds.measured.is_some_and(|seconds| seconds > 0.0)
    });
    rows.sort_by_key(|row| row.parts[0]);
    rows
}

/// The parts that collectives may be, by what the program calls their devices, or else by their kind and the number of
/// their devices.
fn parts_of(plan: &JointPlanDocument, exposed: &Exposed) -> &'static [Part] {
    const COPIES: &[Part] = &[Part::CopiesInPasses, Part::Copies];
    const EXCHANGING: &[&str] = &["expert", "ep", "context", "cp"];
    const STAGES: &[Part] = &[Part::Transfers, Part::Bubble];
    let Some(execution) = &plan.execution else { return &[Part::Outside] };
    let &JointExecutionDocument { data, context, expert, .. } = execution;
    let tensor = plan.stages.iter().map(|stage| stage.tensor).max().unwrap_or(1);
    let is_named = |words: &[&str]| {
        let name = exposed.group.as_deref().unwrap_or_default();
        name.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word))
    };
    match exposed.transfer {
        Some(TransferKind::AllToAll) => return &[Part::Exchanges],
        Some(TransferKind::Send) if is_named(EXCHANGING) => return &[Part::Exchanges],
        Some(TransferKind::Send) if is_named(&["pipeline", "pp"]) => return STAGES,
        // Without its name, an all-to-all is sends as well.
        Some(TransferKind::Send) if context > 1 || expert > 1 => {
            return &[Part::Transfers, Part::Bubble, Part::Exchanges];
        }
        Some(TransferKind::Send) => return STAGES,
        _ => {}
    }
    if is_named(&["tensor", "tp"]) {
        return &[Part::Tensor];
    }
    if is_named(&["data", "dp", "fsdp", "hsdp", "ddp", "shard", "replicate"]) {
        return COPIES;
    }
    if is_named(EXCHANGING) {
        return &[Part::Exchanges];
    }
    if is_named(&["pipeline", "pp", "embedding", "model"]) {
        return &[Part::Outside];
    }
    let copies = data.saturating_mul(context);
    let groups = [
        Some(copies),
        copies.checked_div(expert),
        execution.shards,
        execution.shards.map(|q| copies / q.max(1)),
    ];
    let may_be = |degree: u32| degree > 1 && exposed.devices.is_none_or(|devices| devices == degree);
    let is_tensor = may_be(tensor);
    let is_copies = groups.into_iter().flatten().any(may_be);
    match (is_tensor, is_copies) {
        (true, true) => &[Part::Tensor, Part::CopiesInPasses, Part::Copies],
        (true, false) => &[Part::Tensor],
        (false, true) => COPIES,
        // Norms of gradients, losses and the like.
        (false, false) => &[Part::Outside],
    }
}
