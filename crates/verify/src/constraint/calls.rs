//! Every operator of an accelerator is in exactly one of its calls, and the number of calls is within the limit of the
//! objective.
//!
//! The *steps* of a plan for latency are its calls and host operators; each starts and ends as a unit. All inputs of a
//! call must be present before it starts, and all its outputs are available when it ends.

use stagewright_core::document::DeviceDocument;

use super::Placed;
use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// A call or a host operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanStep {
    /// Index of the device in the plan.
    pub(crate) device: usize,
    /// Index of the call on its accelerator; `None` for a host operator.
    pub(crate) call: Option<usize>,
}

/// The steps of a plan.
#[derive(Debug)]
pub(crate) struct Steps {
    /// The steps; the calls of each accelerator are consecutive and in order.
    pub(crate) list: Vec<PlanStep>,
    /// Step of each operator.
    pub(crate) step_of: Vec<usize>,
}

/// Reads the calls and reports violations. Returns `None` if an operator is not in exactly one step, so that
/// the plan has no value. O(operators + calls).
pub(crate) fn check(
    problem: &Problem,
    placed: &Placed,
    max_calls: u32,
    findings: &mut Findings,
) -> Option<Steps> {
    let mut reader = Reader {
        problem,
        placed,
        list: Vec::new(),
        step_of: vec![None; problem.graph.operators.len()],
        sound: true,
        findings,
    };
    for (position, device) in placed.devices.iter().enumerate() {
        if problem.cluster.kinds[device.kind].document.host {
            reader.host(position);
        } else {
            reader.accelerator(position, max_calls);
        }
    }
    let Reader { list, step_of, sound, .. } = reader;
    let step_of = step_of.into_iter().collect::<Option<_>>()?;
    sound.then_some(Steps { list, step_of })
}

impl PlanStep {
    /// Label of the step in messages; `operator` is one of its operators.
    pub(crate) fn label(self, placed: &Placed, operator: &str) -> String {
        let device = placed.name(self.device);
        match self.call {
            Some(call) => format!("call {call} of {device:?}"),
            None => format!("{operator:?} on {device:?}"),
        }
    }
}

struct Reader<'a, 'f> {
    problem: &'a Problem<'a>,
    placed: &'a Placed<'a>,
    list: Vec<PlanStep>,
    step_of: Vec<Option<usize>>,
    sound: bool,
    findings: &'f mut Findings,
}

impl Reader<'_, '_> {
    fn host(&mut self, position: usize) {
        let placed = self.placed;
        let device = &placed.devices[position];
        let DeviceDocument { name, calls, .. } = device.document;
        if calls.is_some() {
            self.report(Subject::Device(name.clone()), || {
                format!("device {name:?} is a host, but has calls")
            });
        }
        for &operator in &device.operators {
            self.step_of[operator] = Some(self.list.len());
            self.list.push(PlanStep { device: position, call: None });
        }
    }

    fn accelerator(&mut self, position: usize, max_calls: u32) {
        let (problem, placed) = (self.problem, self.placed);
        let device = &placed.devices[position];
        let name = &device.document.name;
        let calls = device.document.calls.as_deref().unwrap_or_default();
        let subject = || Subject::Device(name.clone());
        if calls.len() as u64 > u64::from(max_calls) {
            self.report(subject(), || {
                format!("device {name:?} has {} calls, but at most {max_calls} are allowed", calls.len())
            });
        }
        if calls.is_empty() {
            if !device.operators.is_empty() {
                self.report(subject(), || format!("device {name:?} has operators, but no calls"));
            }
            return;
        }
        for (call, operators) in calls.iter().enumerate() {
            if operators.is_empty() {
                self.report(subject(), || format!("call {call} of {name:?} is empty"));
            }
            let step = self.list.len();
            self.list.push(PlanStep { device: position, call: Some(call) });
            for operator in operators {
                self.read(step, operator);
            }
        }
        for &operator in &device.operators {
            if self.step_of[operator].is_none() {
                let operator = &problem.graph.operators[operator].name;
                self.report(Subject::Operator(operator.clone()), || {
                    format!("operator {operator:?} is in none of the calls of {name:?}")
                });
            }
        }
    }

    /// Reads an operator of a call.
    fn read(&mut self, step: usize, operator: &str) {
        let (problem, placed) = (self.problem, self.placed);
        let here = self.list[step];
        let subject = || Subject::Operator(operator.to_owned());
        let found = problem.graph.find(operator).filter(|&found| placed.device_of[found] == here.device);
        let Some(found) = found else {
            self.sound = false;
            self.report(subject(), || {
                let here = here.label(placed, operator);
                format!("{here} runs {operator:?}, which is not on this device")
            });
            return;
        };
        let Some(first) = self.step_of[found] else {
            self.step_of[found] = Some(step);
            return;
        };
        let there = self.list[first];
        self.sound = false;
        self.report(subject(), || {
            let (there, here) = (there.label(placed, operator), here.label(placed, operator));
            format!("operator {operator:?} is in {there} and again in {here}")
        });
    }

    fn report(&mut self, subject: Subject, message: impl FnOnce() -> String) {
        self.findings.push(ViolationKind::Calls, subject, message);
    }
}
