//! Input of the learned systems: units, their costs and transfers, and the order between them.

use candle_core::{Device, Result, Tensor};
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::TensorId;
use stagewright_core::ids::{Keyed, places};
use stagewright_core::problem::Problem;
use stagewright_makespan::ClusterId;
use stagewright_makespan::instance::Instance;
use stagewright_policy::features::kinds::{KINDS, coarse};
use stagewright_policy::rows::Rows;
use stagewright_policy::subject::Subject;

/// Added to the logit of an impossible choice.
const NOT_ABLE: f32 = -1e9;

/// A problem in units, with basic features.
pub struct Reading<'s, 'p> {
    /// The units.
    pub(crate) subject: Subject<'s, 'p>,
    /// The coarse kind of every unit: the one with most of its seconds.
    pub(crate) kind: Vec<usize>,
    /// Bytes that a unit sends to other units.
    pub(crate) sent: Vec<f64>,
    /// Edges into every unit: its predecessors.
    pub(crate) inputs: Rows,
    /// Edges out of every unit: its successors.
    pub(crate) outputs: Rows,
    /// The two ends of every edge.
    pub(crate) ends: Vec<(ClusterId, ClusterId)>,
}

impl<'s, 'p> Reading<'s, 'p> {
    /// Reads a step with at most `most_units` units if coarsening gets that far. O(operators + edges log edges).
    ///
    /// # Errors
    /// If there are more edges than 32 bits can count.
    pub fn new(instance: &'s Instance<'p>, most_units: usize) -> Result<Reading<'s, 'p>> {
        let subject = Subject::new(instance, most_units, false);
        let (graph, units) = (instance.graph(), subject.unit_count());
        let mut seconds = vec![[0.0f64; KINDS]; units];
        let mut sent = vec![0.0; units];
        for op in graph.operators() {
            let unit = subject.level().cluster_of(graph.class_of(op));
            seconds[unit.index()][coarse(graph.operator(op).kind.as_deref())] +=
                instance.mean_seconds(op) + f64::MIN_POSITIVE;
            let is_elsewhere = |tensor: &&TensorId| {
                let unit_of = |op: &_| subject.level().cluster_of(graph.class_of(*op));
                graph.consumers(**tensor).iter().any(|reader| unit_of(reader) != unit)
            };
            sent[unit.index()] +=
                graph.outputs(op).iter().filter(is_elsewhere).map(|&tensor| graph.bytes(tensor)).sum::<f64>();
        }
        let main_kind =
            |row: &[f64; KINDS]| (0..KINDS).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
        let ends: Vec<(ClusterId, ClusterId)> =
            subject.edges().iter().map(|&(from, to, _)| (from, to)).collect();
        let reversed = ends.iter().map(|&(from, to)| (to, from)).collect();
        Ok(Reading {
            kind: seconds.iter().map(main_kind).collect(),
            sent,
            inputs: rows(units, reversed)?,
            outputs: rows(units, ends.clone())?,
            ends,
            subject,
        })
    }

    /// The problem.
    pub fn problem(&self) -> &'p Problem {
        self.subject.instance().problem()
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.subject.unit_count()
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.subject.instance().device_count()
    }

    /// Mean seconds of all units, summed.
    pub(crate) fn seconds(&self) -> f64 {
        self.subject.level().ids().map(|unit| self.subject.level().mean(unit)).sum()
    }

    /// The chosen device if the unit can run there, otherwise the first that it can run on.
    pub(crate) fn instead(&self, unit: ClusterId, chosen: DeviceId) -> DeviceId {
        let capable =
            |&device: &DeviceId| device.index() < self.devices() && self.subject.can_run(unit, device);
        match capable(&chosen) {
            true => chosen,
            false => self.subject.instance().problem().cluster().devices().find(capable).unwrap_or(chosen),
        }
    }

    /// Logit penalties of absent devices: 1 × `devices`.
    pub(crate) fn not_there(&self, devices: usize) -> Result<Tensor> {
        let add = |device| if device < self.devices() { 0.0 } else { NOT_ABLE };
        Tensor::from_vec((0..devices).map(add).collect(), (1, devices), &Device::Cpu)
    }

    /// Logit penalties of devices that cannot run a unit or are absent: units × `devices`.
    pub(crate) fn incapable(&self, devices: usize) -> Result<Tensor> {
        let is_there = |unit, device| {
            device < self.devices() && self.subject.can_run(ClusterId::new(unit), DeviceId::new(device))
        };
        let add = |index: usize| if is_there(index / devices, index % devices) { 0.0 } else { NOT_ABLE };
        let figures: Vec<f32> = (0..self.units() * devices).map(add).collect();
        Tensor::from_vec(figures, (self.units(), devices), &Device::Cpu)
    }

    /// Features of the units that most systems read, units × [`FIGURES`]: kind, seconds and bytes, degrees and
    /// position.
    pub(crate) fn figures(&self) -> Result<Tensor> {
        let units = self.units();
        let level = self.subject.level();
        let seconds: Vec<f64> = level.ids().map(|unit| level.mean(unit)).collect();
        let memory: Vec<f64> = level.ids().map(|unit| level.bytes(unit)).collect();
        let mut degrees: Keyed<ClusterId, [f64; 2]> = Keyed::filled([0.0; 2], units);
        for &(from, to) in &self.ends {
            degrees[to][0] += 1.0;
            degrees[from][1] += 1.0;
        }
        let place = self.places();
        let columns = [&seconds, &self.sent, &memory].map(|column| log_share(column));
        let mut figures = Vec::with_capacity(units * FIGURES);
        for (unit, (degrees, place)) in degrees.iter().zip(place.iter()).enumerate() {
            figures.extend((0..KINDS).map(|kind| if kind == self.kind[unit] { 1.0 } else { 0.0 }));
            figures.extend(columns.iter().map(|column| column[unit]));
            figures.extend(degrees.map(|degree| (1.0 + degree).ln() as f32));
            figures.push(*place as f32 / units.max(1) as f32);
        }
        Tensor::from_vec(figures, (units, FIGURES), &Device::Cpu)
    }

    /// Position of every unit in the topological order.
    pub(crate) fn places(&self) -> Keyed<ClusterId, u32> {
        places(self.subject.order())
    }
}

/// Features of a unit.
pub(crate) const FIGURES: usize = KINDS + 6;

/// log(1 + 1000 · share of the largest), scaled to a range from 0 to 1 so that it does not drown the kinds.
fn log_share(column: &[f64]) -> Vec<f32> {
    let largest = column.iter().copied().fold(0.0, f64::max);
    let share = |value: &f64| {
        if largest > 0.0 { ((1.0 + 1e3 * value / largest).ln() / 1001f64.ln()) as f32 } else { 0.0 }
    };
    column.iter().map(share).collect()
}

/// Compressed rows from pairs of a row and an entry.
fn rows(count: usize, mut pairs: Vec<(ClusterId, ClusterId)>) -> Result<Rows> {
    pairs.sort_unstable();
    let mut offsets = Keyed::filled(0, count + 1);
    for &(row, _) in &pairs {
        offsets[row.0 + 1] += 1;
    }
    let mut offsets: Vec<u32> = offsets.into_vec();
    for row in 0..count {
        offsets[row + 1] += offsets[row];
    }
    let entries = pairs.into_iter().map(|(_, entry)| entry.0).collect();
    Rows::new(count, offsets, entries).map_err(candle_core::Error::wrap)
}
