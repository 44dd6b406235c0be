//! The simulator: against queueing theory, against steps by hand, and refused input.

mod by_hand;
mod input;
mod theory;

use stagewright_core::document::LinkDocument;
use stagewright_core::document::ServingRole;
use stagewright_serving::simulator::{
    Arrivals, Fleet, Group, Outcome, Settings, TracedRequest, Traffic, simulate,
};
use stagewright_serving::{Replica, RequestClass};

/// A link that takes next to no time.
const FAST: LinkDocument = LinkDocument { latency_s: 0.0, bandwidth: 1e30 };

/// Settings that measure from the beginning on, for as long as tests need.
const ALL: Settings = Settings { seed: 1, warm_up_s: 0.0, measured_s: 1e6, events: 10_000_000 };

fn group<'a>(role: ServingRole, replica: &Replica<'a>) -> Group<'a> {
    Group { class: 0, role, replica: replica.clone(), count: 1, batch: 1 << 20, weight: 1.0 }
}

fn fleet(class: RequestClass, arrivals: Arrivals, groups: Vec<Group>) -> Fleet {
    Fleet { traffic: vec![Traffic { class, arrivals }], groups, transfer: FAST }
}

/// Requests of a class that arrive at the beginning.
fn together(number: usize, class: RequestClass) -> Arrivals {
    let request = TracedRequest { arrival_s: 0.0, input: class.input, output: class.output };
    Arrivals::Trace(vec![request; number])
}

fn run(fleet: &Fleet, settings: &Settings) -> Outcome {
    simulate("", fleet, settings).expect("a fleet")
}
