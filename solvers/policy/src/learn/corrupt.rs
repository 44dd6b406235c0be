//! Plans to improve on, for training: plans like those at inference, and worse ones.

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, SolveError, Solver, Stop};
use stagewright_makespan::schedule::Schedule;
use stagewright_makespan::{CPOP, ClusterId, EARLIEST_TASK_FIRST, HEFT, PEFT, SMALL_COMMUNICATION, assigned};
use stagewright_search::OneDevice;

use super::example::Teacher;
use crate::subject::Subject;

/// Origin of a plan to improve on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// A list schedule, or everything on one device.
    Scheduled,
    /// A teacher's plan with some parts moved.
    Corrupted,
    /// A random device for every unit.
    Random,
}

impl Start {
    /// Draws an origin, mostly one like those at inference.
    pub fn draw(rng: &mut impl Rng) -> Start {
        match rng.random_range(0..10) {
            0..4 => Start::Scheduled,
            4..9 => Start::Corrupted,
            _ => Start::Random,
        }
    }
}

/// A schedule to improve on, for the step that `subject` reads. Moved parts are intervals of the topological order,
/// from one unit to a fifth of all units long. If the list scheduler is stopped, the schedule is random.
///
/// # Errors
/// If an invariant is broken.
pub fn base_schedule(
    start: Start,
    subject: &Subject<'_, '_>,
    teachers: &[Teacher],
    stop: &Stop,
    rng: &mut impl Rng,
) -> Result<Schedule, SolveError> {
    let instance = subject.instance();
    let homes = match start {
        Start::Scheduled => {
            let solvers: [&dyn Solver; 6] =
                [&HEFT, &HEFT, &PEFT, &CPOP, &SMALL_COMMUNICATION, &EARLIEST_TASK_FIRST];
            let index = rng.random_range(0..=solvers.len());
            let solver = solvers.get(index).copied().unwrap_or(&OneDevice);
            if let Some(placement) = placed(solver, instance.problem(), stop)? {
                return Ok(Schedule::of_placement(instance, &placement));
            }
            random(subject, rng)
        }
        Start::Corrupted => {
            let teacher = &teachers[rng.random_range(0..teachers.len())];
            let device_of: Vec<DeviceId> =
                instance.graph().operators().map(|op| teacher.placement.device_of(op)).collect();
            let mut homes = subject.devices_of(&device_of);
            corrupt(subject, &mut homes, rng);
            homes
        }
        Start::Random => random(subject, rng),
    };
    let device_of = subject.level().project(instance, &homes.iter().copied().collect());
    let order = assigned::order(instance, &device_of);
    Ok(Schedule::by_order(device_of, &order))
}

fn placed(solver: &dyn Solver, problem: &Problem, stop: &Stop) -> Result<Option<Placement>, SolveError> {
    let mut observer = Silent;
    let limits = Limits { time: stop.remaining(), ..Limits::default() };
    let mut context = Context::new(limits, &mut observer);
    Ok(solver.solve(problem, &mut context)?.plan.map(|plan| plan.placement))
}

/// The devices that can run a unit; not empty if the problem has a plan.
fn capable(subject: &Subject<'_, '_>, unit: ClusterId) -> Vec<DeviceId> {
    let devices = subject.instance().problem().cluster().devices();
    devices.filter(|&device| subject.can_run(unit, device)).collect()
}

fn random(subject: &Subject<'_, '_>, rng: &mut impl Rng) -> Keyed<ClusterId, DeviceId> {
    subject
        .level()
        .ids()
        .map(|unit| {
            let capable = capable(subject, unit);
            if capable.is_empty() { DeviceId(0) } else { capable[rng.random_range(0..capable.len())] }
        })
        .collect()
}

fn corrupt(subject: &Subject<'_, '_>, homes: &mut Keyed<ClusterId, DeviceId>, rng: &mut impl Rng) {
    let units = homes.len();
    if units == 0 {
        return;
    }
    let stretches = rng.random_range(1..=8);
    for _ in 0..stretches {
        // Lengths are log-uniform.
        let longest = (units as f64 / 5.0).max(1.0);
        let length = longest.powf(rng.random_range(0.0..=1.0)).ceil() as usize;
        let first = rng.random_range(0..units);
        let stretch = &subject.order()[first..(first + length).min(units)];
        let capable = capable(subject, stretch[0]);
        if capable.is_empty() {
            continue;
        }
        let to = capable[rng.random_range(0..capable.len())];
        for &unit in stretch {
            if subject.can_run(unit, to) {
                homes[unit] = to;
            }
        }
    }
}
