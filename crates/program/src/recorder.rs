//! An observer that shows progress and records convergence.

use std::ops::ControlFlow;
use std::time::Instant;

use stagewright::core::solver::{Event, Observer};
use stagewright::report::convergence::Convergence;
use stagewright::tasks::Kind;

use super::progress::Progress;

/// Shows progress and records values and bounds, with the seconds since its creation.
pub(crate) struct Recorder {
    progress: Progress,
    started: Instant,
    convergence: Convergence,
    /// Whether the solver's simulation counts are complete. A solver that ignores a limit on simulations may call other
    /// solvers, whose counts start over.
    counts: bool,
    /// Time at which the next incumbent was found, if the solver reports it separately.
    found: Option<Instant>,
}

impl Recorder {
    /// Creates a recorder for values of a kind. `counts` says whether the solver counts its simulations.
    pub(crate) fn new(verbose: bool, kind: Kind, counts: bool) -> Self {
        Recorder {
            progress: Progress::new(verbose, kind),
            started: Instant::now(),
            convergence: Convergence::default(),
            counts,
            found: None,
        }
    }

    /// Removes the bar and returns the record.
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
                let found = self.found.take().map(|found| found.saturating_duration_since(self.started));
                let elapsed = found.map_or(elapsed, |found| found.as_secs_f64());
                self.convergence.value(elapsed, *value);
            }
            Event::Bound { value, .. } => self.convergence.bound(elapsed, *value),
            Event::Simulations { done, at } if self.counts => {
                self.convergence.simulations(*done);
                self.found = Some(*at);
            }
            _ => {}
        }
        self.progress.event(event)
    }
}
