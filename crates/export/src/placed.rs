//! A plan in the form that targets read: every operator once, with its device, and with the model if that is
//! given.

use std::collections::BTreeMap;

use stagewright_core::document::{ClusterDocument, DeviceDocument, OperatorDocument, Pass, PlanDocument};
use stagewright_core::graph::{Graph, OpId};

use super::error::{ExportError, Result, Sited};
use stagewright_formats::clusters::{Role, device};
use stagewright_report::units::name;

/// Kind of the operators that represent inputs of the model; no runtime has a module for them.
const INPUT: &str = "input";

/// A plan, checked to place every operator exactly once.
#[derive(Debug)]
pub struct Placed<'a> {
    /// The devices in use, in the order of the plan.
    pub devices: Vec<Device<'a>>,
    /// The operators in the order of the model, or by device without the model.
    pub operators: Vec<Operator<'a>>,
    /// The model.
    pub graph: Option<&'a Graph>,
    /// The plan.
    pub plan: &'a PlanDocument,
}

/// A device in use.
#[derive(Debug)]
pub struct Device<'a> {
    /// Entry of the device in the plan.
    pub document: &'a DeviceDocument,
    /// Whether the device is a host.
    pub host: bool,
    /// Index of the device's kind in the cluster, or among the kinds of the plan.
    kind: usize,
    /// Index of the device in the plan.
    at: usize,
}

/// An operator with its device.
#[derive(Debug, Clone, Copy)]
pub struct Operator<'a> {
    /// Name of the operator.
    pub name: &'a str,
    /// Device of the operator, an index into [`Placed::devices`].
    pub device: usize,
    /// Entry of the operator in the model.
    pub document: Option<&'a OperatorDocument>,
    /// Index of the operator among those of the device.
    at: usize,
}

impl Operator<'_> {
    /// Whether the operator belongs to the forward pass. Without the model, all operators do.
    pub fn is_forward(&self) -> bool {
        self.document.is_none_or(|document| document.pass == Pass::Forward)
    }

    /// Whether the operator is known to have no kernel of its own: a view, or an operator that runs in the
    /// kernel of another.
    pub fn is_free(&self) -> bool {
        self.document.is_some_and(|document| document.launches == Some(0.0))
    }
}

