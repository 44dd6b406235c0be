//! Simulation time and pending events.

use super::agenda::Agenda;
use super::rules::Ties;

/// Simulation time, pending events and the numbering of requests.
#[derive(Debug, Default)]
pub(super) struct Clock {
    pub(super) now: f64,
    events: Agenda<Event>,
    /// Number of events scheduled so far.
    foreseen: u32,
    /// Number of instants before the current one.
    pub(super) instant: u32,
    /// Number of requests made so far.
    requests: u32,
    /// Number of events that have happened.
    pub(super) happened: u32,
}

/// An event packed into one integer, so that events are ordered as integers: by time, then tie-breaker, then kind and
/// index. Times are non-negative, so their bits have the same order as the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event(u128);

/// Kind of an event, with its operator or transfer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    OperatorEnds(u32),
    DeviceRested(u32),
    TransferArrives(u32),
    PortsRested(u32),
}

impl Event {
    fn new(time: f64, tie: u32, kind: Kind) -> Event {
        let (kind, index) = match kind {
            Kind::OperatorEnds(op) => (0, op),
            Kind::DeviceRested(op) => (1, op),
            Kind::TransferArrives(transfer) => (2, transfer),
            Kind::PortsRested(transfer) => (3, transfer),
        };
        let what = above(tie, index << 2 | kind);
        Event(u128::from(time.to_bits()) << 64 | u128::from(what))
    }

    fn time(self) -> f64 {
        f64::from_bits((self.0 >> 64) as u64)
    }

    pub(super) fn kind(self) -> Kind {
        let what = self.0 as u32;
        match what & 3 {
            0 => Kind::OperatorEnds(what >> 2),
            1 => Kind::DeviceRested(what >> 2),
            2 => Kind::TransferArrives(what >> 2),
            _ => Kind::PortsRested(what >> 2),
        }
    }
}

impl Clock {
    pub(super) fn reset(&mut self) {
        self.now = 0.0;
        self.events.clear();
        self.foreseen = 0;
        self.instant = 0;
        self.requests = 0;
        self.happened = 0;
    }

    /// Schedules an event `after` seconds from now; at equal times, lower ties come first. Returns the
    /// event's time.
    #[inline]
    pub(super) fn foresee(&mut self, after: f64, tie: u32, kind: Kind) -> f64 {
        let time = self.now + after;
        self.events.push(Event::new(time, tie, kind));
        time
    }

    /// Returns the next number for a scheduled event.
    pub(super) fn number(&mut self) -> u32 {
        self.foreseen += 1;
        self.foreseen
    }

    /// Takes the next event if it is due at the current time.
    #[inline]
    pub(super) fn due(&mut self) -> Option<Event> {
        let due = self.events.peek().is_some_and(|event| event.time() == self.now);
        if due { self.pop() } else { None }
    }

    /// Takes the next event and advances the time to it.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<Event> {
        let event = self.pop()?;
        self.now = event.time();
        self.instant += 1;
        Some(event)
    }

    #[inline]
    fn pop(&mut self) -> Option<Event> {
        self.happened += 1;
        self.events.pop()
    }

    /// Whether no event is pending.
    pub(super) fn is_over(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the sort key of a request: its time or its number, then the index.
    #[inline]
    pub(super) fn stamp(&mut self, ties: Ties, index: u32) -> u64 {
        let stamp = match ties {
            Ties::Index => self.instant,
            Ties::Request => {
                self.requests += 1;
                self.requests
            }
        };
        above(stamp, index)
    }
}

impl Clone for Clock {
    fn clone(&self) -> Clock {
        Clock { events: self.events.clone(), ..*self }
    }

    /// Does not allocate if the existing memory suffices.
    fn clone_from(&mut self, from: &Clock) {
        let mut events = std::mem::take(&mut self.events);
        events.clone_from(&from.events);
        *self = Clock { events, ..*from };
    }
}

/// Packs two numbers into one, `high` in the upper half.
pub(super) fn above(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The lower half of two packed numbers.
#[inline]
pub(super) fn low(packed: u64) -> u32 {
    packed as u32
}
