//! Kernel fusion: operators that runtimes run in one kernel, and the cost of the kernel.
//!
//! A chain of operators that a runtime fuses is launched once and keeps its intermediate values in registers.
//! Compilers agree on the simple cases (Chen et al., "TVM", OSDI 2018, section 3, classifies operators much
//! as [`Role`] does; ONNX Runtime, XLA and TorchInductor fuse at least these):
//!
//! | kernel | operators |
//! | --- | --- |
//! | a product with an epilogue | a product, convolution or pooling, then elementwise operators: bias, activation, residual sum |
//! | rows | normalisations, softmax and sums along rows, in one piece or in primitives, with elementwise operators before, between and after |
//! | elements | elementwise operators alone |
//!
//! An operator joins the kernel of its readers if all readers of all its outputs are in that kernel, and nothing
//! outside the kernel reads them. So every kernel is left through its last operator alone: no path leaves a kernel and
//! comes back, and contracting kernels creates no cycle (a cycle of kernels would lead through their last operators,
//! which all operators of the kernels reach). A kernel has at most one product, never both a product and rows, and its
//! output is no larger than that of its product. Kernels do not mix passes of a training step, and kernels of gradients
//! stay within operators that share a device anyway: otherwise they would tie layers to one another.
//!
//! In the document, the members of a kernel share a device; tensors between them have no bytes; the product, or else
//! the first member, carries the launch and all bytes that the kernel moves. Every member keeps its FLOP.

use std::collections::BTreeMap;

use petgraph::unionfind::UnionFind;
use stagewright_core::document::{GraphDocument, Pass};

pub use stagewright_core::document::{Role, role};

/// A kernel under construction, identified by its last operator.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    has_product: bool,
    has_rows: bool,
    /// Bytes of the kernel's output.
    makes: f64,
}

/// Operators and tensors by index.
struct Net {
    /// Per operator, the tensors it makes.
    makes: Vec<Vec<usize>>,
    /// Per tensor, its readers.
    readers: Vec<Vec<usize>>,
    /// Operators in topological order.
    order: Vec<usize>,
}

impl Net {
    /// Returns `None` if the graph is invalid, which the core reports.
    fn from_graph(graph: &GraphDocument) -> Option<Net> {
        let names: BTreeMap<&str, usize> = graph
            .operators
            .iter()
            .enumerate()
            .map(|(index, operator)| (operator.name.as_str(), index))
            .collect();
        let count = graph.operators.len();
        let mut makes = vec![Vec::new(); count];
        let mut readers = Vec::with_capacity(graph.tensors.len());
        let mut awaited = vec![0_usize; count];
        for (index, tensor) in graph.tensors.iter().enumerate() {
            makes[*names.get(tensor.producer.as_str())?].push(index);
            let by: Vec<usize> = tensor
                .consumers
                .iter()
                .map(|name| names.get(name.as_str()).copied())
                .collect::<Option<_>>()?;
            by.iter().for_each(|&reader| awaited[reader] += 1);
            readers.push(by);
        }
        let mut order: Vec<usize> = (0..count).filter(|&index| awaited[index] == 0).collect();
        let mut next = 0;
        while let Some(&index) = order.get(next) {
            next += 1;
            for &reader in makes[index].iter().flat_map(|&tensor: &usize| &readers[tensor]) {
                awaited[reader] -= 1;
                if awaited[reader] == 0 {
                    order.push(reader);
                }
            }
        }
        (order.len() == count).then_some(Net { makes, readers, order })
    }
}

/// Fuses the operators of a graph by their roles. A tensor without readers is an output of the model, and a tensor that
/// is both read and an output is listed twice. Two operators for which `together` is false never share a kernel. Takes
/// time linear in operators and pins, except for sorting names.
pub fn fuse(graph: &mut GraphDocument, roles: &[Role], together: impl Fn(usize, usize) -> bool) {
    let Some(net) = Net::from_graph(graph) else { return };
    let kernel_of = kernels(graph, roles, &net, together);
    charge(graph, roles, &net, &kernel_of);
    colocate(graph, kernel_of.iter().copied().enumerate().filter(|(op, kernel)| op != kernel));
}

