//! A problem as arrays, for custom policies.

use numpy::{IntoPyArray, PyArrayMethods};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stagewright::core::document::Pass;
use stagewright::core::graph::OpId;
use stagewright::core::problem::Problem;

use crate::failure::Result;

/// Costs, edges and memory of a problem. The package documents shapes and units.
///
/// # Errors
/// Python's `MemoryError` if arrays with a number per device do not fit in memory.
pub(crate) fn arrays<'py>(py: Python<'py>, problem: &Problem) -> Result<Bound<'py, PyDict>> {
    let arrays = PyDict::new(py);
    of_operators(&arrays, problem)?;
    of_tensors(&arrays, problem)?;
    of_devices(&arrays, problem)?;
    Ok(arrays)
}

fn of_operators(arrays: &Bound<'_, PyDict>, problem: &Problem) -> Result<()> {
    let (py, graph, cluster) = (arrays.py(), problem.graph(), problem.cluster());
    let (ops, devices) = (graph.operator_count(), cluster.device_count());
    let of_operators = |figure: &dyn Fn(OpId) -> f64| -> Vec<f64> { graph.operators().map(figure).collect() };
    let mut seconds = allocated(ops, devices)?;
    for op in graph.operators() {
        let on = |device| problem.seconds(op, problem.pool_of(device)).unwrap_or(f64::INFINITY);
        seconds.extend(cluster.devices().map(on));
    }
    arrays.set_item("seconds", seconds.into_pyarray(py).reshape([ops, devices])?)?;
    for (name, figure) in [
        ("flop", &(|op| graph.operator(op).flop.unwrap_or(f64::NAN)) as &dyn Fn(OpId) -> f64),
        ("parameter_bytes", &|op| graph.operator(op).parameter_bytes),
        ("optimizer_bytes", &|op| graph.operator(op).optimizer_bytes),
        ("activation_bytes", &|op| graph.operator(op).activation_bytes),
        ("workspace_bytes", &|op| graph.operator(op).workspace_bytes),
    ] {
        arrays.set_item(name, of_operators(figure).into_pyarray(py))?;
    }
    let pass = |op| match graph.operator(op).pass {
        Pass::Forward => 0,
        Pass::Backward => 1,
        Pass::Update => 2,
    };
    arrays.set_item("pass", graph.operators().map(pass).collect::<Vec<u8>>().into_pyarray(py))?;
    let class = |op: OpId| graph.class_of(op).index() as i64;
    arrays.set_item("colocation", graph.operators().map(class).collect::<Vec<i64>>().into_pyarray(py))?;
    let topological = graph.topological().iter().map(|op| i64::from(op.0));
    arrays.set_item("topological", topological.collect::<Vec<i64>>().into_pyarray(py))?;
    Ok(())
}

fn of_tensors(arrays: &Bound<'_, PyDict>, problem: &Problem) -> Result<()> {
    let (py, graph, cluster) = (arrays.py(), problem.graph(), problem.cluster());
    let devices = cluster.device_count();
    let (mut from, mut to, mut of_tensor) = (Vec::new(), Vec::new(), Vec::new());
    let mut over = allocated(graph.tensor_count(), devices)?;
    for tensor in graph.tensors() {
        for consumer in graph.consumers(tensor) {
            from.push(i64::from(graph.producer(tensor).0));
            to.push(i64::from(consumer.0));
            of_tensor.push(i64::from(tensor.0));
        }
        over.extend(
            cluster.devices().map(|device| problem.costs().transfer(tensor, cluster.kind_of(device))),
        );
    }
    let edges = from.len();
    from.extend(to);
    arrays.set_item("edge_index", from.into_pyarray(py).reshape([2, edges])?)?;
    arrays.set_item("edge_tensor", of_tensor.into_pyarray(py))?;
    let bytes: Vec<f64> = graph.tensors().map(|tensor| graph.bytes(tensor)).collect();
    arrays.set_item("tensor_bytes", bytes.into_pyarray(py))?;
    let producers: Vec<i64> = graph.tensors().map(|tensor| i64::from(graph.producer(tensor).0)).collect();
    arrays.set_item("tensor_producer", producers.into_pyarray(py))?;
    arrays.set_item("tensor_seconds", over.into_pyarray(py).reshape([graph.tensor_count(), devices])?)?;
    Ok(())
}

fn of_devices(arrays: &Bound<'_, PyDict>, problem: &Problem) -> Result<()> {
    let (py, cluster) = (arrays.py(), problem.cluster());
    let memory: Vec<f64> =
        cluster.devices().map(|device| problem.pools()[problem.pool_of(device)].memory).collect();
    arrays.set_item("memory_bytes", memory.into_pyarray(py))?;
    let kinds: Vec<i64> = cluster.devices().map(|device| cluster.kind_of(device) as i64).collect();
    arrays.set_item("device_kind", kinds.into_pyarray(py))?;
    let is_host = |device| problem.pools()[problem.pool_of(device)].host;
    arrays.set_item("is_host", cluster.devices().map(is_host).collect::<Vec<bool>>().into_pyarray(py))?;
    Ok(())
}

/// An empty vector with the capacity of a matrix, which may need far more memory than the model and the cluster.
fn allocated(rows: usize, columns: usize) -> PyResult<Vec<f64>> {
    let mut numbers = Vec::new();
    match numbers.try_reserve_exact(rows.saturating_mul(columns)) {
        Ok(()) => Ok(numbers),
        Err(_) => {
            Err(PyMemoryError::new_err(format!("no memory for an array of {rows} times {columns} numbers")))
        }
    }
}
