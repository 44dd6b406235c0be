//! Arrays of placements: one row per placement, with a device number for every operator.

use std::ops::Range;

use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use stagewright::code::Z001;
use stagewright::core::cluster::DeviceId;
use stagewright::core::document::ObjectiveKind;
use stagewright::core::graph::OpId;
use stagewright::core::placement::Placement;
use stagewright::core::problem::Problem;
use stagewright::failure::Failure;

/// Rows of device numbers, and of priorities if they are given.
pub(crate) struct Rows<'a> {
    devices: &'a [u16],
    priorities: Option<&'a [f64]>,
    operators: usize,
    /// Number of placements.
    pub(crate) count: usize,
}

fn wrong(argument: &str, cause: String, help: &str) -> Failure {
    Failure::new(Z001, cause).at(argument).help(help)
}

impl<'a> Rows<'a> {
    /// Checks the shapes and layouts of arrays.
    ///
    /// # Errors
    /// An array with the wrong shape or layout (Z001).
    pub(crate) fn new(
        problem: &Problem,
        placements: &'a PyReadonlyArray2<'_, u16>,
        priorities: Option<&'a PyReadonlyArray2<'_, f64>>,
    ) -> Result<Rows<'a>, Failure> {
        let operators = problem.graph().operator_count();
        let &[count, columns] = placements.shape() else { unreachable!("two dimensions") };
        let help =
            "give an array of shape (placements, operators), with the operators in the order of the model";
        if columns != operators {
            let cause = format!("the rows have {columns} devices, and the model has {operators} operators");
            return Err(wrong("placements", cause, help));
        }
        let contiguous = "use numpy.ascontiguousarray";
        let not_contiguous = |argument| wrong(argument, "the array is not contiguous".into(), contiguous);
        let devices = placements.as_slice().map_err(|_| not_contiguous("placements"))?;
        let priorities = match priorities {
            None => None,
            Some(array) => {
                if array.shape() != placements.shape() {
                    let cause =
                        format!("the shape is {:?}, expected {:?}", array.shape(), placements.shape());
                    return Err(wrong(
                        "priorities",
                        cause,
                        "give a number for each operator of each placement",
                    ));
                }
                let numbers = array.as_slice().map_err(|_| not_contiguous("priorities"))?;
                Some(numbers)
            }
        };
        Ok(Rows { devices, priorities, operators, count })
    }

    /// Copies some of the rows, because Python code may change the arrays while the lock is released.
    ///
    /// # Errors
    /// An unknown device, or a priority that is not a number (Z001).
    pub(crate) fn part(&self, problem: &Problem, rows: Range<usize>) -> Result<Part, Failure> {
        let entries = rows.start * self.operators..rows.end * self.operators;
        let part = Part {
            devices: self.devices[entries.clone()].to_vec(),
            priorities: self.priorities.map(|priorities| priorities[entries].to_vec()),
            operators: self.operators,
            count: rows.len(),
        };
        check_devices(problem, "placements", &part.devices, self.operators, rows.start)?;
        check_numbers(part.priorities.as_deref().unwrap_or_default(), self.operators, rows.start)?;
        Ok(part)
    }
}

/// A copy of some rows, which has been checked.
pub(crate) struct Part {
    devices: Vec<u16>,
    priorities: Option<Vec<f64>>,
    operators: usize,
    /// Number of placements.
    pub(crate) count: usize,
}

impl Part {
    /// A placement, with its devices in pipeline order if the objective has one.
    pub(crate) fn placement(&self, problem: &Problem, index: usize) -> Placement {
        let (devices, priorities) = self.row(index);
        placement(problem, devices, priorities)
    }

    /// A placement for one step, with the priorities in `order` unless it has its own.
    pub(crate) fn step(&self, problem: &Problem, index: usize, order: &[OpId]) -> Placement {
        match self.row(index) {
            (devices, None) => Placement::with_priority(numbered(devices), order.to_vec()),
            (devices, priorities) => placement(problem, devices, priorities),
        }
    }

