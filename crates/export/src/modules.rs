//! Modules: the tree of operator paths, and the smallest set of its nodes that determines every device.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::graph::OpId;

use super::error::{ExportError, Result};
use super::layers::{addressable, parts};
use super::paths::Paths;
use super::placed::Placed;

/// A module with its device; the root of the model has the empty path.
pub type Assigned = (String, usize);

/// The topmost modules that are on one device each, in order of first appearance. Inputs of the model are not
/// modules. A module on several devices runs its own operators where their inputs are, so these must have no
/// parameters and be on the device of all that they read. Inputs of the model go to the first device that is not a
/// host.
///
/// Modules that no operator runs and that the model keeps beside others, such as those of shared parameters, are
/// with the first operator that reads them. So that every parameter has a device, weights of what goes with the kernel
/// of another layer are where it runs, unless a module that holds them has a device.
///
/// Takes time O(operators · length of a path · log operators).
///
/// # Errors
/// If the modules cannot express the plan (E010 to E013, E018 and E021).
pub fn assigned(placed: &Placed, paths: &Paths, runtime: &'static str) -> Result<Vec<Assigned>> {
    let homes = placed.homes()?;
    let data: Vec<bool> = (0..placed.operators.len()).map(|at| placed.is_input(at)).collect();
    let mut tree: BTreeMap<&str, Node> = BTreeMap::new();
    let mut root = Node::default();
    for (at, &home) in homes.iter().enumerate().filter(|&(at, _)| !data[at]) {
        let device = placed.operators[at].device;
        root.hold(device);
        for part in paths.all(home).iter().flat_map(|module| parts(module)) {
            tree.entry(part).or_default().hold(device);
        }
    }
    if let Some(device) = root.only() {
        return Ok(vec![(String::new(), device)]);
    }
    let mut found: Vec<Assigned> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut loose: Vec<(usize, usize)> = Vec::new();
    for (at, &home) in homes.iter().enumerate().filter(|&(at, _)| !data[at]) {
        for module in paths.all(home) {
            match parts(module).find_map(|part| tree[part].only().map(|device| (part, device))) {
                Some((part, device)) => {
                    if seen.insert(part) {
                        addressable(runtime, part)?;
                        found.push((part.to_owned(), device));
                    }
                }
                None => loose.push((at, home)),
            }
        }
    }
    let main = found.iter().map(|&(_, device)| device).find(|&device| !placed.devices[device].host);
    for (at, home) in loose {
        check_loose(placed, at, home, main, paths)?;
    }
    for (module, device) in beside(placed, paths, &tree) {
        let covered = parts(&module).any(|part| seen.contains(part));
        let divided = tree.contains_key(module.as_str());
        if !covered && !divided && !found.iter().any(|(known, _)| *known == module) {
            addressable(runtime, &module)?;
            found.push((module, device));
        }
    }
    Ok(found)
}

/// Modules that no operator runs, with their devices.
fn beside(placed: &Placed, paths: &Paths, tree: &BTreeMap<&str, Node>) -> Vec<Assigned> {
    let published = paths.published.map_or(&[][..], |published| published.beside);
    let published =
        published.iter().filter_map(|(module, with)| Some(((*module).to_owned(), tree.get(with)?.only()?)));
    let devices: BTreeMap<&str, usize> =
        placed.operators.iter().map(|operator| (operator.name, operator.device)).collect();
    // The parameter names of a workload are not modules of the published checkpoint.
    let shared = placed.graph.filter(|_| paths.published.is_none());
    let shared = shared.map_or(&[][..], |graph| &graph.document().parameters);
    let shared = shared.iter().filter_map(|parameter| {
        let (module, _) = parameter.name.rsplit_once('.')?;
        let device = parameter.readers.iter().find_map(|reader| devices.get(reader.as_str()))?;
        // A module inside a listed module is covered by it, unless that one is divided.
        Some((module.to_owned(), *device))
    });
    let passed_over = paths.passed_over().filter_map(|(at, module)| {
        let operator = &placed.operators[at];
        (operator.document?.parameter_bytes > 0.0).then(|| (module.to_owned(), operator.device))
    });
    published.chain(shared).chain(passed_over).collect()
}

/// The devices of a module's contents, reduced to one of them and whether there are several.
#[derive(Debug, Default, Clone, Copy)]
struct Node {
    device: Option<usize>,
    several: bool,
}

impl Node {
    fn hold(&mut self, device: usize) {
        self.several |= self.device.is_some_and(|known| known != device);
        self.device = Some(device);
    }

    /// The device, if there is only one.
    fn only(self) -> Option<usize> {
        self.device.filter(|_| !self.several)
    }
}

/// Checks that an operator of a module on several devices still runs on its device in the plan. `main` is the device
/// that receives the inputs of the model.
fn check_loose(placed: &Placed, at: usize, home: usize, main: Option<usize>, paths: &Paths) -> Result<()> {
    let operator = &placed.operators[at];
    let loose = |why| {
        let module = paths.first(home).to_owned();
        let same = |&other: &usize| {
            paths.first(other) == module && placed.operators[other].device != operator.device
        };
        Err(match (0..placed.operators.len()).find(same) {
            Some(other) => ExportError::Cut {
                layer: module,
                left: Box::new(placed.sited(operator)),
                right: Box::new(placed.sited(&placed.operators[other])),
            },
            None => ExportError::Loose { module, operator: placed.sited(operator), why },
        })
    };
    let (Some(graph), Some(document)) = (placed.graph, operator.document) else {
        return loose("and without the model, the devices of its inputs are unknown");
    };
    // It runs on the device of its forward operator.
    if at != home {
        return Ok(());
    }
    if document.parameter_bytes > 0.0 {
        return loose("and it has parameters");
    }
    let read = graph.predecessors(OpId::new(at));
    if read.is_empty() && main != Some(operator.device) {
        return loose("and it has no input whose device it could follow");
    }
    match read.iter().all(|from| placed.operators[from.index()].device == operator.device) {
        true => Ok(()),
        false => loose("and it has an input on another device"),
    }
}
