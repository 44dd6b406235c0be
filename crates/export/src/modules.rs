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
/// Every parameter has a device. Those that the model lists are with the first operator that reads them, in the topmost
/// module all of whose contents are there, or by their own name: a table that a divided module or the root holds itself.
/// Weights of what goes with the kernel of another layer are where it runs, unless a module that holds them has a device.
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
    let mut map = Map { runtime, found: Vec::new(), names: BTreeSet::new() };
    let mut loose: Vec<(usize, usize)> = Vec::new();
    for (at, &home) in homes.iter().enumerate().filter(|&(at, _)| !data[at]) {
        for module in paths.all(home) {
            match parts(module).find_map(|part| tree[part].only().map(|device| (part, device))) {
                Some((part, device)) => map.add(part, device)?,
                None => loose.push((at, home)),
            }
        }
    }
    let main = map.found.iter().map(|&(_, device)| device).find(|&device| !placed.devices[device].host);
    for (at, home) in loose {
        check_loose(placed, at, home, main, paths)?;
    }
    for (module, device) in beside(paths, &tree) {
        map.add(module, device)?;
    }
    let held = held(placed, paths, &map, &tree)?;
    for &(name, device) in &held {
        parts(name).for_each(|part| tree.entry(part).or_default().hold(device));
    }
    for (name, device) in held {
        let whole = parts(name).find(|part| tree[part].only().is_some());
        map.add(whole.unwrap_or(name), device)?;
    }
    Ok(map.found)
}

/// The modules and tensors found so far, none inside another.
struct Map {
    runtime: &'static str,
    found: Vec<Assigned>,
    names: BTreeSet<String>,
}

impl Map {
    fn has(&self, name: &str) -> bool {
        parts(name).any(|part| self.names.contains(part))
    }

    /// Adds a module or a tensor, unless it is in one that is there.
    fn add(&mut self, name: &str, device: usize) -> Result<()> {
        if !self.has(name) {
            addressable(self.runtime, name)?;
            self.names.insert(name.to_owned());
            self.found.push((name.to_owned(), device));
        }
        Ok(())
    }
}

/// Modules of a published model that no operator runs, with their devices.
fn beside(paths: &Paths, tree: &BTreeMap<&str, Node>) -> Vec<(&'static str, usize)> {
    let published = paths.published.map_or(&[][..], |published| published.beside);
    published.iter().filter_map(|(module, with)| Some((*module, tree.get(with)?.only()?))).collect()
}

/// What no module of the map holds: parameters of the model by name, each with the device of its first reader, and
/// modules of weights that go with the kernel of another layer. The parameter names of a workload are not those of the
/// published checkpoint.
fn held<'a>(
    placed: &Placed<'a>,
    paths: &'a Paths,
    map: &Map,
    tree: &BTreeMap<&str, Node>,
) -> Result<Vec<(&'a str, usize)>> {
    let mut held: Vec<(&str, usize)> = Vec::new();
    for (at, module) in paths.passed_over().filter(|(_, module)| !map.has(module)) {
        let operator = &placed.operators[at];
        if operator.document.is_none_or(|document| document.parameter_bytes == 0.0) {
            continue;
        }
        if tree.contains_key(module) {
            let why = "and it has parameters";
            return Err(ExportError::Loose {
                module: module.to_owned(),
                operator: placed.sited(operator),
                why,
            });
        }
        held.push((module, operator.device));
    }
    let Some(graph) = placed.graph.filter(|_| paths.published.is_none()) else { return Ok(held) };
    for (at, parameter) in graph.parameters().iter().enumerate().filter(|(_, known)| !map.has(&known.name)) {
        let Some(reader) = graph.readers(at).iter().min() else { continue };
        if tree.contains_key(parameter.name.as_str()) {
            let why = "a parameter has the name of a module that is on several devices";
            return Err(ExportError::Name { runtime: map.runtime, module: parameter.name.clone(), why });
        }
        held.push((&parameter.name, placed.operators[reader.index()].device));
    }
    Ok(held)
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
    if document.parameter_bytes > 0.0 {
        return loose("and it has parameters");
    }
    // It runs on the device of its forward operator.
    if at != home {
        return Ok(());
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
