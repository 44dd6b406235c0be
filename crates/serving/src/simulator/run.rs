//! The events of a simulation in their order.

use stagewright_core::document::ServingRole;
use stagewright_core::ids::Keyed;
use stagewright_core::seed;
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

use super::arrivals::{Arrivals, MOST_REQUESTS, Source};
use super::fleet::Fleet;
use super::machine::Machine;
use super::outcome::{ClassRecord, GroupOutcome, Outcome};
use super::router;
use super::world::{Effect, Event, MachineId, Request, RequestId, World};
use crate::request::RequestClass;

/// Settings of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Seed of arrivals.
    pub seed: u64,
    /// Seconds at the beginning that are not measured.
    pub warm_up_s: f64,
    /// Seconds that are measured, unless a trace ends before.
    pub measured_s: f64,
    /// Maximum number of events, which bounds time: steps of stages, and a few for each request.
    pub events: u64,
}

/// Simulates the requests of a fleet. The same fleet and settings give the same outcome.
///
/// Takes time proportional to events, each with the sequences of its replica; memory is proportional to requests in the system.
///
/// # Errors
/// If [`Fleet::check`] refuses the fleet, or times of the settings are no positive numbers (L024). `label` names the input.
pub fn simulate(label: &str, fleet: &Fleet, settings: &Settings) -> Result<Outcome> {
    fleet.check(label)?;
    let times =
        [("warm_up_s", settings.warm_up_s, 0.0), ("measured_s", settings.measured_s, f64::MIN_POSITIVE)];
    for (path, seconds, least) in times {
        if !seconds.is_finite() || seconds < least {
            let message = format!("`{path}` is {seconds}");
            return Err(InputError::at_path(L::L024, label, path, message, "give a number of seconds"));
        }
    }
    Ok(Run::new(fleet, settings).finish(settings))
}

struct Run<'a> {
    fleet: &'a Fleet<'a>,
    machines: Keyed<MachineId, Machine<'a>>,
    /// Group of every replica.
    groups: Keyed<MachineId, usize>,
    /// Of every class, replicas that take its requests, and those that decode after prompts.
    candidates: Vec<[Vec<MachineId>; 2]>,
    sources: Vec<Source<'a>>,
    /// Next arrival of every class.
    arrivals: Vec<Option<RequestClass>>,
    /// Requests of every class that arrived.
    sent: Vec<u64>,
    records: Vec<ClassRecord>,
    world: World,
    /// Time from which on is measured.
    start: f64,
}

