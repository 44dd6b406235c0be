//! Progress, shown on a terminal or with `-v`; a file or a pipe gets none otherwise. That of a solve is a bar on a
//! terminal, and lines with `-v`.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use stagewright::core::solver::{Event, Observer};
use stagewright::core::tolerance;
use stagewright::report::units::percent;
use stagewright::tasks::Kind;
use stagewright::text::visible;

use super::output::note;

/// An observer that displays progress. A bar is shown on standard error if that is a terminal.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    verbose: bool,
    phase: String,
    value: Option<f64>,
    bound: Option<f64>,
    kind: Kind,
}

impl Progress {
    /// Creates an observer for values of a kind.
    pub(crate) fn new(verbose: bool, kind: Kind) -> Self {
        let bar = (!verbose && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            // Without colours, so that NO_COLOR is respected.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Progress { bar, verbose, phase: String::new(), value: None, bound: None, kind }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&self, progress: &str) {
        let Some(bar) = &self.bar else { return };
        let mut parts = vec![self.phase.clone()];
        parts.extend(self.value.map(|value| format!("value {}", self.kind.amount(value))));
        parts.extend(self.bound.map(|bound| format!("bound {}", self.kind.amount(bound))));
        if let (Some(value), Some(bound)) = (self.value, self.bound) {
            parts.push(format!("gap {}", percent(tolerance::gap(value, bound))));
        }
        parts.push(progress.into());
        parts.retain(|part| !part.is_empty());
        bar.set_message(visible(&parts.join(", ")).into_owned());
    }
}

/// Writes a line of progress on standard error if that is a terminal, or with `-v`.
pub(crate) fn line(verbose: bool, text: &str) {
    if verbose || io::stderr().is_terminal() {
        note(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        let mut progress = String::new();
        match event {
            Event::Phase { name } => {
                self.phase.clone_from(name);
                if self.verbose {
                    note(&format!("phase: {name}"));
                }
            }
            // A nested solver starts over: its first plan and bound may be worse than the best so far.
            Event::Incumbent { value } if self.value.is_none_or(|best| *value < best) => {
                self.value = Some(*value);
                if self.verbose {
                    note(&format!("plan: {}", self.kind.amount(*value)));
                }
            }
            Event::Bound { value, source } if self.bound.is_none_or(|best| *value > best) => {
                self.bound = Some(*value);
                if self.verbose {
                    note(&format!("bound: {} ({source})", self.kind.amount(*value)));
                }
            }
            Event::Progress { done, total: Some(total) } => progress = format!("{done} of {total}"),
            Event::Progress { done, total: None } => progress = format!("{done}"),
            _ => {}
        }
        self.show(&progress);
        ControlFlow::Continue(())
    }
}
