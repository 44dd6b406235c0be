//! The lines before the ports.

use super::clock::above;
use super::queue::Queue;

/// The ports, each with its line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    ports: Vec<Port>,
}

#[derive(Debug, Default)]
struct Port {
    is_held: bool,
    /// When somebody left the port last, by the number of the instant, and who.
    left: u64,
    /// Those who wait, by their requests. Who holds the port has left the line.
    line: Queue,
}

impl Lines {
    /// Empties all lines, for so many ports.
    pub(super) fn reset(&mut self, ports: usize) {
        for port in &mut self.ports {
            port.is_held = false;
            port.left = 0;
            port.line.clear();
        }
        self.ports.resize_with(self.ports.len().max(ports), Port::default);
    }

    /// A transfer joins a line behind all whose keys are lower.
    #[inline]
    pub(super) fn join(&mut self, port: u32, key: u64) {
        self.ports[port as usize].line.push(key);
    }

    /// Whether a transfer is first in line at a port that carries no other.
    #[inline]
    pub(super) fn is_free_for(&self, port: u32, transfer: u32) -> bool {
        self.next(port) == Some(transfer)
    }

    /// The first in line at a port that carries nothing.
    #[inline]
    pub(super) fn next(&self, port: u32) -> Option<u32> {
        let port = &self.ports[port as usize];
        port.line.first().filter(|_| !port.is_held).map(|key| key as u32)
    }

    /// The first in line takes the port. Returns when it was left last and by whom, later times being
    /// greater; zero where nobody held it before.
    #[inline]
    pub(super) fn take(&mut self, port: u32) -> u64 {
        let port = &mut self.ports[port as usize];
        port.line.pop();
        port.is_held = true;
        port.left
    }

    /// A transfer leaves a port.
    #[inline]
    pub(super) fn leave(&mut self, port: u32, instant: u32, transfer: u32) {
        let port = &mut self.ports[port as usize];
        port.is_held = false;
        port.left = above(instant + 1, transfer);
    }
}

impl Clone for Lines {
    fn clone(&self) -> Lines {
        Lines { ports: self.ports.clone() }
    }

    /// Allocates nothing where there was as much.
    fn clone_from(&mut self, from: &Lines) {
        self.ports.clone_from(&from.ports);
    }
}

impl Clone for Port {
    fn clone(&self) -> Port {
        Port { line: self.line.clone(), ..*self }
    }

    /// Allocates nothing where there was as much.
    fn clone_from(&mut self, from: &Port) {
        self.is_held = from.is_held;
        self.left = from.left;
        self.line.clone_from(&from.line);
    }
}
