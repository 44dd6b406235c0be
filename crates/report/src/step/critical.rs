//! Breakdown of the makespan along the critical path.
//!
//! The critical path leads from the last event back to the start; each activity on it is the reason why the next
//! did not start earlier. Operators and transfers whose result the next activity needed are a chain of
//! dependences. The others only occupied a device or a port that the next activity needed: time that another order
//! or another placement could save. The four parts add up to the makespan, together with the gradient
//! synchronisation after the last event if devices share parameters.

use stagewright_core::simulate::{Activity, Cause, Span};

use super::Step;

/// Role of an activity on the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// An operator whose output the next activity needed, or the last activity.
    Compute,
    /// A transfer that the next activity waited for.
    Transfer,
    /// An operator that occupied the device of the next activity.
    Device,
    /// A transfer that occupied a port of the next activity.
    Port,
}

impl Part {
    /// All parts in display order.
    pub const ALL: [Part; 4] = [Part::Compute, Part::Transfer, Part::Device, Part::Port];

    /// Stable name for machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Part::Compute => "compute",
            Part::Transfer => "transfer",
            Part::Device => "device-busy",
            Part::Port => "link-busy",
        }
    }
}

/// An activity on the critical path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathStep {
    /// The activity.
    pub activity: Activity,
    /// Time interval of the activity.
    pub span: Span,
    /// Role of the activity on the path.
    pub part: Part,
}

impl PathStep {
    /// Duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.span.end - self.span.start
    }
}

/// The critical path of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct CriticalPath {
    /// Activities from the start to the last event.
    pub steps: Vec<PathStep>,
    /// Seconds of gradient synchronisation of shared parameters, after the last event.
    pub synchronisation: f64,
}

impl CriticalPath {
    /// Total seconds of one part.
    pub fn seconds(&self, part: Part) -> f64 {
        self.steps.iter().filter(|step| step.part == part).map(PathStep::seconds).sum()
    }

    /// The `limit` longest activities, longest first.
    pub fn longest(&self, limit: usize) -> Vec<PathStep> {
        let mut longest = self.steps.clone();
        longest.sort_by(|left, right| right.seconds().total_cmp(&left.seconds()));
        longest.truncate(limit);
        longest
    }
}

impl Step<'_> {
    /// Returns the critical path, in time linear in its length.
    pub fn critical_path(&self) -> CriticalPath {
        // Cause that the next activity on the path waited for; the last activity counts as needed.
        let mut wanted = Cause::Input;
        let mut steps = Vec::new();
        for step in self.timeline.critical_path(&self.flow) {
            let part = match (step.activity, wanted) {
                (Activity::Operator(_), Cause::Device) => Part::Device,
                (Activity::Transfer(_), Cause::Port) => Part::Port,
                (Activity::Operator(_), _) => Part::Compute,
                (Activity::Transfer(_), _) => Part::Transfer,
            };
            steps.push(PathStep { activity: step.activity, span: step.span, part });
            wanted = step.cause;
        }
        steps.reverse();
        CriticalPath { steps, synchronisation: self.timeline.synchronisation() }
    }
}
