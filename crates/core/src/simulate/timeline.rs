//! Timeline and critical path of a run.

use super::Flow;
use crate::ids::Keyed;

/// Stands for no transfer.
pub(super) const NOBODY: u32 = u32::MAX;

/// Time interval in seconds since the start of the step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Span {
    /// Start of the interval.
    pub start: f64,
    /// End of the interval.
    pub end: f64,
}

/// An operator or a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// An operator, by its index in the flow.
    Operator(u32),
    /// A transfer, by its index in the flow.
    Transfer(u32),
}

/// The last thing that an activity waited for before it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Nothing; the activity started with the step.
    Nothing,
    /// An input of the operator, or the tensor of the transfer.
    Input,
    /// The device of the operator, which ran another operator.
    Device,
    /// A port, which another transfer held.
    Port,
}

/// A step of the critical path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CriticalStep {
    /// The activity.
    pub activity: Activity,
    /// Time interval of the activity.
    pub span: Span,
    /// Reason why the activity did not start earlier. The activity that it waited for is the next step of the list.
    pub cause: Cause,
}

/// Record of a simulated step. All indices refer to the flow that was run.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    pub(super) makespan: f64,
    pub(super) operators: Keyed<u32, Span>,
    pub(super) transfers: Keyed<u32, Span>,
    pub(super) peaks: Vec<f64>,
    pub(super) synchronisation: f64,
    /// Activity that delivered the last input of each operator.
    pub(super) arrived_by: Keyed<u32, Option<Activity>>,
    /// The operator that ran on the same device before each operator.
    pub(super) ran_before: Keyed<u32, Option<u32>>,
    /// The last transfer that left the ports before each transfer, or [`NOBODY`].
    pub(super) left_by: Keyed<u32, u32>,
    pub(super) last: Option<Activity>,
}

impl Timeline {
    /// Seconds until the last event and the gradient synchronisation after it.
    pub fn makespan(&self) -> f64 {
        self.makespan
    }

    /// Seconds of gradient synchronisation after the last event; part of the makespan.
    pub fn synchronisation(&self) -> f64 {
        self.synchronisation
    }

    /// Time interval of every operator.
    pub fn operators(&self) -> &[Span] {
        &self.operators
    }

    /// Time interval of every transfer, excluding the gaps of its ports.
    pub fn transfers(&self) -> &[Span] {
        &self.transfers
    }

    /// Peak bytes of every device.
    pub fn peak_bytes(&self) -> &[f64] {
        &self.peaks
    }

    /// `seconds` as a share of the makespan: the utilisation of a device or port that is busy for that time.
    pub fn utilisation(&self, seconds: f64) -> f64 {
        if self.makespan > 0.0 { seconds / self.makespan } else { 0.0 }
    }

    /// The span of an activity.
    pub fn span(&self, activity: Activity) -> Span {
        match activity {
            Activity::Operator(op) => self.operators[op],
            Activity::Transfer(transfer) => self.transfers[transfer],
        }
    }

    /// The critical path: from the activity of the last event back to an activity that began with the step. Each
    /// activity is the reason why the one before it in the list did not start earlier. It ends when that one starts, or
    /// a pause or gap earlier. Takes time linear in the length of the path.
    ///
    /// # Panics
    /// If the timeline belongs to another flow.
    pub fn critical_path(&self, flow: &Flow) -> Vec<CriticalStep> {
        let mut path = Vec::new();
        let mut next = self.last;
        while let Some(activity) = next {
            let span = self.span(activity);
            let starts_it = |cause: &Activity| self.span(*cause).end == span.start;
            let (input, held) = match activity {
                Activity::Operator(op) => {
                    let before = self.ran_before[op].map(Activity::Operator);
                    (self.arrived_by[op], before.map(|before| (before, Cause::Device)))
                }
                Activity::Transfer(transfer) => {
                    let before = Some(self.left_by[transfer]).filter(|&before| before != NOBODY);
                    let before = before.map(Activity::Transfer);
                    let producer = Activity::Operator(flow.producer_of(transfer));
                    (Some(producer), before.map(|before| (before, Cause::Port)))
                }
            };
            let cause = match (input, held) {
                (Some(input), _) if starts_it(&input) => Some((input, Cause::Input)),
                (_, Some(held)) if span.start > 0.0 => Some(held),
                _ => None,
            };
            path.push(CriticalStep {
                activity,
                span,
                cause: cause.map_or(Cause::Nothing, |(_, cause)| cause),
            });
            next = cause.map(|(activity, _)| activity);
        }
        path
    }
}
