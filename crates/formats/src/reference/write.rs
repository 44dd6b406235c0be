//! Writer of the reference format, so that the package and its descendants can solve a model.
//!
//! The format expresses less than a document: one kind of accelerator and one of host, one tensor per
//! operator, one number of bytes, measured times alone. A property whose omission changes the problem is an
//! error; one that only describes it (names of tensors, kinds of operators, FLOP beside measured times) is
//! dropped. Bytes of parameters, optimiser state and workspace are added up, as the memory of version 1 does.

use std::collections::BTreeMap;

use stagewright_core::document::{
    ClusterDocument, GraphDocument, KindDocument, OperatorDocument, Pass, TensorDocument,
};

use super::MS_PER_SECOND;
use super::file::{Edge, ModelFile, Node};
use crate::code::R::*;
use crate::error::{At, InputError, Result};
use crate::pretty_json;

/// Writes a model with its cluster in the reference format, nodes numbered from 0. Errors use the label as
/// the name of the model.
pub fn write_reference(label: &str, graph: &GraphDocument) -> Result<String> {
    let Some(cluster) = &graph.cluster else {
        let help = "give a cluster: the format holds a model together with its cluster";
        return Err(InputError::new(R011, label, At::Whole, "the model has no cluster", help));
    };
    if graph.is_version_2() {
        let message = "the memory of a `stagewright.graph/2` is not a sum over its operators";
        let help = "write a graph of version 1, as measured profiles make";
        return Err(InputError::at_path(R017, label, "schema", message, help));
    }
    let (accelerator, host) = kinds(label, cluster)?;
    let mut by_name = BTreeMap::new();
    for (i, operator) in graph.operators.iter().enumerate() {
        if by_name.insert(operator.name.as_str(), i).is_some() {
            let message = format!("two operators are named `{}`", operator.name);
            let path = format!("operators[{i}].name");
            return Err(InputError::at_path(R016, label, path, message, "give each a unique name"));
        }
    }
    let numbers = |prefix, text: fn(&OperatorDocument) -> &Option<String>| {
        number(prefix, graph.operators.iter().map(|operator| text(operator).as_deref()))
    };
    let colors = numbers("color", |operator| &operator.colocation);
    let layers = numbers("layer", |operator| &operator.layer);
    let mut nodes = Vec::with_capacity(graph.operators.len());
    for (i, operator) in graph.operators.iter().enumerate() {
        let on_accelerator = accelerator.map(|kind| time(label, i, operator, kind)).transpose()?.flatten();
        let on_host = host.map(|kind| time(label, i, operator, kind)).transpose()?.flatten();
        if host.is_some() && on_host.is_none() {
            let message =
                format!("`{}` cannot run on the host, which the format cannot express", operator.name);
            let help = "give it a time on the host's class, or write for a cluster without a host";
            return Err(InputError::at_path(R013, label, format!("operators[{i}]"), message, help));
        }
        sayable(label, i, operator)?;
        nodes.push(Node {
            id: i as i64,
            name: Some(operator.name.clone()),
            supported_on_fpga: on_accelerator.is_some(),
            cpu_latency: on_host.unwrap_or(0.0),
            fpga_latency: on_accelerator.unwrap_or(0.0),
            is_backward_node: operator.pass != Pass::Forward,
            color_class: colors[i],
            layer_id: layers[i],
            size: Some(operator.parameter_bytes + operator.optimizer_bytes + operator.workspace_bytes),
        });
    }
    let file = ModelFile {
        // The format cannot express unlimited memory; no model has this many bytes.
        max_size_per_fpga: accelerator.and_then(usable).unwrap_or(1e30),
        max_fpgas: accelerator.map_or(0.0, |kind| f64::from(kind.count)),
        max_cpus: host.map_or(0.0, |kind| f64::from(kind.count)),
        nodes,
        edges: edges(label, graph, &by_name, accelerator)?,
    };
    Ok(pretty_json(&file))
}

/// The kind of accelerators and the kind of hosts, at most one each.
fn kinds<'a>(
    label: &str,
    cluster: &'a ClusterDocument,
) -> Result<(Option<&'a KindDocument>, Option<&'a KindDocument>)> {
    let kinds_of = |host: bool| cluster.kinds.iter().filter(move |kind| kind.host == host);
    if kinds_of(false).count() > 1
        || kinds_of(true).count() > 1
        || !cluster.groups.is_empty()
        || cluster.matrix.is_some()
    {
        let message = "the cluster has more than one kind of accelerator and one kind of host";
        let help = "write for a cluster without groups and matrix, with one kind of each";
        return Err(InputError::at_path(R012, label, "cluster", message, help));
    }
    let host = kinds_of(true).next();
    if host.is_some_and(|kind| kind.memory_bytes.is_some()) {
        let index = cluster.kinds.iter().position(|kind| kind.host).unwrap_or_default();
        let message = "the memory of the host is limited, which the format cannot express";
        let help = "write for a host without `memory_bytes`";
        return Err(InputError::at_path(
            R012,
            label,
            format!("cluster.kinds[{index}].memory_bytes"),
            message,
            help,
        ));
    }
    Ok((kinds_of(false).next(), host))
}

