//! The published simulator of GiPH: transfers take their time and hinder nothing.
//!
//! Every edge is sent on its own, also to a reader on the same device, and takes delay + bytes · seconds per
//! byte from its sender's row to its receiver's column. Queues serve first what was ready first; of what
//! became ready at one time, that whose last input was sent first. A device that finishes an operator starts
//! the next one that waits before the outputs of the finished one are sent, which they are in the order of
//! the edges.

use super::builder::FlowBuilder;
use super::error::{FlowError, count};
use super::flow::{Flow, Operator};
use super::rules::Rules;

/// A step in the terms of GiPH's simulator.
#[derive(Debug, Clone, Copy)]
pub struct ContentionFree<'a> {
    /// The device of every operator.
    pub placement: &'a [u32],
    /// Seconds of every operator on its device.
    pub seconds: &'a [f64],
    /// Producer, consumer and bytes, in the order of sending.
    pub edges: &'a [(u32, u32, f64)],
    /// Seconds before the first byte, from row to column; a row and a column for every device.
    pub delay: &'a [Vec<f64>],
    /// Seconds per byte, from row to column.
    pub seconds_per_byte: &'a [Vec<f64>],
}

impl ContentionFree<'_> {
    /// Its flow: operators as given, a tensor and a transfer for every edge, no ports.
    ///
    /// # Errors
    /// Tables of different lengths, indices of nothing, figures out of range, cycles.
    pub fn flow(&self) -> Result<Flow, FlowError> {
        let (operators, devices) = (self.seconds.len(), self.delay.len());
        count("devices of operators", self.placement.len(), operators)?;
        count("rows of seconds per byte", self.seconds_per_byte.len(), devices)?;
        for row in self.delay.iter().chain(self.seconds_per_byte) {
            count("columns of a matrix", row.len(), devices)?;
        }
        let mut flow = FlowBuilder::new(Rules::CONTENTION_FREE, devices as u32, 0, false);
        for (at, (&device, &seconds)) in self.placement.iter().zip(self.seconds).enumerate() {
            if device as usize >= devices {
                return Err(FlowError::Unknown {
                    what: "device of operator",
                    at,
                    index: device,
                    count: devices,
                });
            }
            flow.operator(Operator { device, seconds, ..Operator::default() });
        }
        for (at, &(from, to, bytes)) in self.edges.iter().enumerate() {
            for index in [from, to] {
                if index as usize >= operators {
                    return Err(FlowError::Unknown { what: "end of edge", at, index, count: operators });
                }
            }
            let [home, there] = [from, to].map(|op| self.placement[op as usize]);
            flow.tensor(from, bytes, (home == there).then_some(to));
            let (row, column) = (home as usize, there as usize);
            let seconds = self.delay[row][column] + bytes * self.seconds_per_byte[row][column];
            flow.transfer(seconds, 0.0, []);
            match home == there {
                true => flow.announce(),
                false => flow.copy(there, [to]),
            }
        }
        flow.finish()
    }
}
