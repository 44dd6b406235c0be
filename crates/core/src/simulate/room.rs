//! In-place changes of flows.
//!
//! When operators of a flow move, tensors are sent to other devices, and a compact flow would have to be renumbered. A
//! flow with *room* reserves as many copies and transfers per tensor as any placement could require, and four ports per
//! transfer. Those in use come first. The others have no readers and no destinations, and are never requested.
//!
//! So the number of a transfer is not the one in the compact flow of the same placement, but any two transfers in use
//! have the same order in both flows: tensors are in the same order, and so are the transfers of each tensor. Ties
//! depend only on the order of numbers, so both flows run identically.

use super::builder::FlowBuilder;
use super::flow::{Copy, Flow, Tensor, Transfer};

/// Maximum number of ports on a route, as in [`Route`](super::Route).
const PORTS: u32 = 4;

impl Transfer {
    /// A transfer that is not in use.
    fn unused(tensor: u32, Tensor { producer, home, .. }: Tensor) -> Transfer {
        let none = [home; 2];
        Transfer { tensor, producer, home, copies: none, ports: [0; 2], seconds: 0.0, gap: 0.0 }
    }
}

impl FlowBuilder {
    /// Reserves room for `transfers` transfers of the tensor added last, including its existing ones, each with one
    /// copy. All earlier tensors must already have room.
    pub(super) fn leave_room(&mut self, transfers: usize) {
        let flow = &mut self.flow;
        let number = flow.tensors.ids().next_back().expect("room is for the tensor added last");
        let tensor = flow.tensors[number];
        let count = tensor.transfers[0] as usize + transfers;
        debug_assert!(flow.transfers.len() <= count, "more transfers than were foreseen");
        flow.transfers.resize(count, Transfer::unused(number, tensor));
        flow.ports.resize(count * PORTS as usize, 0);
        let last = tensor.home as usize + 1 + transfers;
        let first_reader = flow.readers.next_id();
        let bytes = flow.copies[tensor.home].bytes;
        flow.copies.resize(last, Copy { device: 0, first_reader, bytes });
    }
}

impl Flow {
    /// Rewrites a tensor of a flow with room: it gets the copies and transfers of the only tensor of `by`, which has
    /// the same readers. Takes O(room + readers · log inputs of a reader).
    pub(super) fn replace(&mut self, tensor: u32, by: &FlowBuilder) {
        let by = &by.flow;
        let [about, next] = [tensor, tensor + 1].map(|index| self.tensors[index]);
        let first_transfer = about.transfers[0];
        let [first_reader, last_reader] = [about, next].map(|range| self.copies[range.home].first_reader);
        self.readers.range_mut([first_reader, last_reader]).copy_from_slice(&by.readers);

        let written = by.copies.iter().map(|copy| {
            let first_reader = first_reader + copy.first_reader;
            Copy { first_reader, ..*copy }
        });
        let bytes = self.copies[about.home].bytes;
        let unused = Copy { device: 0, first_reader: last_reader, bytes };
        for (copy, by) in self
            .copies
            .range_mut([about.home, next.home])
            .iter_mut()
            .zip(written.chain(std::iter::repeat(unused)))
        {
            *copy = by;
        }
        for copy in about.home..next.home {
            let readers = [copy, copy + 1].map(|index| self.copies[index].first_reader);
            self.holds[copy] = readers[1] - readers[0];
            for &reader in self.readers.range(readers) {
                // Inputs are sorted by tensor.
                let inputs = self.inputs.row_mut(reader);
                let place = inputs.partition_point(|&input| input < about.home);
                inputs[place] = copy;
            }
        }
        let transfers = by.transfers.next_id();
        self.holds[about.home] += self.holds_at_home(tensor, transfers);

        let first_port = first_transfer * PORTS;
        self.ports.range_mut([first_port, first_port + by.ports.next_id()]).copy_from_slice(&by.ports);
        let written = by.transfers.iter().map(|transfer| Transfer {
            tensor,
            home: about.home,
            copies: transfer.copies.map(|copy| copy + about.home),
            ports: transfer.ports.map(|port| port + first_port),
            ..*transfer
        });
        let all = written.chain(std::iter::repeat(Transfer::unused(tensor, about)));
        for (transfer, by) in self.transfers.range_mut(self.room_of(tensor)).iter_mut().zip(all) {
            *transfer = by;
        }
        let about = &mut self.tensors[tensor];
        self.events -= about.transfers[1] - first_transfer;
        self.events += transfers;
        about.transfers[1] = first_transfer + transfers;
        about.announced = by.tensors[0].announced;
    }

    /// Range of the transfers reserved for a tensor of a flow with room.
    fn room_of(&self, tensor: u32) -> [u32; 2] {
        [tensor, tensor + 1].map(|index| self.tensors[index].transfers[0])
    }

    /// Range of a tensor's reserved transfers that are not in use.
    pub(super) fn unused_of(&self, tensor: u32) -> std::ops::Range<u32> {
        self.tensors[tensor].transfers[1]..self.room_of(tensor)[1]
    }
}