/// Bytes of a device that a plan may use; `None` if they are unlimited.
fn usable(kind: &KindDocument) -> Option<f64> {
    kind.memory_bytes.map(|memory| (memory - kind.reserve_bytes.unwrap_or(0.0)).max(0.0))
}

/// Refuses features that a node cannot express.
fn sayable(label: &str, i: usize, operator: &OperatorDocument) -> Result<()> {
    if operator.pass == Pass::Update {
        let message = format!(
            "`{}` is of the update pass, but the format has only forward and backward",
            operator.name
        );
        let help = "fold it into the backward operator before it";
        return Err(InputError::at_path(R017, label, format!("operators[{i}].pass"), message, help));
    }
    if operator.activation_bytes > 0.0 {
        let message = format!(
            "`{}` keeps activations for each microbatch in flight, but a node has one size",
            operator.name
        );
        let help = "count them in `parameter_bytes` if they are held once";
        return Err(InputError::at_path(
            R017,
            label,
            format!("operators[{i}].activation_bytes"),
            message,
            help,
        ));
    }
    Ok(())
}

/// Measured time of an operator on a kind in ms; `None` if it is not supported there.
fn time(label: &str, i: usize, operator: &OperatorDocument, kind: &KindDocument) -> Result<Option<f64>> {
    if operator.unsupported.contains(&kind.class) {
        return Ok(None);
    }
    match operator.seconds.get(&kind.class) {
        Some(seconds) => Ok(Some(seconds * MS_PER_SECOND)),
        None if operator.flop.is_none() && operator.bytes_moved.is_none() => Ok(None),
        None => {
            let message = format!("`{}` has no measured time on `{}`", operator.name, kind.class);
            let help = "the format has no FLOP and bytes to derive a time from: give measured seconds";
            Err(InputError::at_path(R013, label, format!("operators[{i}].seconds"), message, help))
        }
    }
}

fn edges(
    label: &str,
    graph: &GraphDocument,
    by_name: &BTreeMap<&str, usize>,
    accelerator: Option<&KindDocument>,
) -> Result<Vec<Edge>> {
    let mut edges = Vec::new();
    let mut tensor_of: Vec<Option<usize>> = vec![None; graph.operators.len()];
    for (t, tensor) in graph.tensors.iter().enumerate() {
        let id = |path: String, name: &str| {
            by_name.get(name).copied().ok_or_else(|| {
                let message = format!("no operator is named `{name}`");
                InputError::at_path(R016, label, path, message, "correct the name, or add the operator")
            })
        };
        let producer = id(format!("tensors[{t}].producer"), &tensor.producer)?;
        if let Some(before) = tensor_of[producer].replace(t) {
            let message = format!("`{}` already produces tensors[{before}]", tensor.producer);
            let help =
                "give each further tensor an operator without cost: the format has one tensor per operator";
            return Err(InputError::at_path(R014, label, format!("tensors[{t}]"), message, help));
        }
        let cost = accelerator.map_or(Some(0.0), |kind| seconds(tensor, kind)).ok_or_else(|| {
            let message = format!("the tensor of `{}` has no seconds, and there is no link", tensor.producer);
            let help = "give the tensor measured seconds, or the kind of accelerators a link";
            InputError::at_path(R015, label, format!("tensors[{t}]"), message, help)
        })?;
        for (c, consumer) in tensor.consumers.iter().enumerate() {
            edges.push(Edge {
                source_id: producer as i64,
                dest_id: id(format!("tensors[{t}].consumers[{c}]"), consumer)? as i64,
                cost: cost * MS_PER_SECOND,
                size: Some(tensor.bytes),
            });
        }
    }
    Ok(edges)
}

/// Seconds to move a tensor once over the link of a kind.
fn seconds(tensor: &TensorDocument, kind: &KindDocument) -> Option<f64> {
    let measured = tensor.seconds.get(&kind.class).copied();
    let derived = || kind.link.map(|link| link.latency_s + tensor.bytes / link.bandwidth);
    measured.or_else(derived).filter(|seconds| seconds.is_finite())
}

/// Assigns numbers to names: a name `<prefix><number>` keeps its number, others get fresh ones in order of
/// first appearance.
fn number<'a>(prefix: &str, names: impl Iterator<Item = Option<&'a str>> + Clone) -> Vec<Option<i64>> {
    let own = |name: &str| {
        let number = name.strip_prefix(prefix)?.parse::<i64>().ok()?;
        // `color+3` and `color03` are not of this form.
        (format!("{prefix}{number}") == name).then_some(number)
    };
    let mut of_name: BTreeMap<&str, i64> = BTreeMap::new();
    let mut taken: Vec<i64> = names.clone().flatten().filter_map(own).collect();
    taken.sort_unstable();
    let mut fresh = (0..).filter(|number| taken.binary_search(number).is_err());
    names
        .map(|name| {
            let name = name?;
            own(name).or_else(|| match of_name.get(name) {
                Some(&number) => Some(number),
                None => {
                    let number = fresh.next()?;
                    of_name.insert(name, number);
                    Some(number)
                }
            })
        })
        .collect()
}
