//! What is to happen, in order.

use super::agenda::Agenda;
use super::rules::Ties;

/// What is to happen, and how requests are numbered.
#[derive(Debug, Default)]
pub(super) struct Clock {
    pub(super) now: f64,
    events: Agenda<Event>,
    /// Number of events foreseen so far.
    foreseen: u32,
    /// Number of the present instant.
    pub(super) instant: u32,
    /// Number of requests so far.
    requests: u32,
    /// Number of events that have happened.
    pub(super) happened: u32,
}

/// An event in one word, so that the order of events is that of numbers: its time, then what decides at one
/// time, then what happens. Times are not negative, so they compare as their bits do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event(u128);

/// What happens, and to which operator or transfer.
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

    /// Something is to happen after so long, and of what happens at its time after all of a lower tie.
    /// Returns its time.
    #[inline]
    pub(super) fn foresee(&mut self, after: f64, tie: u32, kind: Kind) -> f64 {
        let time = self.now + after;
        self.events.push(Event::new(time, tie, kind));
        time
    }

    /// The number of an event that is foreseen now.
    pub(super) fn number(&mut self) -> u32 {
        self.foreseen += 1;
        self.foreseen
    }

    /// The next event at the present time.
    #[inline]
    pub(super) fn due(&mut self) -> Option<Event> {
        let due = self.events.peek().is_some_and(|event| event.time() == self.now);
        if due { self.pop() } else { None }
    }

    /// The next event, at a later time.
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

    /// Whether nothing is to happen any more.
    pub(super) fn is_over(&self) -> bool {
        self.events.is_empty()
    }

    /// Orders requests: by time or by number, then by index.
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

    /// Allocates nothing where there were as many events.
    fn clone_from(&mut self, from: &Clock) {
        let mut events = std::mem::take(&mut self.events);
        events.clone_from(&from.events);
        *self = Clock { events, ..*from };
    }
}

/// Two numbers as one, the first above the second.
pub(super) fn above(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
