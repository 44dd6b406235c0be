//! Modules: the tree of operator paths, and the smallest set of its nodes that determines every device.

use std::collections::BTreeMap;

use stagewright_core::graph::OpId;

use super::error::{ExportError, Result};
use super::layers::{addressable, parts};
use super::paths::Paths;
use super::placed::Placed;

/// A module with its device; the root of the model has the empty path.
pub type Assigned = (String, usize);

/// The modules of a plan with their devices, and the tensors of the model that these do not place.
#[derive(Debug, Default)]
pub struct Modules {
    /// Modules and tensors, none of which contains another.
    pub assigned: Vec<Assigned>,
    /// Constants that the names of modules do not place.
    pub unnamed: Vec<String>,
    /// Constants in modules on devices that have none of their readers.
    pub apart: Vec<String>,
}

/// The topmost modules that are on one device each, in order of first appearance. Inputs of the model are not modules.
/// A module on several devices runs its own operators where their inputs are, so these must have no parameters and be
/// on the device of everything that they read. Inputs of the model are placed on the first device that is not a host.
///
/// Every parameter has a device. The parameters that the model lists are placed with the first operator that reads
/// them, in the topmost module that is entirely on that device. A parameter that a divided module or the root holds
/// itself, such as a table, is placed by its own name. Weights of operators that belong to the kernel of another layer
/// are on the device of that kernel, unless a module that holds them has a device. A constant is only listed if its
/// name does not give it the device of its first reader.
///
/// Takes time O(operators · length of a path · log operators).
///
/// # Errors
/// If the modules cannot express the plan (E010 to E013, E018 and E021).
pub fn assigned(placed: &Placed, paths: &Paths, runtime: &'static str) -> Result<Modules> {
    let homes = placed.homes()?;
    let data: Vec<bool> = (0..placed.operators.len()).map(|index| placed.is_input(index)).collect();
    let mut tree: BTreeMap<&str, Node> = BTreeMap::new();
    let mut root = Node::default();
    for (index, &home) in homes.iter().enumerate().filter(|&(index, _)| !data[index]) {
        let device = placed.operators[index].device;
        root.hold(device);
        for part in paths.all(home).iter().flat_map(|module| parts(module)) {
            tree.entry(part).or_default().hold(device);
        }
    }
    if let Some(device) = root.only() {
        return Ok(Modules { assigned: vec![(String::new(), device)], ..Modules::default() });
    }
    let mut map = Map { runtime, found: Vec::new(), device_of: BTreeMap::new() };
    let mut loose: Vec<(usize, usize)> = Vec::new();
    for (index, &home) in homes.iter().enumerate().filter(|&(index, _)| !data[index]) {
        for module in paths.all(home) {
            match parts(module).find_map(|part| tree[part].only().map(|device| (part, device))) {
                Some((part, device)) => map.add(part, device)?,
                None => loose.push((index, home)),
            }
        }
    }
    let main = map.found.iter().map(|&(_, device)| device).find(|&device| !placed.devices[device].host);
    for (index, home) in loose {
        check_loose(placed, index, home, main, paths)?;
    }
    for (name, device) in beside(paths, &tree, root) {
        map.add(&name, device)?;
    }
    let held = held(placed, paths, &map, &tree)?;
    for &(name, device) in &held.unlisted {
        parts(name).for_each(|part| tree.entry(part).or_default().hold(device));
    }
    for (name, device) in held.unlisted {
        let whole = parts(name).find(|part| tree[part].only().is_some());
        map.add(whole.unwrap_or(name), device)?;
    }
    Ok(Modules { assigned: map.found, unnamed: held.unnamed, apart: held.apart })
}

/// The modules and tensors found so far, none of which contains another.
struct Map {
    runtime: &'static str,
    found: Vec<Assigned>,
    device_of: BTreeMap<String, usize>,
}

impl Map {
    /// Device of the module in the map that contains a module or a tensor, if any.
    fn device(&self, name: &str) -> Option<usize> {
        parts(name).find_map(|part| self.device_of.get(part)).copied()
    }

