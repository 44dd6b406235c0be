//! Refused input, and limits.

use stagewright_core::document::LinkDocument;
use stagewright_core::document::ServingRole;
use stagewright_serving::simulator::{Arrivals, Fleet, MOST_REQUESTS, Settings, TracedRequest, simulate};
use stagewright_serving::{Parallel, Replica, RequestClass, Speculation, Worker};

use super::super::fixture::{DENSE, device, ideal, model};
use super::{ALL, fleet, group, run};

fn is_refused(fleet: &Fleet, settings: &Settings, path: &str) {
    let error = simulate("plan", fleet, settings).unwrap_err();
    assert_eq!((error.code.name, error.place.at.to_string().as_str()), ("L024", path), "{error}");
    assert!(!error.help.is_empty());
}

#[test]
fn fleets_and_settings_out_of_range_are_refused() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let class = RequestClass::new(100, 10);
    let good = fleet(class, Arrivals::Poisson { rate: 1.0 }, vec![group(ServingRole::Aggregated, &replica)]);
    assert!(simulate("", &good, &ALL).is_ok());
    let refuse = |change: &dyn Fn(&mut Fleet), path: &str| {
        let mut fleet = good.clone();
        change(&mut fleet);
        is_refused(&fleet, &ALL, path);
    };
    refuse(&|fleet| fleet.groups.clear(), "groups");
    refuse(&|fleet| fleet.groups[0].role = ServingRole::Decode, "groups");
    refuse(&|fleet| fleet.groups[0].count = 0, "groups[0].count");
    refuse(&|fleet| fleet.groups[0].count = u64::MAX, "groups[0].count");
    refuse(&|fleet| fleet.groups[0].batch = 0, "groups[0].batch");
    refuse(&|fleet| fleet.groups[0].weight = f64::NAN, "groups[0].weight");
    refuse(&|fleet| fleet.transfer = LinkDocument { latency_s: 0.0, bandwidth: 0.0 }, "transfer");
    refuse(&|fleet| fleet.traffic[0].class.output = 0, "output");
    let speculation = Speculation { drafts: 1, acceptance: 2.0, draft_share: 0.0 };
    let drafting = group(ServingRole::Aggregated, &replica.clone().with_speculation(speculation));
    is_refused(&Fleet { groups: vec![drafting], ..good.clone() }, &ALL, "acceptance");
    let mut other = good.clone();
    other.groups.push(group(ServingRole::Aggregated, &replica));
    other.groups[1].class = 1;
    is_refused(&other, &ALL, "groups[1].class");
    is_refused(&good, &Settings { warm_up_s: -1.0, ..ALL }, "warm_up_s");
    is_refused(&good, &Settings { measured_s: 0.0, ..ALL }, "measured_s");
    let request = |arrival_s, input| TracedRequest { arrival_s, input, output: 5 };
    for (arrivals, path) in [
        (Arrivals::Poisson { rate: 0.0 }, "rate"),
        (Arrivals::Closed { concurrency: 0 }, "concurrency"),
        (Arrivals::Closed { concurrency: MOST_REQUESTS + 1 }, "concurrency"),
        (Arrivals::Bursts { size: 0, every_s: 1.0 }, "size"),
        (Arrivals::Bursts { size: 1, every_s: f64::INFINITY }, "every_s"),
        (Arrivals::Trace(vec![]), "trace"),
        (Arrivals::Trace(vec![request(2.0, 5), request(1.0, 5)]), "trace[1].arrival_s"),
        (Arrivals::Trace(vec![request(f64::NAN, 5)]), "trace[0].arrival_s"),
        (Arrivals::Trace(vec![request(0.0, 0)]), "trace[0].input"),
    ] {
        refuse(&|fleet| fleet.traffic[0].arrivals = arrivals.clone(), &format!("traffic[0].arrivals.{path}"));
    }
}

#[test]
fn overload_and_replicas_without_room_end_at_limits() {
    let (model, engine) = (model(DENSE), ideal());
    let (fitting, mut small) = (device(), device());
    small.memory = 1e6;
    let class = RequestClass::new(4000, 100);
    for (device, is_served) in [(&fitting, true), (&small, false)] {
        let replica = Replica::single(Worker::new("", &model, &engine, device, Parallel::tensor(1)).unwrap());
        let overload = Arrivals::Poisson { rate: 1e4 };
        let overload = fleet(class, overload, vec![group(ServingRole::Aggregated, &replica)]);
        let outcome = run(&overload, &Settings { measured_s: 10.0, events: 20_000, ..ALL });
        assert!(outcome.is_cut && outcome.classes[0].requests_per_s < 1e3, "{outcome:?}");
        assert_eq!(
            (outcome.classes[0].finished > 0, outcome.classes[0].refused == 0),
            (is_served, is_served)
        );
        let closed = Arrivals::Closed { concurrency: 7 };
        let closed = fleet(class, closed, vec![group(ServingRole::Aggregated, &replica)]);
        let outcome = run(&closed, &Settings { measured_s: 10.0, ..ALL });
        assert!(!outcome.is_cut);
        assert_eq!(outcome.classes[0].refused, if is_served { 0 } else { 7 });
    }
}
