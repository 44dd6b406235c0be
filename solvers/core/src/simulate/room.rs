//! Flows that are changed in place.
//!
//! Where the operators of a flow move, tensors are sent to other devices, and a compact flow would have to be
//! numbered anew. A flow with *room* has as many copies and transfers for every tensor as any placement could
//! give it, and four ports for every transfer. Those in use come first. The others have no readers, lead
//! nowhere, and are never asked for.
//!
//! So the number of a transfer is another one than in the compact flow of the same placement, but of any two
//! transfers in use the same one has the lower number: tensors are in the same order, and so are the
//! transfers of a tensor. Numbers decide ties by their order alone, so both flows run alike.

use super::builder::FlowBuilder;
use super::flow::{Copy, Flow, Tensor, Transfer};

/// Most ports on one way, as in [`Route`](super::Route).
const PORTS: u32 = 4;

impl Transfer {
    /// One that is not in use.
    fn unused(tensor: u32, Tensor { producer, home, .. }: Tensor) -> Transfer {
        let none = [home; 2];
        Transfer { tensor, producer, home, copies: none, ports: [0; 2], seconds: 0.0, gap: 0.0 }
    }
}

impl FlowBuilder {
    /// Leaves room for so many transfers of the tensor added last, each with one copy, among them those that
    /// it has. All tensors before it have to have been given room.
    pub(super) fn leave_room(&mut self, transfers: usize) {
        let flow = &mut self.flow;
        let number = flow.tensors.len() as u32 - 1;
        let tensor = flow.tensors[number as usize];
        let count = tensor.transfers[0] as usize + transfers;
        debug_assert!(flow.transfers.len() <= count, "more transfers than were foreseen");
        flow.transfers.resize(count, Transfer::unused(number, tensor));
        flow.ports.resize(count * PORTS as usize, 0);
        let last = tensor.home as usize + 1 + transfers;
        let first_reader = flow.readers.len() as u32;
        let bytes = flow.copies[tensor.home as usize].bytes;
        flow.copies.resize(last, Copy { device: 0, first_reader, bytes });
    }
}

impl Flow {
    /// Writes a tensor of a flow with room anew: with the copies and transfers of the only tensor that `by`
    /// has, which has the same readers. Takes O(room + readers log inputs of a reader).
    pub(super) fn replace(&mut self, tensor: u32, by: &FlowBuilder) {
        let by = &by.flow;
        let [about, next] = [0, 1].map(|at| self.tensors[tensor as usize + at]);
        let first_transfer = about.transfers[0];
        let [first_reader, last_reader] = [about, next].map(|at| self.copies[at.home as usize].first_reader);
        self.readers[first_reader as usize..last_reader as usize].copy_from_slice(&by.readers);

        let copies = about.home as usize..next.home as usize;
        let written = by.copies.iter().map(|copy| {
            let first_reader = first_reader + copy.first_reader;
            Copy { first_reader, ..*copy }
        });
        let bytes = self.copies[about.home as usize].bytes;
        let unused = Copy { device: 0, first_reader: last_reader, bytes };
        for (copy, by) in self.copies[copies].iter_mut().zip(written.chain(std::iter::repeat(unused))) {
            *copy = by;
        }
        for copy in about.home..next.home {
            let readers = [0, 1].map(|at| self.copies[(copy + at) as usize].first_reader);
            self.holds[copy as usize] = readers[1] - readers[0];
            for &reader in &self.readers[readers[0] as usize..readers[1] as usize] {
                // Inputs are in the order of tensors.
                let inputs = self.inputs.row_mut(reader as usize);
                let at = inputs.partition_point(|&input| input < about.home);
                inputs[at] = copy;
            }
        }
        self.holds[about.home as usize] += self.holds_at_home(tensor, by.transfers.len() as u32);

        let first_port = first_transfer * PORTS;
        self.ports[first_port as usize..][..by.ports.len()].copy_from_slice(&by.ports);
        let written = by.transfers.iter().map(|transfer| Transfer {
            tensor,
            home: about.home,
            copies: transfer.copies.map(|copy| copy + about.home),
            ports: transfer.ports.map(|port| port + first_port),
            ..*transfer
        });
        let all = written.chain(std::iter::repeat(Transfer::unused(tensor, about)));
        let last = self.room_of(tensor)[1] as usize;
        for (transfer, by) in self.transfers[first_transfer as usize..last].iter_mut().zip(all) {
            *transfer = by;
        }
        let about = &mut self.tensors[tensor as usize];
        self.events -= about.transfers[1] - first_transfer;
        self.events += by.transfers.len() as u32;
        about.transfers[1] = first_transfer + by.transfers.len() as u32;
        about.announced = by.tensors[0].announced;
    }

    /// The transfers that there is room for, of a tensor of a flow with room.
    fn room_of(&self, tensor: u32) -> [u32; 2] {
        [0, 1].map(|at| self.tensors[tensor as usize + at].transfers[0])
    }

    /// The transfers of a tensor that are not in use.
    pub(super) fn unused_of(&self, tensor: u32) -> std::ops::Range<u32> {
        self.tensors[tensor as usize].transfers[1]..self.room_of(tensor)[1]
    }
}