/// Per operator, the last operator of its kernel.
fn kernels(
    graph: &GraphDocument,
    roles: &[Role],
    net: &Net,
    together: impl Fn(usize, usize) -> bool,
) -> Vec<usize> {
    let operators = &graph.operators;
    let mut kernel_of: Vec<usize> = (0..operators.len()).collect();
    let mut kernels: Vec<Kernel> = (0..operators.len())
        .map(|op| Kernel {
            has_product: matches!(roles[op], Role::Product | Role::Window),
            has_rows: roles[op] == Role::Row,
            makes: net.makes[op].iter().map(|&tensor| graph.tensors[tensor].bytes).sum(),
        })
        .collect();
    for &op in net.order.iter().rev() {
        if matches!(roles[op], Role::Free | Role::Apart) {
            continue;
        }
        let mut last = None;
        let mut fuses = operators[op].bytes_moved.is_some();
        let mut makes = 0.0;
        for &tensor in &net.makes[op] {
            let bytes = graph.tensors[tensor].bytes;
            makes += bytes;
            fuses &= !net.readers[tensor].is_empty();
            // A view has no memory traffic.
            let reads = |reader: &&usize| bytes > 0.0 || roles[**reader] != Role::Free;
            for &reader in net.readers[tensor].iter().filter(reads) {
                fuses &= *last.get_or_insert(kernel_of[reader]) == kernel_of[reader];
            }
        }
        let Some(last) = last.filter(|_| fuses) else { continue };
        let kernel = kernels[last];
        let joins = match roles[op] {
            Role::Element | Role::Row => !kernel.has_product,
            Role::Product | Role::Window => !kernel.has_product && !kernel.has_rows && makes >= kernel.makes,
            Role::Free | Role::Apart => false,
        };
        let (first, second) = (&operators[op], &operators[last]);
        let shares = first.colocation.is_some() && first.colocation == second.colocation;
        let passes = first.pass == second.pass && (first.pass == Pass::Forward || shares);
        if joins && passes && together(op, last) && !matches!(roles[last], Role::Free | Role::Apart) {
            kernel_of[op] = last;
            kernels[last].has_product |= kernels[op].has_product;
            kernels[last].has_rows |= kernels[op].has_rows;
        }
    }
    kernel_of
}

/// Removes the bytes of tensors inside kernels, and charges every kernel one launch and the bytes that it
/// moves.
fn charge(graph: &mut GraphDocument, roles: &[Role], net: &Net, kernel_of: &[usize]) {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &op in &net.order {
        members.entry(kernel_of[op]).or_default().push(op);
    }
    let twice = read_again(graph, net, kernel_of);
    for (last, members) in members.into_iter().filter(|(_, members)| members.len() > 1) {
        let mut moved: f64 = members.iter().filter_map(|&op| graph.operators[op].bytes_moved).sum();
        moved -= twice.get(&last).copied().unwrap_or(0.0);
        for &op in members.iter().filter(|&&op| op != last) {
            for &tensor in &net.makes[op] {
                let inside = net.readers[tensor].iter().filter(|&&reader| kernel_of[reader] == last).count();
                moved -= graph.tensors[tensor].bytes * (1 + inside) as f64;
                graph.tensors[tensor].bytes = 0.0;
            }
        }
        let is_product = |&&op: &&usize| matches!(roles[op], Role::Product | Role::Window);
        let leader = members.iter().find(is_product).copied().unwrap_or(members[0]);
        for &op in &members {
            let operator = &mut graph.operators[op];
            operator.bytes_moved = Some(if op == leader { moved.max(0.0) } else { 0.0 });
            if op != leader {
                operator.launches = Some(0.0);
            }
        }
    }
}

/// Per kernel, the bytes of repeated reads: a tensor from outside with several readers in the kernel is read
/// once.
fn read_again(graph: &GraphDocument, net: &Net, kernel_of: &[usize]) -> BTreeMap<usize, f64> {
    let mut again: BTreeMap<usize, f64> = BTreeMap::new();
    let mut made_by = vec![0; graph.tensors.len()];
    for (op, tensors) in net.makes.iter().enumerate() {
        tensors.iter().for_each(|&tensor| made_by[tensor] = op);
    }
    for (tensor, readers) in net.readers.iter().enumerate() {
        let mut kernels: Vec<usize> = readers.iter().map(|&reader| kernel_of[reader]).collect();
        kernels.retain(|&kernel| kernel != kernel_of[made_by[tensor]]);
        kernels.sort_unstable();
        for pair in kernels.windows(2).filter(|pair| pair[0] == pair[1]) {
            *again.entry(pair[0]).or_default() += graph.tensors[tensor].bytes;
        }
    }
    again
}

/// Colocates pairs of operators, together with the operators that they are already colocated with. A class
/// keeps the name of its first named member, or else is named after its first member.
pub fn colocate(graph: &mut GraphDocument, pairs: impl Iterator<Item = (usize, usize)>) {
    let count = graph.operators.len();
    let mut classes = UnionFind::<usize>::new(count);
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for (index, operator) in graph.operators.iter().enumerate() {
        if let Some(name) = &operator.colocation {
            classes.union(index, *named.entry(name.clone()).or_insert(index));
        }
    }
    let mut is_member = vec![false; count];
    for (a, b) in pairs {
        classes.union(a, b);
        (is_member[a], is_member[b]) = (true, true);
    }
    let mut called: BTreeMap<usize, String> = BTreeMap::new();
    for index in 0..count {
        if let Some(name) = &graph.operators[index].colocation {
            called.entry(classes.find(index)).or_insert_with(|| name.clone());
        }
    }
    for index in (0..count).filter(|&index| is_member[index]) {
        called.entry(classes.find(index)).or_insert_with(|| graph.operators[index].name.clone());
    }
    for index in 0..count {
        graph.operators[index].colocation = called.get(&classes.find(index)).cloned();
    }
}

#[cfg(test)]
mod tests;
