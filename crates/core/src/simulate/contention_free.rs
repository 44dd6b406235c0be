//! GiPH's published simulator: transfers take time but do not contend.
//!
//! Every edge is a separate transfer, even to a reader on the same device, and takes delay + bytes · seconds per
//! byte from its sender's row to its receiver's column. Devices serve operators in the order of their requests.
//!
//! The published simulator is a set of processes that share a queue of events, ordered by time and then by the order in
//! which they were scheduled. Consequences at the same time are scheduled as well, and wait for their turn:
//!
//! 1. An operator ends. Its device is free, but the next operator does not start at once: the end first schedules
//!    "the device is free", then "the outputs are available".
//! 2. The outputs are available. Their transfers start in the order of the edges, including those without duration.
//! 3. A transfer ends, which schedules "it has arrived".
//! 4. The tensor has arrived. The last input of an operator to arrive schedules "the operator requests its device". For
//!    an operator without inputs, the start of the run schedules it.
//! 5. An operator requests its device and joins its queue.
//! 6. A device that is free when requested, or becomes free, is given to the first operator in its queue, and the start
//!    of that operator is scheduled.

use super::builder::FlowBuilder;
use super::error::{FlowError, count, known};
use super::flow::{Flow, Operator};
use super::rules::Rules;

/// A step as GiPH's simulator describes it.
#[derive(Debug, Clone, Copy)]
pub struct ContentionFree<'a> {
    /// The device of every operator.
    pub placement: &'a [u32],
    /// Seconds of every operator on its device.
    pub seconds: &'a [f64],
    /// Producer, consumer and bytes of every edge, in the order of sending.
    pub edges: &'a [(u32, u32, f64)],
    /// Seconds before the first byte, from row to column; one row and one column per device.
    pub delay: &'a [Vec<f64>],
    /// Seconds per byte, from row to column.
    pub seconds_per_byte: &'a [Vec<f64>],
}

impl ContentionFree<'_> {
    /// Returns the flow: operators as given, one tensor and one transfer per edge, no ports.
    ///
    /// # Errors
    /// If tables differ in length, if indices or values are out of range, or if there is a cycle.
    pub fn flow(&self) -> Result<Flow, FlowError> {
        let (operators, devices) = (self.seconds.len(), self.delay.len());
        count("devices of operators", self.placement.len(), operators)?;
        count("rows of seconds per byte", self.seconds_per_byte.len(), devices)?;
        for row in self.delay.iter().chain(self.seconds_per_byte) {
            count("columns of a matrix", row.len(), devices)?;
        }
        let mut flow = FlowBuilder::new(Rules::CONTENTION_FREE, devices as u32, 0, false);
        for (operator, (&device, &seconds)) in self.placement.iter().zip(self.seconds).enumerate() {
            known("device of operator", operator, device, devices)?;
            flow.operator(Operator { device, seconds, ..Operator::default() });
        }
        for (edge, &(from, to, bytes)) in self.edges.iter().enumerate() {
            for index in [from, to] {
                known("end of edge", edge, index, operators)?;
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
