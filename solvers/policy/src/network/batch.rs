//! Batching: several inputs as one graph with several components.

use candle_core::{DType, Device, Result, Tensor};
use stagewright_core::ids::{Id, Keyed};

use super::Config;
use crate::features::{DEVICE, EDGE, GRAPH, Input, PAIR, UNIT};
use crate::rows::{Rows, RowsError};

/// Attention score added to an absent key.
const NO_KEY: f32 = -1e9;

/// A batch of inputs on a device. Sizes: u units, e edges, d devices, p pairs of a unit and a device of its graph, g
/// graphs, s segments.
#[derive(Debug, Clone)]
pub struct Batch {
    pub(crate) dtype: DType,
    /// u × [`UNIT`].
    pub(crate) unit: Tensor,
    /// e × [`EDGE`].
    pub(crate) edge: Tensor,
    /// d × [`DEVICE`].
    pub(crate) device: Tensor,
    /// p × [`PAIR`].
    pub(crate) pair: Tensor,
    /// g × [`GRAPH`].
    pub(crate) graph: Tensor,
    /// Edges: the unit at each end, and 1 / √(1 + degree) of every unit by incoming and by outgoing edges (u × 1).
    pub(crate) from: Rows,
    pub(crate) to: Rows,
    pub(crate) by_inputs: Tensor,
    pub(crate) by_outputs: Tensor,
    /// Units: their graph, and the mean over the units of a graph (g × 1: 1 / number of units).
    pub(crate) graph_of_unit: Rows,
    pub(crate) units_of_graph: Rows,
    pub(crate) by_units: Tensor,
    /// Devices: the mean over the devices of a graph.
    pub(crate) devices_of_graph: Rows,
    pub(crate) by_devices: Tensor,
    /// Units: the device of each, and the mean over the units of a device (d × 1).
    pub(crate) home: Rows,
    pub(crate) at_home: Rows,
    pub(crate) by_at_home: Tensor,
    /// Pairs: their unit, their device, the pairs of every unit, and a penalty for devices that cannot run the unit
    /// (p × 1).
    pub(crate) unit_of_pair: Rows,
    pub(crate) device_of_pair: Rows,
    pub(crate) pairs_of_unit: Rows,
    pub(crate) incapable: Tensor,
    /// Attention: see [`Segments`].
    pub(crate) segments: Segments,
    /// By graph: numbers of units and devices.
    pub(crate) sizes: Vec<[usize; 2]>,
}

/// Segments of the topological orders, of equal length; slots at the end of an order may be empty.
#[derive(Debug, Clone)]
pub(crate) struct Segments {
    pub(crate) count: usize,
    /// The unit of every slot; empty rows for empty slots.
    pub(crate) unit_of_slot: Rows,
    /// The slot of every unit.
    pub(crate) slot_of_unit: Rows,
    /// The units of every summary, and the reciprocal of their number.
    pub(crate) units_of_summary: Rows,
    pub(crate) by_summary: Tensor,
    /// The summaries that every segment attends to.
    pub(crate) summary_of_key: Rows,
    /// s × 1 × 1 × keys: score added to empty slots and empty summaries.
    pub(crate) no_key: Tensor,
}

/// Offsets of a graph's units and devices within the batch.
struct Offsets {
    units: u32,
    devices: u32,
}

