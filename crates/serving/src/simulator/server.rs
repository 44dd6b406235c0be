//! A server with a queue, for any jobs and any service times.

use std::collections::VecDeque;

/// A server that works on one job at a time, in the order in which they arrive. Service times are those of a function, which is
/// called when the service of a job begins.
#[derive(Debug)]
pub(super) struct Server<J> {
    queue: VecDeque<J>,
    current: Option<J>,
    /// Seconds of all services that have begun.
    pub(super) busy: f64,
}

impl<J> Server<J> {
    /// An idle server.
    pub(super) fn new() -> Server<J> {
        Server { queue: VecDeque::new(), current: None, busy: 0.0 }
    }

    /// Whether a job is served.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Adds a job. Gives the seconds of its service if that begins at once.
    pub(super) fn arrive(&mut self, job: J, service: impl FnOnce(&J) -> f64) -> Option<f64> {
        self.queue.push_back(job);
        if self.is_busy() { None } else { self.begin(service) }
    }

    /// Ends the service of the current job. Gives the job, and the seconds of the next service if there is another job.
    pub(super) fn finish(&mut self, service: impl FnOnce(&J) -> f64) -> (Option<J>, Option<f64>) {
        let job = self.current.take();
        (job, self.begin(service))
    }

    fn begin(&mut self, service: impl FnOnce(&J) -> f64) -> Option<f64> {
        let job = self.queue.pop_front()?;
        let seconds = service(&job);
        self.busy += seconds;
        self.current = Some(job);
        Some(seconds)
    }
}
