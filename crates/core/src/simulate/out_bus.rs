//! Placeto's published simulator: one outgoing bus per device, and no port for incoming tensors.
//!
//! A tensor is one output of an operator. It occupies the bus of its device once, however many devices read it, and
//! reaches all of them after the time bytes / bandwidth; the bus is free again after a further gap. When an operator
//! ends, its outputs with readers on other devices request the bus, in the order in which they first appear among the
//! edges that leave the device. A device pauses for a launch gap after each operator of non-zero cost. Queues and buses
//! are first in, first out. At one instant, arrivals take effect first, ordered by producer; then buses start, then
//! operators, each ordered by device. The makespan includes the last gap.

use super::builder::FlowBuilder;
use super::error::{FlowError, count, known};
use super::flow::{Flow, Operator};
use super::rules::Rules;

/// A step as Placeto's simulator describes it. Seconds may be any unit of time that the gaps and the
/// bandwidth share.
#[derive(Debug, Clone, Copy)]
pub struct OutBus<'a> {
    /// Number of devices.
    pub devices: u32,
    /// The device of every operator.
    pub placement: &'a [u32],
    /// The cost of every operator.
    pub seconds: &'a [f64],
    /// Bytes of every operator's outputs.
    pub output_bytes: &'a [Vec<f64>],
    /// Producer, consumer, and index of the producer's output that the consumer reads. If two edges join the same
    /// operators, the output of the last edge counts, at the position of the first.
    pub edges: &'a [(u32, u32, u32)],
    /// Pause of a device after an operator of non-zero cost.
    pub launch_gap: f64,
    /// Gap of a bus after each tensor.
    pub bus_gap: f64,
    /// The bandwidth of every bus.
    pub bytes_per_second: f64,
}

impl OutBus<'_> {
    /// Returns the flow. Operators are as given, tensors and transfers are ordered by device and operator, and each
    /// device has one port.
    ///
    /// # Errors
    /// If tables differ in length, if indices or values are out of range, or if there is a cycle.
    pub fn flow(&self) -> Result<Flow, FlowError> {
        let operators = self.seconds.len();
        count("devices of operators", self.placement.len(), operators)?;
        count("lists of outputs", self.output_bytes.len(), operators)?;
        let mut flow = FlowBuilder::new(Rules::OUT_BUS, self.devices, self.devices, false);
        for (&device, &seconds) in self.placement.iter().zip(self.seconds) {
            let pause = if seconds == 0.0 { 0.0 } else { self.launch_gap };
            flow.operator(Operator { device, seconds, pause, ..Operator::default() });
        }
        let edges = self.edges_by_operator()?;
        // Buses that can start at the same instant start in the order of devices, so transfers are numbered by device.
        let mut by_device: Vec<usize> = (0..operators).collect();
        by_device.sort_by_key(|&op| self.placement[op]);
        for op in by_device {
            self.add_outputs(&mut flow, op, &edges[op])?;
        }
        flow.finish()
    }

    /// Consumer and output of the edges of each operator, at most one per consumer.
    fn edges_by_operator(&self) -> Result<Vec<Vec<(u32, u32)>>, FlowError> {
        let operators = self.seconds.len();
        let mut edges: Vec<Vec<(u32, u32)>> = vec![Vec::new(); operators];
        // Indices of the edges; sorting makes edges of the same pair adjacent.
        let mut order: Vec<usize> = (0..self.edges.len()).collect();
        for (edge, &(from, to, _)) in self.edges.iter().enumerate() {
            for index in [from, to] {
                known("end of edge", edge, index, operators)?;
            }
        }
        let pair = |edge: usize| (self.edges[edge].0, self.edges[edge].1);
        order.sort_by_key(|&edge| (pair(edge), edge));
        let same: Vec<(usize, usize)> =
            order.chunk_by(|&a, &b| pair(a) == pair(b)).map(|same| (same[0], same[same.len() - 1])).collect();
        let mut kept = vec![None; self.edges.len()];
        for (first, last) in same {
            kept[first] = Some(self.edges[last].2);
        }
        for (&(from, to, _), output) in self.edges.iter().zip(kept) {
            edges[from as usize].extend(output.map(|output| (to, output)));
        }
        Ok(edges)
    }

    fn add_outputs(&self, flow: &mut FlowBuilder, op: usize, edges: &[(u32, u32)]) -> Result<(), FlowError> {
        let home = self.placement[op];
        let mut seen = vec![false; self.output_bytes[op].len()];
        // An output requests the bus at the position of its first reader on another device, or not at all if there is
        // no such reader.
        let (stay, leave): (Vec<_>, Vec<_>) =
            edges.iter().partition(|edge| self.placement[edge.0 as usize] == home);
        for (_, output) in leave.into_iter().chain(stay) {
            known("output read of operator", op, output, seen.len())?;
            let place = output as usize;
            if std::mem::replace(&mut seen[place], true) {
                continue;
            }
            let bytes = self.output_bytes[op][place];
            let mut readers: Vec<(u32, u32)> = edges
                .iter()
                .filter(|edge| edge.1 == output)
                .map(|&(to, _)| (self.placement[to as usize], to))
                .collect();
            readers.sort_unstable();
            let at_home = readers.iter().filter(|reader| reader.0 == home).map(|reader| reader.1);
            flow.tensor(op as u32, bytes, at_home);
            readers.retain(|reader| reader.0 != home);
            if !readers.is_empty() {
                flow.transfer(bytes / self.bytes_per_second, self.bus_gap, [home]);
                for there in readers.chunk_by(|a, b| a.0 == b.0) {
                    flow.copy(there[0].0, there.iter().map(|reader| reader.1));
                }
            }
        }
        Ok(())
    }
}