    fn row(&self, index: usize) -> (&[u16], Option<&[f64]>) {
        let row = index * self.operators..(index + 1) * self.operators;
        (&self.devices[row.clone()], self.priorities.as_ref().map(|priorities| &priorities[row]))
    }
}

fn numbered(devices: &[u16]) -> Vec<DeviceId> {
    devices.iter().map(|&device| DeviceId(device.into())).collect()
}

/// Checks that every device exists.
fn check_devices(
    problem: &Problem,
    argument: &str,
    devices: &[u16],
    columns: usize,
    first: usize,
) -> Result<(), Failure> {
    let count = problem.cluster().device_count();
    match devices.iter().position(|&device| usize::from(device) >= count) {
        None => Ok(()),
        Some(index) => {
            let (row, column) = (first + index / columns, index % columns);
            let cause =
                format!("device {} at [{row}, {column}], and the cluster has {count}", devices[index]);
            Err(wrong(argument, cause, "number devices from 0, in the order of `problem.devices`"))
        }
    }
}

/// Refuses priorities unless the objective is the makespan: no other value depends on them.
///
/// # Errors
/// An objective other than the makespan (Z001).
pub(crate) fn check_priorities(problem: &Problem, argument: &str, are_given: bool) -> Result<(), Failure> {
    match problem.objective().kind() {
        ObjectiveKind::Throughput | ObjectiveKind::Latency if are_given => {
            let cause = "only the makespan depends on priorities".into();
            Err(wrong(argument, cause, "leave them out, or use `Problem.simulate`"))
        }
        _ => Ok(()),
    }
}

fn check_numbers(priorities: &[f64], columns: usize, first: usize) -> Result<(), Failure> {
    match priorities.iter().position(|priority| priority.is_nan()) {
        None => Ok(()),
        Some(index) => {
            let cause = format!("NaN at [{}, {}]", first + index / columns, index % columns);
            Err(wrong("priorities", cause, "give a number for each operator; higher ones run first"))
        }
    }
}

/// One placement from a row.
///
/// # Errors
/// An array with the wrong shape or layout, an unknown device, or a priority that is not a number (Z001).
pub(crate) fn single(
    problem: &Problem,
    devices: &PyReadonlyArray1<'_, u16>,
    priorities: Option<&PyReadonlyArray1<'_, f64>>,
) -> Result<Placement, Failure> {
    let operators = problem.graph().operator_count();
    let contiguous =
        |argument| wrong(argument, "the array is not contiguous".into(), "use numpy.ascontiguousarray");
    let devices = devices.as_slice().map_err(|_| contiguous("placement"))?;
    let priorities =
        priorities.map(|array| array.as_slice().map_err(|_| contiguous("priority"))).transpose()?;
    for (argument, len) in [("placement", Some(devices.len())), ("priority", priorities.map(<[f64]>::len))] {
        if let Some(len) = len.filter(|&len| len != operators) {
            let cause = format!("{len} entries, and the model has {operators} operators");
            return Err(wrong(argument, cause, "give one for each operator, in the order of the model"));
        }
    }
    check_devices(problem, "placement", devices, operators.max(1), 0)?;
    check_numbers(priorities.unwrap_or_default(), operators.max(1), 0)?;
    Ok(placement(problem, devices, priorities))
}

fn placement(problem: &Problem, devices: &[u16], priorities: Option<&[f64]>) -> Placement {
    let device_of = numbered(devices);
    match priorities {
        None => Placement::in_pipeline_order(problem, device_of),
        Some(priorities) => {
            let mut order: Vec<OpId> = problem.graph().operators().collect();
            order.sort_by(|a, b| priorities[b.index()].total_cmp(&priorities[a.index()]));
            Placement::with_priority(device_of, order)
        }
    }
}