impl<'a> Placed<'a> {
    /// Reads a plan. The cluster determines which kinds are hosts; a kind that it lacks is a host if it is
    /// named like a built-in processor, `cpu` or `host`.
    ///
    /// Takes time O(operators · log operators).
    ///
    /// # Errors
    /// If the plan does not place every operator exactly once (E002 to E005).
    pub fn new(
        plan: &'a PlanDocument,
        graph: Option<&'a Graph>,
        cluster: Option<&ClusterDocument>,
    ) -> Result<Placed<'a>> {
        let used = plan.devices.iter().enumerate().filter(|(_, device)| !device.ops.is_empty());
        let kinds: Vec<&str> = match cluster {
            Some(cluster) => cluster.kinds.iter().map(|kind| kind.name.as_str()).collect(),
            None => Vec::new(),
        };
        let listed = plan.devices.iter().map(|device| device.kind.as_str());
        let kinds: Vec<&str> = kinds.into_iter().chain(listed).collect();
        let rank = |kind: &str| kinds.iter().position(|known| *known == kind).unwrap_or(kinds.len());
        let devices: Vec<Device> = used
            .map(|(index, document)| Device {
                document,
                host: is_host(&document.kind, cluster),
                kind: rank(&document.kind),
                at: index,
            })
            .collect();
        if devices.is_empty() {
            return Err(ExportError::NoPlan { status: plan.status.name() });
        }
        let mut placed = Placed { devices, operators: Vec::new(), graph, plan };
        placed.operators = placed.read(graph)?;
        Ok(placed)
    }

    fn read(&self, graph: Option<&'a Graph>) -> Result<Vec<Operator<'a>>> {
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        let mut operators = Vec::new();
        for (device, seat) in self.devices.iter().enumerate() {
            for (index, operator) in seat.document.ops.iter().enumerate() {
                let operator = Operator { name: operator, device, document: None, at: index };
                if by_name.insert(operator.name, operators.len()).is_some() {
                    return Err(ExportError::PlacedTwice(self.sited(&operator)));
                }
                operators.push(operator);
            }
        }
        let Some(graph) = graph else { return Ok(operators) };
        let mut in_order = Vec::with_capacity(operators.len());
        let mut unplaced: Vec<&str> = Vec::new();
        for op in graph.operators() {
            let document = graph.operator(op);
            match by_name.remove(document.name.as_str()) {
                Some(index) => in_order.push(Operator { document: Some(document), ..operators[index] }),
                None => unplaced.push(&document.name),
            }
        }
        if let Some(&index) = by_name.values().min() {
            return Err(ExportError::UnknownOperator(self.sited(&operators[index])));
        }
        match unplaced.first() {
            Some(&first) => Err(ExportError::NotPlaced { first: first.into(), count: unplaced.len() }),
            None => Ok(in_order),
        }
    }

    /// An operator with its place in the plan, for an error.
    pub fn sited(&self, operator: &Operator) -> Sited {
        let device = &self.devices[operator.device];
        Sited {
            operator: operator.name.into(),
            device: device.document.name.clone(),
            at: format!("devices[{}].ops[{}]", device.at, operator.at),
        }
    }

    /// The model, for a target that needs it.
    ///
    /// # Errors
    /// If it is not given (E006); `why` names what the plan lacks.
    pub fn model(&self, target: &'static str, why: &'static str) -> Result<&'a Graph> {
        self.graph.ok_or(ExportError::NeedsModel { target, why })
    }

    /// Whether an operator represents an input of the model: it has kind `input`, reads nothing and has no
    /// parameters.
    pub fn is_input(&self, operator: usize) -> bool {
        let (Some(graph), Some(document)) = (self.graph, self.operators[operator].document) else {
            return false;
        };
        document.kind.as_deref() == Some(INPUT)
            && document.parameter_bytes == 0.0
            && graph.predecessors(OpId::new(operator)).is_empty()
    }

    /// Refuses stages of several devices and devices that are called more than once.
    ///
    /// # Errors
    /// If there are any (E007 and E008).
    pub fn one_run_each(&self, runtime: &'static str) -> Result<()> {
        self.one_device_each(runtime)?;
        self.one_call_each(runtime)
    }

    /// Refuses stages of several devices.
    ///
    /// # Errors
    /// If there are any (E007).
    pub fn one_device_each(&self, runtime: &'static str) -> Result<()> {
        match self.devices.iter().find(|device| device.document.replicas != 1) {
            Some(device) => Err(ExportError::Replicas {
                runtime,
                device: device.document.name.clone(),
                count: device.document.replicas,
                at: format!("devices[{}].replicas", device.at),
            }),
            None => Ok(()),
        }
    }

    /// Refuses devices that are called more than once.
    ///
    /// # Errors
    /// If there are any (E008).
    pub fn one_call_each(&self, runtime: &'static str) -> Result<()> {
        let calls = |device: &Device| device.document.calls.as_ref().map_or(1, Vec::len);
        match self.devices.iter().find(|device| calls(device) > 1) {
            Some(device) => Err(ExportError::Calls {
                runtime,
                device: device.document.name.clone(),
                count: calls(device),
                at: format!("devices[{}].calls", device.at),
            }),
            None => Ok(()),
        }
    }

    /// Numbers the accelerators from 0: by kind, and within a kind by the number in the name.
    pub fn numbers(&self) -> Vec<Option<usize>> {
        let mut accelerators: Vec<usize> =
            (0..self.devices.len()).filter(|&device| !self.devices[device].host).collect();
        accelerators.sort_by_key(|&device| {
            let Device { document, kind, .. } = &self.devices[device];
            let number = document.name.strip_prefix(&document.kind).and_then(|rest| rest.parse::<u64>().ok());
            (*kind, number.unwrap_or(u64::MAX), &document.name)
        });
        let mut numbers = vec![None; self.devices.len()];
        for (number, device) in accelerators.into_iter().enumerate() {
            numbers[device] = Some(number);
        }
        numbers
    }

    /// The name of a device, for display.
    pub fn shown(&self, device: usize) -> String {
        name(&self.devices[device].document.name)
    }

    /// The devices with these numbers, for display.
    pub fn numbered(&self, numbers: &[Option<usize>]) -> String {
        let mut listed: Vec<(usize, String)> = numbers
            .iter()
            .enumerate()
            .filter_map(|(index, number)| Some(((*number)?, self.shown(index))))
            .collect();
        listed.sort_unstable();
        let listed: Vec<String> = listed.into_iter().map(|(n, device)| format!("{device} is {n}")).collect();
        if listed.is_empty() { "no accelerator is used".into() } else { listed.join(", ") }
    }

    /// The forward operator of every operator. A forward operator is its own. For any other, it is the first forward
    /// operator of its colocation class, or without one the forward operator named by the longest proper prefix of its
    /// name, or otherwise the first of its layer. An operator and its forward operator must be on the same device.
    ///
    /// # Errors
    /// If an operator has no forward operator or is not on its device (E011 and E012).
    pub fn homes(&self) -> Result<Vec<usize>> {
        let mut by_class: BTreeMap<&str, usize> = BTreeMap::new();
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        let mut by_layer: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, operator) in
            self.operators.iter().enumerate().filter(|(_, operator)| operator.is_forward())
        {
            by_name.insert(operator.name, index);
            let Some(document) = operator.document else { continue };
            if let Some(class) = &document.colocation {
                by_class.entry(class).or_insert(index);
            }
            if let Some(layer) = &document.layer {
                by_layer.entry(layer).or_insert(index);
            }
        }
        let home = |(index, operator): (usize, &Operator<'a>)| {
            if operator.is_forward() {
                return Ok(index);
            }
            let document = operator.document;
            let class = document.and_then(|document| document.colocation.as_deref());
            let layer = document.and_then(|document| document.layer.as_deref());
            let home = class
                .and_then(|class| by_class.get(class))
                .or_else(|| prefixes(operator.name).find_map(|prefix| by_name.get(prefix)))
                .or_else(|| layer.and_then(|layer| by_layer.get(layer)));
            match home {
                None => Err(ExportError::Orphan(self.sited(operator))),
                Some(&home) if self.operators[home].device == operator.device => Ok(home),
                Some(&home) => Err(ExportError::Apart {
                    operator: Box::new(self.sited(operator)),
                    forward: Box::new(self.sited(&self.operators[home])),
                }),
            }
        };
        self.operators.iter().enumerate().map(home).collect()
    }
}

/// The proper prefixes of a dotted name, longest first.
fn prefixes(name: &str) -> impl Iterator<Item = &str> {
    name.rmatch_indices('.').map(|(end, _)| &name[..end])
}

fn is_host(kind: &str, cluster: Option<&ClusterDocument>) -> bool {
    let known = cluster.and_then(|cluster| cluster.kinds.iter().find(|known| known.name == kind));
    match known {
        Some(known) => known.host,
        None => {
            let kind = kind.to_ascii_lowercase();
            matches!(kind.as_str(), "cpu" | "host")
                || device(&kind).is_some_and(|device| device.role == Role::Cpu)
        }
    }
}
