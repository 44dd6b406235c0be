//! Modulo schedules: tasks that recur once every period.
//!
//! A full pipeline begins a batch every P seconds, so a task that starts s seconds after its batch was begun also
//! starts at s + P, s + 2P and so on. Two tasks of one resource never overlap iff they do not overlap modulo P, and a
//! task may follow its predecessors by any number of periods. So every acyclic set of tasks has a schedule of period P
//! as long as no resource is busy for longer than P.
//!
//! Here the tasks of a *lane*, which are those of a resource or of one pass on it, run back to back in a given order,
//! once a period. The only choice is the position of the lane within the period. Lanes are placed one after another,
//! each late enough that no task waits for a task that is already scheduled. A task whose inputs are scheduled later
//! runs in the first turn of its lane after they arrive. A chain of stages thus hands a batch on without a pause, and a
//! pipeline of forward and backward passes alternates between them, as 1F1B does.
//!
//! Literature: Rau, "Iterative modulo scheduling", MICRO 1994, for the terms.

use std::collections::BTreeSet;

use crate::csr::Csr;
use crate::ids::Keyed;
use crate::tolerance::VALUE_RELATIVE;

/// A part of the period that is available to some lanes.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// When the window begins, modulo the period; `None` until its first lane is placed.
    start: Option<f64>,
    seconds: f64,
    /// Whether the lanes of the window belong to one resource, so that they must not overlap.
    is_resource: bool,
}

#[derive(Debug, Clone, Default)]
struct Lane {
    window: usize,
    rank: usize,
    /// Tasks of the lane in the order in which they run.
    tasks: Vec<u32>,
    seconds: f64,
    /// Seconds until the lane first begins.
    start: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Task {
    lane: usize,
    /// Seconds of the tasks that precede this one in its lane.
    offset: f64,
    seconds: f64,
    is_last: bool,
    start: Option<f64>,
}

/// Tasks, their lanes and what they wait for; after scheduling, also their starts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Modulo {
    period: f64,
    windows: Vec<Window>,
    lanes: Vec<Lane>,
    tasks: Keyed<u32, Task>,
    /// Pairs of a task and a task that it waits for.
    waits: Vec<(u32, u32)>,
}

impl Modulo {
    /// A schedule without tasks, with a period that is positive and finite.
    pub(crate) fn new(period: f64) -> Modulo {
        Modulo { period, ..Modulo::default() }
    }

    /// Adds a window for lanes of different resources, at most one lane each. Unless `start` is given, the window
    /// begins with its first lane.
    pub(crate) fn window(&mut self, start: Option<f64>, seconds: f64) -> usize {
        self.windows.push(Window { start, seconds, is_resource: false });
        self.windows.len() - 1
    }

    /// Adds a window of the whole period for at most two lanes of one resource.
    pub(crate) fn resource(&mut self) -> usize {
        self.windows.push(Window { start: None, seconds: self.period, is_resource: true });
        self.windows.len() - 1
    }

    /// Adds a lane to a window. Of the lanes that have tasks left, the one with the lowest rank is placed first.
    pub(crate) fn lane(&mut self, window: usize, rank: usize) -> usize {
        self.lanes.push(Lane { window, rank, ..Lane::default() });
        self.lanes.len() - 1
    }

    /// Adds a task to the end of a lane.
    pub(crate) fn task(&mut self, lane: usize, seconds: f64) -> u32 {
        self.push(lane, seconds, false)
    }

    /// Adds a task to the end of a lane; [`run`](Modulo::run) leaves it to [`finish`](Modulo::finish).
    pub(crate) fn last_task(&mut self, lane: usize, seconds: f64) -> u32 {
        self.push(lane, seconds, true)
    }

    fn push(&mut self, lane: usize, seconds: f64, is_last: bool) -> u32 {
        let own = &mut self.lanes[lane];
        let number = self.tasks.push(Task { lane, offset: own.seconds, seconds, is_last, start: None });
        own.seconds += seconds;
        own.tasks.push(number);
        number
    }

    /// Makes a task wait for another task of its batch. If both are in one lane, the other must come first.
    pub(crate) fn wait(&mut self, task: u32, on: u32) {
        self.waits.push((task, on));
    }

    /// Start of a task, in seconds from the beginning of its batch.
    pub(crate) fn start(&self, task: u32) -> f64 {
        self.tasks[task].start.unwrap_or(0.0)
    }

    /// End of a task, in seconds from the beginning of its batch.
    pub(crate) fn end(&self, task: u32) -> f64 {
        self.start(task) + self.tasks[task].seconds
    }