    /// Adds a module or a tensor, unless a module in the map contains it.
    fn add(&mut self, name: &str, device: usize) -> Result<()> {
        if self.device(name).is_none() {
            addressable(self.runtime, name)?;
            self.device_of.insert(name.to_owned(), device);
            self.found.push((name.to_owned(), device));
        }
        Ok(())
    }
}

/// Modules of a published model that no operator runs, each with the device of the first operator of its companion
/// module, or of the first operator overall if the model does not have that module.
fn beside(paths: &Paths, tree: &BTreeMap<&str, Node>, root: Node) -> Vec<(String, usize)> {
    let named = paths.published.map(|published| published.beside()).unwrap_or_default();
    let device = |module: &str| tree.get(module).unwrap_or(&root).first;
    named.into_iter().filter_map(|(name, module)| Some((name, device(&module)?))).collect()
}

/// Tensors of the model and modules that hold them.
#[derive(Debug, Default)]
struct Held<'a> {
    /// Modules and tensors that no module of the map holds, with their devices.
    unlisted: Vec<(&'a str, usize)>,
    /// Constants that the names of modules do not place.
    unnamed: Vec<String>,
    /// Constants in modules on devices that have none of their readers.
    apart: Vec<String>,
}

/// Parameters outside the modules of the map: parameters of the model by name, each with the device of its first
/// reader, and modules of weights that belong to the kernel of another layer. The parameter names of a workload are
/// not those of the published checkpoint.
fn held<'a>(
    placed: &Placed<'a>,
    paths: &'a Paths,
    map: &Map,
    tree: &BTreeMap<&str, Node>,
) -> Result<Held<'a>> {
    let mut held = Held::default();
    for (index, module) in paths.passed_over().filter(|(_, module)| map.device(module).is_none()) {
        let operator = &placed.operators[index];
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
        held.unlisted.push((module, operator.device));
    }
    let Some(graph) = placed.graph.filter(|_| paths.published.is_none()) else { return Ok(held) };
    for (index, parameter) in graph.parameters().iter().enumerate() {
        let name = parameter.name.as_str();
        let device_of = |reader: &OpId| placed.operators[reader.index()].device;
        let Some(first) = graph.readers(index).iter().min().map(device_of) else { continue };
        if let Some(device) = map.device(name) {
            let is_apart = graph.readers(index).iter().all(|reader| device_of(reader) != device);
            if is_apart && parameter.trained {
                let why = "it is a weight of a module on another device than its readers";
                return Err(ExportError::Name { runtime: map.runtime, module: name.to_owned(), why });
            }
            held.apart.extend(is_apart.then(|| name.to_owned()));
            continue;
        }
        let named = if tree.contains_key(name) {
            let why = "a parameter has the name of a module that is on several devices";
            Err(ExportError::Name { runtime: map.runtime, module: name.to_owned(), why })
        } else {
            addressable(map.runtime, name)
        };
        match named {
            Ok(()) => held.unlisted.push((name, first)),
            Err(error) if parameter.trained => return Err(error),
            // The name of a constant need not be a name in the model.
            Err(_) => held.unnamed.push(name.to_owned()),
        }
    }
    Ok(held)
}

/// The devices of a module's contents, reduced to the first and whether there are several.
#[derive(Debug, Default, Clone, Copy)]
struct Node {
    first: Option<usize>,
    several: bool,
}

impl Node {
    fn hold(&mut self, device: usize) {
        let first = *self.first.get_or_insert(device);
        self.several |= first != device;
    }

    /// The device, if there is only one.
    fn only(self) -> Option<usize> {
        self.first.filter(|_| !self.several)
    }
}

/// Checks that an operator of a module on several devices still runs on its device in the plan. `main` is the device
/// that receives the inputs of the model.
fn check_loose(placed: &Placed, index: usize, home: usize, main: Option<usize>, paths: &Paths) -> Result<()> {
    let operator = &placed.operators[index];
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
    if index != home {
        return Ok(());
    }
    let read = graph.predecessors(OpId::new(index));
    if read.is_empty() && main != Some(operator.device) {
        return loose("and it has no input whose device it could follow");
    }
    match read.iter().all(|from| placed.operators[from.index()].device == operator.device) {
        true => Ok(()),
        false => loose("and it has an input on another device"),
    }
}
