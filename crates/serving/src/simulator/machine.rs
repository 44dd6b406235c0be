//! A replica of a simulation: requests from admission to their end.

use std::collections::VecDeque;

use stagewright_core::document::ServingRole;

use super::batch::{Prompt, Sequence};
use super::fleet::Group;
use super::level::Level;
use super::microbatch::Microbatch;
use super::ranks::{self, Rank};
use super::server::Server;
use super::world::{Effect, Event, MachineId, RequestId, World};

/// Share of a step that a request waits until the next begins, in the mean.
const HALF_STEP: f64 = 0.5;

/// A replica with its requests.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    /// Index of the replica.
    pub(super) id: MachineId,
    /// Group of the replica.
    pub(super) group: &'a Group<'a>,
    /// Stages, which serve numbers of microbatches.
    pub(super) stages: Vec<Server<usize>>,
    /// Microbatches, as many as stages.
    pub(super) microbatches: Vec<Microbatch>,
    /// Microbatches that run nowhere, the one first that has waited longest.
    pub(super) idle: VecDeque<usize>,
    /// Ranks, with what they have admitted.
    pub(super) ranks: Vec<Rank>,
    /// Requests that are not admitted.
    waiting: VecDeque<RequestId>,
    /// Whether an event will begin a step.
    pub(super) is_starting: bool,
    /// Requests that the router has sent here and that have not left.
    pub(super) outstanding: u64,
    /// Sequences that are decoded.
    pub(super) decoding: Level,
    /// Times from which on the links of the ranks are free.
    pub(super) links: Vec<f64>,
}

