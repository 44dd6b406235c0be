//! State that all replicas of a simulation share: the calendar, the requests, and what has happened to them.

use stagewright_core::ids::Keyed;

use super::calendar::Calendar;
use crate::request::RequestClass;

stagewright_core::id! {
    /// Index of a request in the system. Later requests take the places of those that ended.
    pub(super) RequestId;
    /// Index of a replica.
    pub(super) MachineId;
}

/// Event of a simulation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// The next request of a class arrives.
    Arrive(usize),
    /// A request has waited before its prompt.
    Ready(RequestId),
    /// A prompt has ended, and the request may be decoded on the same replica.
    Join(RequestId),
    /// A request has come to the replica that decodes it.
    Handed(RequestId),
    /// A replica begins a step if it can.
    Begin(MachineId),
    /// A stage of a replica has ended a step.
    Stage(MachineId, usize),
    /// The warm-up ends.
    Measure,
    /// The simulation ends.
    Stop,
}

/// Change of a request by a replica.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// A request has all its tokens: times of the first and of the last.
    Ended(RequestId, [f64; 2]),
    /// A replica for prompts has read the prompt.
    Prompted(RequestId),
    /// The cache of the request never fits.
    Refused(RequestId),
}

/// A request in the system.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// Number of its class.
    pub(super) class: usize,
    /// Tokens.
    pub(super) tokens: RequestClass,
    /// Time of the arrival in seconds.
    pub(super) arrived: f64,
    /// Replica that it is on or goes to.
    pub(super) machine: MachineId,
    /// Rank of the replica.
    pub(super) rank: usize,
    /// Share of the rank's memory that is reserved.
    pub(super) memory: u64,
    /// Steps before the first token that have been simulated, in tokens of a sequence.
    pub(super) waited: f64,
    /// Seconds of the prompt that follow its steps.
    pub(super) rest: f64,
}

/// Shared state.
#[derive(Debug)]
pub(super) struct World {
    /// Events to come.
    pub(super) calendar: Calendar<Event>,
    /// Requests in the system, and places that are free.
    pub(super) requests: Keyed<RequestId, Request>,
    free: Vec<RequestId>,
    /// Effects that have not been handled.
    pub(super) effects: Vec<Effect>,
}

impl World {
    /// An empty system at time 0.
    pub(super) fn new() -> World {
        World { calendar: Calendar::new(), requests: Keyed::new(), free: Vec::new(), effects: Vec::new() }
    }

    /// Adds a request.
    pub(super) fn insert(&mut self, request: Request) -> RequestId {
        match self.free.pop() {
            Some(id) => {
                self.requests[id] = request;
                id
            }
            None => self.requests.push(request),
        }
    }

    /// Frees the place of a request.
    pub(super) fn remove(&mut self, id: RequestId) {
        self.free.push(id);
    }

    /// Number of requests in the system.
    pub(super) fn in_system(&self) -> usize {
        self.requests.len() - self.free.len()
    }
}
