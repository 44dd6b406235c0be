//! What the makespan consists of.
//!
//! The critical path leads from the last event back to the beginning, each activity on it the reason why the
//! next did not start earlier. Activities whose outcome the next one needed are the work itself: operators
//! and transfers that follow from one another. The others only kept a device or a port busy that the next one
//! wanted: time that another order or another placement could save. The four add up to the
//! makespan, together with the synchronisation of gradients after the last event, where devices share parameters.

use stagewright_core::simulate::{Activity, Cause, Span};

use super::Step;

/// What a stretch of the critical path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// An operator whose output the next one needed, or the last.
    Compute,
    /// A transfer that the next one waited for.
    Transfer,
    /// An operator that kept the device of the next one busy.
    Device,
    /// A transfer that kept a port of the next one busy.
    Port,
}

impl Part {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Part; 4] = [Part::Compute, Part::Transfer, Part::Device, Part::Port];

    /// A stable name, for programs.
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
    /// What it is.
    pub activity: Activity,
    /// When it runs.
    pub span: Span,
    /// Why it is on the path.
    pub part: Part,
}

impl PathStep {
    /// Seconds that it takes.
    pub fn seconds(&self) -> f64 {
        self.span.end - self.span.start
    }
}

/// The critical path of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct CriticalPath {
    /// From the beginning to the last event.
    pub steps: Vec<PathStep>,
    /// Seconds after the last event in which devices synchronise gradients of what they share.
    pub synchronisation: f64,
}

impl CriticalPath {
    /// Seconds of one part.
    pub fn seconds(&self, part: Part) -> f64 {
        self.steps.iter().filter(|step| step.part == part).map(PathStep::seconds).sum()
    }

    /// The longest activities on it, the longest first, at most so many.
    pub fn longest(&self, most: usize) -> Vec<PathStep> {
        let mut longest = self.steps.clone();
        longest.sort_by(|one, other| other.seconds().total_cmp(&one.seconds()));
        longest.truncate(most);
        longest
    }
}

impl Step<'_> {
    /// The critical path, in time linear in its length.
    pub fn critical_path(&self) -> CriticalPath {
        // What the next one on the path waited for; the last activity is there for itself.
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
