//! What the network reads: figures without scale.
//!
//! Every figure is a share or the logarithm of a ratio, so that a graph in milliseconds and one in hours, or on devices
//! twice as fast, are the same to it. Nothing depends on the number of devices or on the order in which devices or
//! units are listed.

pub(crate) mod kinds;
mod read;

use stagewright_core::cluster::DeviceId;

pub use read::input;

/// Version of the features: a checkpoint that was trained on others is refused.
pub const FEATURES: u32 = 1;
/// Figures of a unit.
pub const UNIT: usize = 21 + kinds::KINDS;
/// Figures of an edge.
pub const EDGE: usize = 6;
/// Figures of a device.
pub const DEVICE: usize = 9;
/// Figures of a unit and a device.
pub const PAIR: usize = 5;
/// Figures of the whole.
pub const GRAPH: usize = 10;

/// All that the network reads of one subject and a plan to improve on.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Number of units.
    pub units: usize,
    /// Number of devices.
    pub devices: usize,
    /// By unit, [`UNIT`] figures each.
    pub unit: Vec<f32>,
    /// The edges.
    pub edges: Vec<(u32, u32)>,
    /// By edge, [`EDGE`] figures each.
    pub edge: Vec<f32>,
    /// By device, [`DEVICE`] figures each.
    pub device: Vec<f32>,
    /// By unit and device, [`PAIR`] figures each.
    pub pair: Vec<f32>,
    /// [`GRAPH`] figures.
    pub graph: Vec<f32>,
    /// The device of every unit in the plan to improve on.
    pub home: Vec<u32>,
    /// Whether a unit can run on a device, by unit and device.
    pub able: Vec<bool>,
    /// The units, each after all that it reads.
    pub order: Vec<u32>,
}

impl Input {
    /// The same with units and devices renamed: `unit_to` and `device_to` say what each is called then. What a network
    /// makes of it has to be the same but for the names.
    ///
    /// # Panics
    /// Where these are no permutations.
    pub fn renamed(&self, unit_to: &[u32], device_to: &[u32]) -> Input {
        let moved = |of: &[f32], width: usize, to: &[u32]| {
            let mut moved = vec![0.0; of.len()];
            for (at, &to) in to.iter().enumerate() {
                let to = to as usize * width;
                moved[to..to + width].copy_from_slice(&of[at * width..(at + 1) * width]);
            }
            moved
        };
        let mut pair = vec![0.0; self.pair.len()];
        let mut able = vec![false; self.able.len()];
        for (unit, &unit_to) in unit_to.iter().enumerate() {
            for (device, &device_to) in device_to.iter().enumerate() {
                let from = unit * self.devices + device;
                let to = unit_to as usize * self.devices + device_to as usize;
                pair[to * PAIR..(to + 1) * PAIR].copy_from_slice(&self.pair[from * PAIR..(from + 1) * PAIR]);
                able[to] = self.able[from];
            }
        }
        let mut home = vec![0; self.units];
        for (unit, &device) in self.home.iter().enumerate() {
            home[unit_to[unit] as usize] = device_to[device as usize];
        }
        Input {
            units: self.units,
            devices: self.devices,
            unit: moved(&self.unit, UNIT, unit_to),
            edges: self.edges.iter().map(|&(a, b)| (unit_to[a as usize], unit_to[b as usize])).collect(),
            edge: self.edge.clone(),
            device: moved(&self.device, DEVICE, device_to),
            pair,
            graph: self.graph.clone(),
            home,
            able,
            order: self.order.iter().map(|&unit| unit_to[unit as usize]).collect(),
        }
    }

    /// Whether a unit can run on a device.
    pub fn is_able(&self, unit: usize, device: DeviceId) -> bool {
        self.able[unit * self.devices + device.index()]
    }
}