    /// Schedules all tasks except those of [`last_task`](Modulo::last_task), in O((tasks + waits) log lanes). Waits
    /// must not form a cycle.
    pub(crate) fn run(&mut self) {
        let count = self.tasks.len();
        let inputs = Csr::from_pairs(count, &self.waits);
        let reversed: Vec<(u32, u32)> = self.waits.iter().map(|&(task, on)| (on, task)).collect();
        let readers = Csr::from_pairs(count, &reversed);
        let mut missing: Keyed<u32, usize> = self.tasks.ids().map(|task| inputs.row(task).len()).collect();
        let is_free = |&task: &u32| missing[task] == 0 && !self.tasks[task].is_last;
        let mut ready: Vec<u32> = self.tasks.ids().filter(is_free).collect();
        let mut open = BTreeSet::new();
        loop {
            while let Some(task) = ready.pop() {
                let lane = self.tasks[task].lane;
                if self.tasks[task].start.is_some() {
                    continue;
                }
                if self.lanes[lane].start.is_none() {
                    open.insert((self.lanes[lane].rank, lane));
                    continue;
                }
                let from = inputs.row(task).iter().map(|&on| self.end(on)).fold(0.0, f64::max);
                self.finish(task, from);
                release(task, &readers, &mut missing, &mut ready);
            }
            let Some((_, lane)) = open.pop_first() else { return };
            for task in self.lay(lane, &inputs) {
                release(task, &readers, &mut missing, &mut ready);
            }
        }
    }

    /// Places a lane such that its tasks with known inputs never wait. Returns these tasks.
    fn lay(&mut self, lane: usize, inputs: &Csr<u32>) -> Vec<u32> {
        let mut known = Vec::new();
        let mut is_known = rustc_hash::FxHashSet::default();
        let mut start: f64 = 0.0;
        for &task in &self.lanes[lane].tasks {
            let row = inputs.row(task);
            let is_there = |on: &u32| self.tasks[*on].start.is_some() || is_known.contains(on);
            if self.tasks[task].is_last || !row.iter().all(is_there) {
                continue;
            }
            let offset = self.tasks[task].offset;
            let outside = row.iter().filter(|&on| !is_known.contains(on));
            start = outside.map(|&on| self.end(on) - offset).fold(start, f64::max);
            is_known.insert(task);
            known.push(task);
        }
        let start = self.fit(lane, start);
        for &task in &known {
            let task = &mut self.tasks[task];
            task.start = Some(start + task.offset);
        }
        known
    }

    /// Starts a lane at the earliest time, not before `start`, that keeps the lane in its window.
    fn fit(&mut self, lane: usize, start: f64) -> f64 {
        let rounding = self.rounding();
        let Lane { window, seconds, .. } = self.lanes[lane];
        let window = &mut self.windows[window];
        let begins = *window.start.get_or_insert(start);
        let into = (start - begins).rem_euclid(self.period);
        let room = (window.seconds - seconds).max(0.0);
        let start = if into <= room {
            start
        } else if into <= room + rounding {
            start - (into - room)
        } else {
            start + (self.period - into)
        };
        if window.is_resource {
            // The first lane leaves one interval free: from its end to its beginning a period later.
            *window = Window { start: Some(start + seconds), seconds: window.seconds - seconds, ..*window };
        }
        self.lanes[lane].start = Some(start);
        start
    }

    /// Starts a task in the first turn of its lane that is not before `from`.
    pub(crate) fn finish(&mut self, task: u32, from: f64) {
        let Task { lane, offset, .. } = self.tasks[task];
        let start = match self.lanes[lane].start {
            Some(start) => start,
            None => self.fit(lane, (from - offset).max(0.0)),
        };
        self.tasks[task].start = Some(self.turn(start + offset, from));
    }

    /// The first time, not before `from`, that is a whole number of periods after `first`.
    fn turn(&self, first: f64, from: f64) -> f64 {
        first + ((from - first - self.rounding()) / self.period).ceil().max(0.0) * self.period
    }

    /// The first time, not before `from`, at which a window ends.
    pub(crate) fn end_of_window(&self, window: usize, from: f64) -> f64 {
        let Window { start, seconds, .. } = self.windows[window];
        start.map_or(from, |start| self.turn(start + seconds, from))
    }

    /// Maximum difference between sums of the same seconds in different orders.
    fn rounding(&self) -> f64 {
        self.period * VALUE_RELATIVE
    }
}

/// Removes a finished task from the waits of its readers.
fn release(task: u32, readers: &Csr<u32>, missing: &mut Keyed<u32, usize>, ready: &mut Vec<u32>) {
    for &reader in readers.row(task) {
        missing[reader] -= 1;
        if missing[reader] == 0 {
            ready.push(reader);
        }
    }
}
