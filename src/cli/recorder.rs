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
    /// Whether what the solver tells of simulations is all that there were: one that does not keep to a limit on them may
    /// have others solve for it, whose counts begin anew.
    counts: bool,
    /// When what comes next was found, where the solver tells.
    found: Option<Instant>,
}

impl Recorder {
    /// For a solver that counts its simulations or not.
    pub(crate) fn new(verbose: bool, counts: bool) -> Self {
        Recorder {
            progress: Progress::new(verbose),
            started: Instant::now(),
            convergence: Convergence::default(),
            counts,
            found: None,
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
            Event::Incumbent { value } => {
                let found = self.found.take().map(|at| at.saturating_duration_since(self.started));
                let elapsed = found.map_or(elapsed, |found| found.as_secs_f64());
                self.convergence.value(elapsed, *value);
            }
            Event::Bound { value, .. } => self.convergence.bound(elapsed, *value),
            Event::Simulations { done, at } if self.counts => {
                self.convergence.simulations(*done);
                self.found = Some(*at);
            }
            Event::Simulations { .. } => {}
            Event::Phase { .. } | Event::Progress { .. } => {}
        }
        self.progress.event(event)
    }
}
