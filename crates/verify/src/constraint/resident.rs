//! Bytes on a device, by the rules of the graph's version.
//!
//! In version 1 a device holds the sum of the bytes that its operators declare. In version 2 it runs its operators one
//! by one, forward operators first, producers before consumers, otherwise in document order. It holds parameters,
//! optimiser state and shared parameters throughout; a tensor from its first pin on the device to its last, or to the
//! end if nothing reads it; and workspace while its operator runs. Further microbatches in flight hold the tensors that
//! wait for the backward pass.
//!
//! The bytes at each moment are computed from the tensors alone.

use std::collections::BTreeSet;

use stagewright_core::document::Pass;

use crate::read::Graph;

/// Bytes of a device, by multiplicity.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Resident {
    /// Bytes counted once.
    fixed: f64,
    /// Bytes per microbatch in flight.
    declared: f64,
    /// Bytes per microbatch in flight except the running one.
    waiting: f64,
    /// Peak bytes of the running microbatch.
    running: f64,
    /// Bytes of the parameters whose gradients replicas synchronise.
    pub(crate) synchronised: f64,
}

impl Resident {
    /// Bytes of the given operators, ascending, on their device. O(pins of their tensors + operators · held tensors).
    pub(crate) fn new(graph: &Graph, operators: &[usize]) -> Resident {
        let mut resident = Resident::default();
        for &operator in operators {
            let document = &graph.operators[operator];
            resident.fixed += document.parameter_bytes + document.optimizer_bytes;
            resident.declared += document.activation_bytes;
            if !graph.is_version_2 {
                resident.fixed += document.workspace_bytes;
            }
            if !graph.is_version_2 || graph.has_backward {
                resident.synchronised += document.parameter_bytes;
            }
        }
        if graph.is_version_2 {
            resident.share(graph, operators);
            resident.work_through(graph, operators);
        }
        resident
    }

    /// Total bytes with the given number of microbatches in flight.
    pub(crate) fn total(&self, microbatches: f64) -> f64 {
        self.fixed + microbatches * self.declared + ((microbatches - 1.0) * self.waiting + self.running)
    }

    fn share(&mut self, graph: &Graph, operators: &[usize]) {
        for parameter in &graph.parameters {
            if parameter.readers.iter().any(|reader| operators.binary_search(reader).is_ok()) {
                self.fixed += parameter.document.bytes + parameter.document.optimizer_bytes;
                if parameter.document.trained && graph.has_backward {
                    self.synchronised += parameter.document.bytes;
                }
            }
        }
    }

    fn work_through(&mut self, graph: &Graph, operators: &[usize]) {
        let mut order: Vec<usize> = operators.to_vec();
        order.sort_by_key(|&operator| graph.work_place[operator]);
        let place = |operator: usize| {
            let found = order.binary_search_by_key(&graph.work_place[operator], |&it| graph.work_place[it]);
            found.ok().filter(|&position| order[position] == operator)
        };
        let touched: BTreeSet<usize> =
            order.iter().flat_map(|&operator| &graph.tensors_of[operator]).copied().collect();
        let mut arrives: Vec<Vec<f64>> = vec![Vec::new(); order.len()];
        let mut leaves: Vec<Vec<f64>> = vec![Vec::new(); order.len()];
        for tensor in touched.into_iter().map(|tensor| &graph.tensors[tensor]) {
            let bytes = tensor.document.bytes;
            let here: Vec<usize> = tensor.pins().filter_map(place).collect();
            let first = here.iter().copied().min().unwrap_or(0);
            let last = match tensor.consumers.is_empty() {
                true => order.len() - 1,
                false => here.iter().copied().max().unwrap_or(0),
            };
            arrives[first].push(bytes);
            leaves[last].push(bytes);
            let is_later =
                |&operator: &usize| graph.pass(operator) != Pass::Forward && place(operator).is_some();
            if graph.pass(tensor.producer) == Pass::Forward && tensor.consumers.iter().any(is_later) {
                self.waiting += bytes;
            }
        }
        let mut held = 0.0;
        for (position, &operator) in order.iter().enumerate() {
            held += arrives[position].iter().sum::<f64>();
            self.running = self.running.max(held + graph.operators[operator].workspace_bytes);
            held -= leaves[position].iter().sum::<f64>();
        }
    }
}
