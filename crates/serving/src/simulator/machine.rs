//! A replica of a simulation: requests from admission to their end, and microbatches on stages.

use std::collections::VecDeque;

use super::batch::{Intake, Prompt, Sequence};
use super::fleet::{Group, Role};
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
    id: MachineId,
    pub(super) group: &'a Group<'a>,
    stages: Vec<Server<usize>>,
    microbatches: Vec<Microbatch>,
    /// Microbatches that run nowhere, the one first that has waited longest.
    idle: VecDeque<usize>,
    ranks: Vec<Rank>,
    /// Requests that are not admitted.
    waiting: VecDeque<RequestId>,
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

    /// Takes a request from the router.
    pub(super) fn arrive(&mut self, request: RequestId, world: &mut World) {
        let tokens = world.requests[request].tokens;
        let held = if self.group.role == Role::Prefill { tokens.input } else { tokens.longest() };
        let Some(memory) = ranks::memory_share(&self.group.replica, held) else {
            self.outstanding -= 1;
            world.effects.push(Effect::Refused(request));
            return;
        };
        world.requests[request].memory = if self.group.role == Role::Prefill { 0 } else { memory };
        self.waiting.push_back(request);
        self.admit(world);
        self.start(world);
    }

    /// Admits waiting requests in their order, as long as the next fits on a rank.
    fn admit(&mut self, world: &mut World) {
        let limit = if self.group.role == Role::Prefill { u64::MAX } else { self.group.batch };
        while let Some(&request) = self.waiting.front() {
            let memory = world.requests[request].memory;
            let Some(rank) = ranks::admit(&mut self.ranks, limit, memory) else { return };
            self.waiting.pop_front();
            world.requests[request].rank = rank;
            if self.group.role == Role::Decode {
                self.join(request, world);
            } else {
                world.calendar.after(self.group.replica.stages()[0].engine().wait_s, Event::Ready(request));
            }
        }
    }

    /// Queues the prompt of an admitted request.
    pub(super) fn read(&mut self, request: RequestId, world: &mut World) {
        let own = &mut world.requests[request];
        own.waited = self.residual();
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
    fn join(&mut self, request: RequestId, world: &mut World) {
        let own = &world.requests[request];
        let waited = if self.group.role == Role::Decode { self.residual() } else { own.waited };
        let owed = (self.group.replica.stages()[0].engine().wait_steps - waited).max(0.0);
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

    fn tokens_per_step(&self) -> f64 {
        self.group.replica.speculation().map_or(1.0, |speculation| speculation.tokens_per_step())
    }

    /// Frees the place of a request.
    fn leave(&mut self, request: RequestId, times: [f64; 2], world: &mut World) {
        self.release(request, world);
        world.effects.push(Effect::Ended(request, times));
    }

    fn release(&mut self, request: RequestId, world: &World) {
        let own = &world.requests[request];
        self.ranks[own.rank].release(own.memory);
        self.outstanding -= 1;
    }

    /// Updates the number of sequences that are decoded.
    fn count(&mut self, now: f64) {
        let batches = self.microbatches.iter().flat_map(|microbatch| &microbatch.ranks);
        self.decoding.set(batches.map(|batch| batch.sequences.len() as u64).sum(), now);
    }

    /// Begins a step of the next microbatch with work, if the first stage is free.
    fn start(&mut self, world: &mut World) {
        let engine = self.group.replica.stages()[0].engine();
        let intake = Intake { chunk: engine.chunk, is_whole: self.group.role == Role::Prefill };
        let queries =
            self.group.replica.speculation().map_or(1.0, |speculation| 1.0 + f64::from(speculation.drafts));
        for _ in 0..self.idle.len() {
            if self.stages[0].is_busy() {
                return;
            }
            let Some(index) = self.idle.pop_front() else { return };
            let microbatch = &mut self.microbatches[index];
            for (batch, rank) in microbatch.ranks.iter_mut().zip(&mut self.ranks) {
                batch.form(&mut rank.prompts, intake, queries);
            }
            if microbatch.ranks.iter().all(|batch| batch.step.tokens() <= 0.0) {
                self.idle.push_back(index);
                continue;
            }
            (microbatch.began, microbatch.rest) = (world.calendar.now(), 0.0);
            self.enter(0, index, world);
        }
    }

    /// Brings a microbatch to a stage.
    fn enter(&mut self, stage: usize, index: usize, world: &mut World) {
        let (group, microbatches) = (self.group, &mut self.microbatches);
        let next = self.stages[stage].arrive(index, |&index| microbatches[index].run(group, stage));
        if let Some(seconds) = next {
            world.calendar.after(seconds, Event::Stage(self.id, stage));
        }
    }

    /// Ends a step on a stage.
    pub(super) fn stage_done(&mut self, stage: usize, world: &mut World) {
        let (group, microbatches) = (self.group, &mut self.microbatches);
        let (done, next) = self.stages[stage].finish(|&index| microbatches[index].run(group, stage));
        if let Some(seconds) = next {
            world.calendar.after(seconds, Event::Stage(self.id, stage));
        }
        if let Some(index) = done {
            if stage + 1 < self.stages.len() {
                self.enter(stage + 1, index, world);
            } else {
                self.complete(index, world);
            }
        }
        self.start(world);
    }

    /// Ends a step of a microbatch on all stages.
    fn complete(&mut self, index: usize, world: &mut World) {
        let now = world.calendar.now();
        let tokens = self.tokens_per_step();
        let mut ended = Vec::new();
        let mut prompted = Vec::new();
        let microbatch = &mut self.microbatches[index];
        for batch in &mut microbatch.ranks {
            for part in batch.parts.drain(..) {
                let own = &mut world.requests[part.request];
                own.rest += microbatch.rest * part.tokens / batch.step.prompt;
                own.waited += if batch.running > 0 { tokens } else { 0.0 };
                if part.is_last {
                    prompted.push((part.request, own.rest));
                }
            }
            batch.advance([microbatch.began, now], tokens, |request, times| ended.push((request, times)));
        }
        self.idle.push_back(index);
        for (request, times) in ended {
            self.leave(request, times, world);
        }
        for (request, rest) in prompted {
            if self.group.role == Role::Prefill {
                self.release(request, world);
                world.effects.push(Effect::Prompted(request));
            } else if rest > 0.0 {
                world.calendar.after(rest, Event::Join(request));
            } else {
                self.join(request, world);
            }
        }
        self.count(now);
        self.admit(world);
    }
}
