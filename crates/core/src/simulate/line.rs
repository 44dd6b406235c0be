//! Queues of the ports.

use super::clock::{above, low};
use super::queue::Queue;
use crate::ids::Keyed;

/// The ports with their queues.
#[derive(Debug, Default)]
pub(super) struct Lines {
    ports: Keyed<u32, Port>,
}

#[derive(Debug, Default)]
struct Port {
    is_held: bool,
    /// The last transfer that left the port, and the number of the instant at which it did, as one key.
    left: u64,
    /// Waiting transfers in the order of their requests. The transfer that holds the port is no longer in the queue.
    line: Queue,
}

impl Lines {
    /// Empties all queues, for `ports` ports.
    pub(super) fn reset(&mut self, ports: usize) {
        for port in self.ports.iter_mut() {
            port.is_held = false;
            port.left = 0;
            port.line.clear();
        }
        let ports = self.ports.len().max(ports);
        self.ports.resize_with(ports, Port::default);
    }

    /// Adds a transfer to the queue of a port. The queue is ordered by key.
    #[inline]
    pub(super) fn join(&mut self, port: u32, key: u64) {
        self.ports[port].line.push(key);
    }

    /// Whether a transfer is first in the queue of an idle port.
    #[inline]
    pub(super) fn is_free_for(&self, port: u32, transfer: u32) -> bool {
        self.next(port) == Some(transfer)
    }

    /// The first transfer in the queue of an idle port.
    #[inline]
    pub(super) fn next(&self, port: u32) -> Option<u32> {
        let port = &self.ports[port];
        port.line.first().filter(|_| !port.is_held).map(low)
    }

    /// Gives the port to the first transfer in its queue. Returns the key of the transfer that left the port last,
    /// which is greater for later times; zero if the port was never held.
    #[inline]
    pub(super) fn take(&mut self, port: u32) -> u64 {
        let port = &mut self.ports[port];
        port.line.pop();
        port.is_held = true;
        port.left
    }

    /// Releases a port.
    #[inline]
    pub(super) fn leave(&mut self, port: u32, instant: u32, transfer: u32) {
        let port = &mut self.ports[port];
        port.is_held = false;
        port.left = above(instant + 1, transfer);
    }
}

impl Clone for Lines {
    fn clone(&self) -> Lines {
        Lines { ports: self.ports.clone() }
    }

    /// Does not allocate if the existing memory suffices.
    fn clone_from(&mut self, from: &Lines) {
        self.ports.clone_from(&from.ports);
    }
}

impl Clone for Port {
    fn clone(&self) -> Port {
        Port { line: self.line.clone(), ..*self }
    }

    /// Does not allocate if the existing memory suffices.
    fn clone_from(&mut self, from: &Port) {
        self.is_held = from.is_held;
        self.left = from.left;
        self.line.clone_from(&from.line);
    }
}
