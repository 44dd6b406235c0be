//! What there is to do in a step: operators with their seconds, and tensors to be moved.

use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::{Problem, Tensor};
use crate::score::cost;

/// Something that carries one tensor at a time. Devices are by their place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Out of a device.
    Out(usize),
    /// Into a device.
    In(usize),
    /// Between a group and what is outside it.
    Uplink(usize),
}

/// A tensor on its way to a device.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) tensor: usize,
    pub(super) to: usize,
    pub(super) seconds: f64,
    pub(super) ways: Vec<Way>,
    /// Those that read it there.
    pub(super) readers: Vec<usize>,
}

/// A tensor where it is made.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Those that read it there.
    pub(super) readers: Vec<usize>,
    /// The transfers that take it elsewhere, by their place in the list of all.
    pub(super) transfers: Vec<usize>,
}

/// A step.
#[derive(Debug)]
pub(super) struct Step {
    /// The device of each operator.
    pub(super) device_of: Vec<usize>,
    /// Seconds of each operator there.
    pub(super) seconds: Vec<f64>,
    /// The tensors that each operator makes.
    pub(super) makes: Vec<Vec<usize>>,
    /// By tensor.
    pub(super) made: Vec<Made>,
    /// By tensor, then by destination in the order of the cluster: the order of lines at one moment.
    pub(super) transfers: Vec<Transfer>,
    /// Devices of the plan.
    pub(super) devices: usize,
}

impl Step {
    /// None where an operator is on a device that can't run it. O(operators + pins log pins of a tensor).
    pub(super) fn of(problem: &Problem, placed: &Placed) -> Result<Option<Step>, CheckError> {
        let operators = problem.graph.operators;
        let on = |operator: usize| &problem.cluster.kinds[placed.devices[placed.device_of[operator]].kind];
        let seconds = (0..operators.len()).map(|operator| cost::seconds(&operators[operator], on(operator)));
        let Some(seconds) = seconds.collect::<Option<Vec<f64>>>() else { return Ok(None) };
        let mut step = Step {
            device_of: placed.device_of.clone(),
            seconds,
            makes: vec![Vec::new(); operators.len()],
            made: Vec::with_capacity(problem.graph.tensors.len()),
            transfers: Vec::new(),
            devices: placed.devices.len(),
        };
        for (position, tensor) in problem.graph.tensors.iter().enumerate() {
            step.makes[tensor.producer].push(position);
            step.add(problem, placed, position, tensor)?;
        }
        Ok(Some(step))
    }

    fn add(
        &mut self,
        problem: &Problem,
        placed: &Placed,
        position: usize,
        tensor: &Tensor,
    ) -> Result<(), CheckError> {
        let home = placed.device_of[tensor.producer];
        let seat = |operator: usize| {
            let device = placed.device_of[operator];
            (placed.devices[device].kind, placed.devices[device].number, device, operator)
        };
        let mut readers: Vec<_> = tensor.consumers.iter().map(|&operator| seat(operator)).collect();
        readers.sort_unstable();
        let mut made = Made::default();
        for here in readers.chunk_by(|one, other| one.2 == other.2) {
            let to = here[0].2;
            let readers = here.iter().map(|&(_, _, _, operator)| operator).collect();
            if to == home {
                made.readers = readers;
            } else {
                let (seconds, ways) = route(problem, placed, tensor, home, to)?;
                made.transfers.push(self.transfers.len());
                self.transfers.push(Transfer { tensor: position, to, seconds, ways, readers });
            }
        }
        self.made.push(made);
        Ok(())
    }
}

/// Seconds of a tensor from one device of the plan to another, and what it takes on its way.
fn route(
    problem: &Problem,
    placed: &Placed,
    tensor: &Tensor,
    from: usize,
    to: usize,
) -> Result<(f64, Vec<Way>), CheckError> {
    let cluster = &problem.cluster;
    let [sender, receiver] = [from, to].map(|device| &placed.devices[device]);
    let [sends, receives] = [sender, receiver].map(|device| &cluster.kinds[device.kind]);
    let mut ways = Vec::new();
    if !sends.document.host {
        ways.push(Way::Out(from));
    }
    if !receives.document.host {
        ways.push(Way::In(to));
    }
    let bytes = tensor.document.bytes;
    if let Some(matrix) = cluster.matrix {
        let [row, column] = [(sends, sender), (receives, receiver)]
            .map(|(kind, device)| kind.before + u64::from(device.number));
        let [row, column] = [row as usize, column as usize];
        return Ok((matrix.delay_s[row][column] + bytes * matrix.seconds_per_byte[row][column], ways));
    }
    let mut seconds = cost::transfer(tensor, sends)?.max(cost::transfer(tensor, receives)?);
    if sends.group != receives.group {
        for group in [sends.group, receives.group].into_iter().flatten() {
            seconds = seconds.max(cost::over(&cluster.groups[group].uplink, bytes));
            ways.push(Way::Uplink(group));
        }
    }
    Ok((seconds, ways))
}
