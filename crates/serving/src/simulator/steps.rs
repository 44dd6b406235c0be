//! Steps of a replica: microbatches on stages.

use stagewright_core::document::ServingRole;

use super::batch::Intake;
use super::machine::Machine;
use super::world::{Effect, Event, World};

impl Machine<'_> {
    /// Begins a step at the end of this instant, when all that happens in it is known.
    pub(super) fn start(&mut self, world: &mut World) {
        if !self.is_starting {
            self.is_starting = true;
            world.calendar.at_end_of_instant(Event::Begin(self.id));
        }
    }

    /// Begins a step of the next microbatch with work, if the first stage is free.
    pub(super) fn begin(&mut self, world: &mut World) {
        self.is_starting = false;
        let engine = self.group.replica.stages()[0].engine();
        let intake = Intake { chunk: engine.chunk, is_whole: self.group.role == ServingRole::Prefill };
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
            if self.group.role == ServingRole::Prefill {
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