impl<'a> Machine<'a> {
    /// An empty replica of a group.
    pub(super) fn new(id: MachineId, group: &'a Group<'a>) -> Machine<'a> {
        let (stages, ranks) =
            (group.replica.stages().len(), group.replica.stages()[0].parallel().data as usize);
        Machine {
            id,
            group,
            stages: (0..stages).map(|_| Server::new()).collect(),
            microbatches: (0..stages).map(|_| Microbatch::new(ranks)).collect(),
            idle: (0..stages).collect(),
            ranks: (0..ranks).map(|_| Rank::default()).collect(),
            waiting: VecDeque::new(),
            is_starting: false,
            outstanding: 0,
            decoding: Level::default(),
            links: vec![0.0; ranks],
        }
    }

    /// Seconds that stages have been busy, in the mean of the stages.
    pub(super) fn busy(&self) -> f64 {
        self.stages.iter().map(|stage| stage.busy).sum::<f64>() / self.stages.len() as f64
    }

    /// Forgets what was measured before a time.
    pub(super) fn restart(&mut self, now: f64) {
        self.stages.iter_mut().for_each(|stage| stage.busy = 0.0);
        self.decoding.restart(now);
    }

    /// Seconds of the steps before the first token that a request waits without a place in a replica that decodes: all but the
    /// last, at its present batch.
    pub(super) fn handing_seconds(&self, request: RequestId, world: &World) -> f64 {
        let replica = &self.group.replica;
        let engine = replica.stages()[0].engine();
        let batch = (self.decoding.value() as f64 / replica.data()).max(1.0);
        let token = replica.token_seconds(batch, world.requests[request].tokens.mean_context());
        (engine.wait_steps - self.tokens_per_step()).max(0.0) * engine.decode_share * token
    }

    /// Takes a request from the router.
    pub(super) fn arrive(&mut self, request: RequestId, world: &mut World) {
        let tokens = world.requests[request].tokens;
        let held = if self.group.role == ServingRole::Prefill { tokens.input } else { tokens.longest() };
        let Some(memory) = ranks::memory_share(&self.group.replica, held) else {
            self.outstanding -= 1;
            world.effects.push(Effect::Refused(request));
            return;
        };
        world.requests[request].memory = if self.group.role == ServingRole::Prefill { 0 } else { memory };
        self.waiting.push_back(request);
        self.admit(world);
        self.start(world);
    }

    /// Admits waiting requests in their order, as long as the next fits on a rank.
    pub(super) fn admit(&mut self, world: &mut World) {
        let limit = if self.group.role == ServingRole::Prefill { u64::MAX } else { self.group.batch };
        while let Some(&request) = self.waiting.front() {
            let memory = world.requests[request].memory;
            let Some(rank) = ranks::admit(&mut self.ranks, limit, memory) else { return };
            self.waiting.pop_front();
            world.requests[request].rank = rank;
            if self.group.role == ServingRole::Decode {
                self.join(request, world);
            } else {
                world.calendar.after(self.group.replica.stages()[0].engine().wait_s, Event::Ready(request));
            }
        }
    }

    /// Queues the prompt of an admitted request.
    pub(super) fn read(&mut self, request: RequestId, world: &mut World) {
        let own = &mut world.requests[request];
        // The next microbatch takes the prompt as soon as the first stage is free.
        own.waited = self.residual() / self.stages.len() as f64;
        let prompt = Prompt {
            request,
            left: own.tokens.input - own.tokens.shared_prefix,
            past: own.tokens.shared_prefix,
        };
        self.ranks[own.rank].prompts.push_back(prompt);
        self.start(world);
    }

    /// Decodes a request after its prompt.
    pub(super) fn decode(&mut self, request: RequestId, world: &mut World) {
        self.join(request, world);
        self.admit(world);
        self.start(world);
    }

    /// Adds a sequence to the microbatch with the fewest. The steps before its first token that have not been simulated follow now.
    pub(super) fn join(&mut self, request: RequestId, world: &mut World) {
        let own = &world.requests[request];
        let wait = self.group.replica.stages()[0].engine().wait_steps;
        let owed = if self.group.role == ServingRole::Decode {
            wait.min(self.tokens_per_step()) - self.residual()
        } else {
            wait - own.waited
        };
        let owed = owed.max(0.0);
        let now = world.calendar.now();
        let last = own.tokens.output as f64 - 1.0;
        if owed + last <= 0.0 {
            self.leave(request, [now, now], world);
            return;
        }
        let rank = own.rank;
        let first = (owed == 0.0).then_some(now);
        let input = own.tokens.input as f64;
        let sequence = Sequence { request, input, progress: -owed, last, first };
        let batches = self.microbatches.iter_mut().map(|microbatch| &mut microbatch.ranks[rank]);
        if let Some(batch) = batches.min_by_key(|batch| batch.sequences.len()) {
            batch.sequences.push(sequence);
        }
        self.count(now);
    }

    /// Tokens of a sequence in the time until a step can begin.
    fn residual(&self) -> f64 {
        if self.stages[0].is_busy() || self.idle.is_empty() {
            HALF_STEP * self.tokens_per_step()
        } else {
            0.0
        }
    }

    /// Tokens of a sequence in a step.
    pub(super) fn tokens_per_step(&self) -> f64 {
        self.group.replica.speculation().map_or(1.0, |speculation| speculation.tokens_per_step())
    }

    /// Ends a request, with the times of its first and last token.
    pub(super) fn leave(&mut self, request: RequestId, times: [f64; 2], world: &mut World) {
        self.release(request, world);
        world.effects.push(Effect::Ended(request, times));
    }

    /// Frees the place of a request that leaves the replica, on its rank and for the router.
    pub(super) fn release(&mut self, request: RequestId, world: &World) {
        let own = &world.requests[request];
        self.ranks[own.rank].release(own.memory);
        self.outstanding -= 1;
    }

    /// Updates the number of sequences that are decoded.
    pub(super) fn count(&mut self, now: f64) {
        let batches = self.microbatches.iter().flat_map(|microbatch| &microbatch.ranks);
        self.decoding.set(batches.map(|batch| batch.sequences.len() as u64).sum(), now);
    }
}
