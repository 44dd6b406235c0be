//! An observer that shows what a solve reports and keeps how it converged.

use std::ops::ControlFlow;
use std::time::Instant;

use stagewright::core::solver::{Event, Observer};
use stagewright::report::convergence::Convergence;

use super::progress::Progress;

/// Shows progress and records values and bounds over the seconds since it was made.
pub(crate) struct Recorder {
    progress: Progress,
    started: Instant,
    convergence: Convergence,
}

impl Recorder {
    pub(crate) fn new(verbose: bool) -> Self {
        Recorder {
            progress: Progress::new(verbose),
            started: Instant::now(),
            convergence: Convergence::default(),
        }
    }

    /// Takes the bar away and gives what was recorded.
    pub(crate) fn finish(self) -> Convergence {
        self.progress.finish();
        self.convergence
    }
}

impl Observer for Recorder {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        let elapsed = self.started.elapsed().as_secs_f64();
        match event {
            Event::Incumbent { value } => self.convergence.value(elapsed, *value),
            Event::Bound { value, .. } => self.convergence.bound(elapsed, *value),
            Event::Simulations { done } => self.convergence.simulations(*done),
            Event::Phase { .. } | Event::Progress { .. } => {}
        }
        self.progress.event(event)
    }
}