impl<'a> Run<'a> {
    fn new(fleet: &'a Fleet<'a>, settings: &Settings) -> Run<'a> {
        let mut machines = Keyed::new();
        let mut groups = Keyed::new();
        let mut candidates = vec![[Vec::new(), Vec::new()]; fleet.traffic.len()];
        for (index, group) in fleet.groups.iter().enumerate() {
            for _ in 0..group.count {
                let id = machines.push(Machine::new(machines.next_id(), group));
                groups.push(index);
                candidates[group.class][usize::from(group.role == ServingRole::Decode)].push(id);
            }
        }
        let source = |(index, traffic): (usize, &'a super::fleet::Traffic)| {
            Source::new(&traffic.arrivals, traffic.class, seed::stream(settings.seed, index as u64))
        };
        let mut run = Run {
            fleet,
            machines,
            groups,
            candidates,
            sources: fleet.traffic.iter().enumerate().map(source).collect(),
            arrivals: vec![None; fleet.traffic.len()],
            sent: vec![0; fleet.traffic.len()],
            records: fleet.traffic.iter().map(|_| ClassRecord::new()).collect(),
            world: World::new(),
            start: 0.0,
        };
        run.world.calendar.at_time(settings.warm_up_s, Event::Measure);
        run.world.calendar.at_time(settings.warm_up_s + settings.measured_s, Event::Stop);
        (0..fleet.traffic.len()).for_each(|class| run.expect(class));
        run
    }

    fn finish(mut self, settings: &Settings) -> Outcome {
        let mut events = 0;
        let mut is_cut = false;
        while self.is_alive() && !is_cut {
            let Some(event) = self.world.calendar.pop() else { break };
            if matches!(event, Event::Stop) {
                break;
            }
            self.handle(event);
            self.settle();
            events += 1;
            is_cut = events >= settings.events;
        }
        if self.world.calendar.now() < settings.warm_up_s {
            self.measure();
        }
        self.outcome(is_cut)
    }

    /// Whether requests are in the system or will arrive.
    fn is_alive(&self) -> bool {
        self.world.in_system() > 0 || self.arrivals.iter().any(Option::is_some)
    }

    /// Looks up the next arrival of a class.
    fn expect(&mut self, class: usize) {
        let next = self.sources[class].next();
        self.arrivals[class] = next.map(|(_, tokens)| tokens);
        if let Some((time, _)) = next {
            self.world.calendar.at_time(time, Event::Arrive(class));
        }
    }

    fn handle(&mut self, event: Event) {
        let place = |world: &World, request: RequestId| world.requests[request].machine;
        match event {
            Event::Arrive(class) => {
                let tokens = self.arrivals[class];
                self.expect(class);
                if let Some(tokens) = tokens {
                    self.arrive(class, tokens);
                }
            }
            Event::Ready(request) => {
                self.machines[place(&self.world, request)].read(request, &mut self.world);
            }
            Event::Join(request) => {
                self.machines[place(&self.world, request)].decode(request, &mut self.world);
            }
            Event::Handed(request) => {
                self.machines[place(&self.world, request)].arrive(request, &mut self.world);
            }
            Event::Begin(machine) => self.machines[machine].begin(&mut self.world),
            Event::Stage(machine, stage) => self.machines[machine].stage_done(stage, &mut self.world),
            Event::Measure => self.measure(),
            Event::Stop => {}
        }
    }

    /// Handles the effects of an event, and those of what follows.
    fn settle(&mut self) {
        while !self.world.effects.is_empty() {
            for effect in std::mem::take(&mut self.world.effects) {
                match effect {
                    Effect::Prompted(request) => self.hand_over(request),
                    Effect::Refused(request) => {
                        self.records[self.world.requests[request].class].refused += 1;
                        self.world.remove(request);
                    }
                    Effect::Ended(request, times) => self.end(request, times),
                }
            }
        }
    }

    fn end(&mut self, request: RequestId, times: [f64; 2]) {
        let own = &self.world.requests[request];
        let class = own.class;
        self.records[class].add(own.tokens.output, own.arrived, times);
        self.world.remove(request);
        let traffic = &self.fleet.traffic[class];
        let is_followed = match traffic.arrivals {
            Arrivals::Closed { .. } => true,
            Arrivals::Benchmark { requests, .. } => self.sent[class] < requests,
            Arrivals::Poisson { .. } | Arrivals::Bursts { .. } | Arrivals::Trace(_) => false,
        };
        if is_followed {
            self.arrive(class, traffic.class);
        }
    }

    /// Sends a new request to a replica.
    fn arrive(&mut self, class: usize, tokens: RequestClass) {
        self.sent[class] += 1;
        let target = router::choose(&self.machines, &self.candidates[class][0]);
        let is_full = self.world.in_system() as u64 >= MOST_REQUESTS;
        let Some(machine) = target.filter(|_| !is_full) else {
            self.records[class].refused += 1;
            return;
        };
        let arrived = self.world.calendar.now();
        let request = Request { class, tokens, arrived, machine, rank: 0, memory: 0, waited: 0.0, rest: 0.0 };
        let request = self.world.insert(request);
        self.machines[machine].outstanding += 1;
        self.machines[machine].arrive(request, &mut self.world);
    }

    /// Sends the cache of a prompt to a replica that decodes. Transfers of a rank of either replica follow each other.
    fn hand_over(&mut self, request: RequestId) {
        let own = &self.world.requests[request];
        let (sender, rank, input) = (own.machine, own.rank, own.tokens.input);
        let Some(receiver) = router::choose(&self.machines, &self.candidates[own.class][1]) else { return };
        let stages = self.machines[sender].group.replica.stages();
        let bytes = stages.iter().map(|stage| stage.cache_bytes(input)).fold(0.0, f64::max);
        let seconds = self.fleet.transfer.latency_s + bytes / self.fleet.transfer.bandwidth;
        let handoff =
            stages[0].engine().handoff_s + self.machines[receiver].handing_seconds(request, &self.world);
        let links = &self.machines[receiver].links;
        let entry =
            (1..links.len()).fold(0, |best, link| if links[link] < links[best] { link } else { best });
        let begin = self.world.calendar.now().max(self.machines[sender].links[rank]).max(links[entry]);
        self.machines[sender].links[rank] = begin + seconds;
        self.machines[receiver].links[entry] = begin + seconds;
        self.machines[receiver].outstanding += 1;
        self.world.requests[request].machine = receiver;
        self.world.calendar.at_time(begin + seconds + handoff, Event::Handed(request));
    }

    /// Ends the warm-up.
    fn measure(&mut self) {
        self.start = self.world.calendar.now();
        self.records.iter_mut().for_each(|record| *record = ClassRecord::new());
        for id in self.machines.ids() {
            self.machines[id].restart(self.start);
        }
    }

    fn outcome(&self, is_cut: bool) -> Outcome {
        let now = self.world.calendar.now();
        let seconds = now - self.start;
        let group = |(index, group): (usize, &super::fleet::Group)| {
            let own = self.machines.enumerate().filter(|(id, _)| self.groups[*id] == index);
            let (batch, busy) = own.fold((0.0, 0.0), |(batch, busy), (_, machine)| {
                (batch + machine.decoding.mean(now), busy + machine.busy())
            });
            let (count, data) = (group.count as f64, group.replica.data());
            let utilisation = if seconds > 0.0 { (busy / seconds / count).min(1.0) } else { 0.0 };
            GroupOutcome { batch: batch / count / data, utilisation }
        };
        Outcome {
            classes: self.records.iter().map(|record| record.outcome(seconds)).collect(),
            groups: self.fleet.groups.iter().enumerate().map(group).collect(),
            seconds,
            is_cut,
        }
    }
}
