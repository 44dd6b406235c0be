//! The lines before the ports.
//!
//! Requests come in the order of time, so a line is a queue. Only requests of one instant may have to pass
//! each other.

use std::collections::VecDeque;

use super::clock::above;

/// The lines of all ports.
#[derive(Debug, Default)]
pub(super) struct Lines {
    ports: Vec<Port>,
    /// Those who wait, by their requests. Who holds the port has left the line.
    waiting: Vec<VecDeque<u64>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Port {
    is_held: bool,
    /// When somebody left the port last, by the number of the instant, and who.
    left: u64,
}

impl Lines {
    /// Empties all lines, for so many ports.
    pub(super) fn reset(&mut self, ports: usize) {
        self.ports.clear();
        self.ports.resize(ports, Port::default());
        self.waiting.iter_mut().for_each(VecDeque::clear);
        self.waiting.resize_with(self.waiting.len().max(ports), VecDeque::new);
    }

    /// A transfer joins a line behind all whose keys are lower.
    #[inline]
    pub(super) fn join(&mut self, port: u32, key: u64) {
        let line = &mut self.waiting[port as usize];
        if line.back().is_some_and(|&last| last > key) {
            let at = line.partition_point(|&waiting| waiting < key);
            line.insert(at, key);
        } else {
            line.push_back(key);
        }
    }

    /// The first in line.
    #[inline]
    pub(super) fn first(&self, port: u32) -> Option<u32> {
        self.waiting[port as usize].front().map(|&key| key as u32)
    }

    /// Whether a transfer is first in line at a port that carries no other.
    #[inline]
    pub(super) fn is_free_for(&self, port: u32, transfer: u32) -> bool {
        !self.ports[port as usize].is_held && self.first(port) == Some(transfer)
    }

    /// The first in line takes the port. Returns when it was left last and by whom, later times being
    /// greater; zero where nobody held it before.
    #[inline]
    pub(super) fn take(&mut self, port: u32) -> u64 {
        self.waiting[port as usize].pop_front();
        let port = &mut self.ports[port as usize];
        port.is_held = true;
        port.left
    }

    /// A transfer leaves a port.
    #[inline]
    pub(super) fn leave(&mut self, port: u32, instant: u32, transfer: u32) {
        self.ports[port as usize] = Port { is_held: false, left: above(instant + 1, transfer) };
    }
}

impl Clone for Lines {
    fn clone(&self) -> Lines {
        Lines { ports: self.ports.clone(), waiting: self.waiting.clone() }
    }

    /// Allocates nothing where there was as much.
    fn clone_from(&mut self, from: &Lines) {
        self.ports.clone_from(&from.ports);
        self.waiting.clone_from(&from.waiting);
    }
}