impl Batch {
    /// Batches inputs for a network. O(features).
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn new(inputs: &[&Input], config: &Config, dtype: DType, device: &Device) -> Result<Batch> {
        let concat = |figures_of: fn(&Input) -> &[f32], width: usize| {
            let figures: Vec<f32> =
                inputs.iter().flat_map(|input| figures_of(input).iter().copied()).collect();
            let rows = figures.len() / width;
            Tensor::from_vec(figures, (rows, width), &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
        };
        let mut offsets = Offsets { units: 0, devices: 0 };
        let (mut from, mut to, mut home) = (Vec::new(), Vec::new(), Vec::new());
        let (mut graph_of_unit, mut graph_of_device) = (Vec::new(), Vec::new());
        let (mut unit_of_pair, mut device_of_pair, mut incapable) = (Vec::new(), Vec::new(), Vec::new());
        for (graph, input) in (0..).zip(inputs) {
            from.extend(input.edges.iter().map(|edge| offsets.units + edge.0.0));
            to.extend(input.edges.iter().map(|edge| offsets.units + edge.1.0));
            home.extend(input.home.iter().map(|&home| offsets.devices + home.0));
            graph_of_unit.extend((0..input.units).map(|_| graph));
            graph_of_device.extend((0..input.devices).map(|_| graph));
            for unit in (offsets.units..).take(input.units) {
                for device in (offsets.devices..).take(input.devices) {
                    unit_of_pair.push(unit);
                    device_of_pair.push(device);
                }
            }
            incapable.extend(input.capable.iter().map(|&capable| if capable { 0.0f32 } else { -30.0 }));
            offsets.units += u32::new(input.units);
            offsets.devices += u32::new(input.devices);
        }
        let (units, devices, graphs) = (graph_of_unit.len(), graph_of_device.len(), inputs.len());
        let column = |figures: Vec<f32>| {
            let rows = figures.len();
            Tensor::from_vec(figures, (rows, 1), &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
        };
        Ok(Batch {
            dtype,
            unit: concat(|input| &input.unit, UNIT)?,
            edge: concat(|input| &input.edge, EDGE)?,
            device: concat(|input| &input.device, DEVICE)?,
            pair: concat(|input| &input.pair, PAIR)?,
            graph: concat(|input| &input.graph, GRAPH)?,
            by_inputs: column(counted(units, &to, |count| 1.0 / (1.0 + count).sqrt()))?,
            by_outputs: column(counted(units, &from, |count| 1.0 / (1.0 + count).sqrt()))?,
            from: gather(units, from)?,
            to: gather(units, to)?,
            by_units: column(counted(graphs, &graph_of_unit, one_part_in))?,
            by_devices: column(counted(graphs, &graph_of_device, one_part_in))?,
            units_of_graph: segments(graphs, &graph_of_unit)?,
            devices_of_graph: segments(graphs, &graph_of_device)?,
            graph_of_unit: gather(graphs, graph_of_unit)?,
            by_at_home: column(counted(devices, &home, one_part_in))?,
            at_home: segments(devices, &home)?,
            home: gather(devices, home)?,
            pairs_of_unit: segments(units, &unit_of_pair)?,
            unit_of_pair: gather(units, unit_of_pair)?,
            device_of_pair: gather(devices, device_of_pair)?,
            incapable: column(incapable)?,
            segments: Segments::new(inputs, config, dtype, device)?,
            sizes: inputs.iter().map(|input| [input.units, input.devices]).collect(),
        })
    }
}

impl Segments {
    fn new(inputs: &[&Input], config: &Config, dtype: DType, device: &Device) -> Result<Segments> {
        let (length, summaries) = (config.segment, config.summaries);
        let units: usize = inputs.iter().map(|input| input.units).sum();
        let (mut offsets, mut indices) = (vec![0u32], Vec::new());
        let mut slot_of_unit: Keyed<u32, u32> = Keyed::filled(0, units);
        let mut summary_of_unit = slot_of_unit.clone();
        let mut graph_of_segment = Vec::new();
        let mut first = 0;
        for (graph, input) in inputs.iter().enumerate() {
            for (position, &unit) in input.order.iter().enumerate() {
                let unit = first + unit.0;
                slot_of_unit[unit] = u32::new(offsets.len() - 1);
                // Equal spans of the order, one per summary.
                let summary = position * summaries / input.units.max(1);
                summary_of_unit[unit] = u32::new(graph * summaries + summary);
                indices.push(unit);
                offsets.push(u32::new(indices.len()));
                if position % length == 0 {
                    graph_of_segment.push(graph);
                }
            }
            while !(offsets.len() - 1).is_multiple_of(length) {
                offsets.push(u32::new(indices.len()));
            }
            first += u32::new(input.units);
        }
        let count = graph_of_segment.len();
        let counts = counted(inputs.len() * summaries, &summary_of_unit, |count| count);
        let mut no_key = Vec::with_capacity(count * (length + summaries));
        let mut summary_of_key = Vec::with_capacity(count * summaries);
        for (segment, &graph) in graph_of_segment.iter().enumerate() {
            let slots = segment * length..(segment + 1) * length;
            no_key.extend(slots.map(|slot| if offsets[slot] < offsets[slot + 1] { 0.0 } else { NO_KEY }));
            let of_graph = graph * summaries..(graph + 1) * summaries;
            no_key
                .extend(counts[of_graph.clone()].iter().map(|&count| if count > 0.0 { 0.0 } else { NO_KEY }));
            summary_of_key.extend(of_graph.map(u32::new));
        }
        let by_summary: Vec<f32> = counts.iter().map(|&count| one_part_in(count)).collect();
        let tensor = |figures: Vec<f32>, shape: &[usize]| {
            Tensor::from_vec(figures, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
        };
        Ok(Segments {
            count,
            unit_of_slot: Rows::new(units, offsets, indices).map_err(broken)?,
            slot_of_unit: gather(count * length, slot_of_unit.into_vec())?,
            units_of_summary: segments(inputs.len() * summaries, &summary_of_unit)?,
            by_summary: tensor(by_summary, &[inputs.len() * summaries, 1])?,
            summary_of_key: gather(inputs.len() * summaries, summary_of_key)?,
            no_key: tensor(no_key, &[count, 1, 1, length + summaries])?,
        })
    }
}

/// The reciprocal of a count, or 0 for 0.
fn one_part_in(count: f32) -> f32 {
    if count > 0.0 { 1.0 / count } else { 0.0 }
}

/// Applies `figure` to the number of occurrences of each index below `count`.
fn counted(count: usize, indices: &[u32], figure: impl Fn(f32) -> f32) -> Vec<f32> {
    let mut counts: Keyed<u32, f32> = Keyed::filled(0.0, count);
    for &index in indices {
        counts[index] += 1.0;
    }
    counts.iter().map(|&count| figure(count)).collect()
}

fn gather(columns: usize, indices: Vec<u32>) -> Result<Rows> {
    Rows::gather(columns, indices).map_err(broken)
}

fn segments(count: usize, segment_of: &[u32]) -> Result<Rows> {
    Rows::segments(count, segment_of).map_err(broken)
}

fn broken(error: RowsError) -> candle_core::Error {
    candle_core::Error::wrap(error)
}
