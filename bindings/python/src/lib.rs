//! The extension module `stagewright._native`.
//!
//! The Python package `stagewright` wraps this module and documents it. Arrays cross the boundary as NumPy arrays,
//! documents as JSON, and errors as `StagewrightError` with code, place and help. Reading, solving, evaluation,
//! simulation and reports release the global interpreter lock.

mod arrays;
mod check;
mod comparison;
mod failure;
mod interrupt;
mod model;
mod placements;
mod plan;
mod problem;
mod solve;
mod task;

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;

/// The classes and functions of the extension.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::comparison::{Comparison, depends_on_seed};
    #[pymodule_export]
    use super::failure::visible;
    #[pymodule_export]
    use super::model::{Model, cluster, families, show, torch_exporter, workload};
    #[pymodule_export]
    use super::plan::{Plan, export_targets, gap, read_plan};
    #[pymodule_export]
    use super::problem::{Problem, check};
    #[pymodule_export]
    use super::solve::{plan, solvers};
    #[pymodule_export]
    use super::task::{Task, TaskAnswer};

    #[pymodule_init]
    fn init(module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        use super::PyModuleMethods;
        super::load_numpy(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Loads NumPy's C interface and its table of borrowed arrays when the module is imported.
///
/// The crate `numpy` would load both on first use, and panics if loading fails, as it does when a signal arrives in the
/// meantime.
fn load_numpy(py: Python<'_>) -> PyResult<()> {
    py.import("numpy")?;
    PyArray1::<f64>::zeros(py, 0, false).try_readonly()?;
    Ok(())
}
