//! Times that follow from single steps.

use stagewright_core::document::LinkDocument;
use stagewright_core::document::ServingRole;
use stagewright_serving::simulator::{Arrivals, Fleet, Settings, TracedRequest, Traffic};
use stagewright_serving::{Device, Engine, Parallel, Replica, RequestClass, Speculation, Step, Worker};

use super::super::fixture::{DENSE, LATENT, device, ideal, model, near};
use super::{ALL, fleet, group, run, together};

#[test]
fn a_request_alone_takes_its_prompt_the_waits_and_its_steps() {
    let (model, device) = (model(DENSE), device());
    let engine = Engine { wait_steps: 3.5, wait_s: 0.25, handoff_s: 0.5, decode_share: 0.5, ..ideal() };
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let class = RequestClass::new(1000, 101);
    let step = replica.token_seconds(1.0, class.mean_context());
    let prompt = replica.prompt_seconds(&class);
    let closed = Arrivals::Closed { concurrency: 1 };
    let close = |own: f64, other: f64| (own / other - 1.0).abs() < 2e-3;
    let settings = Settings { warm_up_s: 10.0, measured_s: 100.0, ..ALL };
    let own = run(&fleet(class, closed.clone(), vec![group(ServingRole::Aggregated, &replica)]), &settings);
    let times = own.classes[0];
    assert!(close(times.tpot.mean, step) && close(times.ttft.mean, prompt + 3.5 * step + 0.25), "{times:?}");
    let pools = vec![group(ServingRole::Prefill, &replica), group(ServingRole::Decode, &replica)];
    let times = run(&fleet(class, closed, pools), &settings).classes[0];
    let first = prompt + 0.25 + 0.5 + 3.5 * 0.5 * step;
    assert!(close(times.tpot.mean, 0.5 * step) && close(times.ttft.mean, first), "{times:?} {first}");
}

#[test]
fn prompts_of_a_burst_follow_each_other_in_chunks() {
    let (model, device) = (model(DENSE), device());
    let engine = Engine { chunk: 1000, ..ideal() };
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let class = RequestClass::new(1000, 1);
    let prompt = replica.prompt_seconds(&class);
    for role in [vec![ServingRole::Aggregated], vec![ServingRole::Prefill, ServingRole::Decode]] {
        let groups = role.iter().map(|&role| group(role, &replica)).collect();
        let outcome = run(&fleet(class, together(9, class), groups), &ALL);
        let own = outcome.classes[0];
        assert!(own.finished == 9 && near(own.ttft.mean, 5.0 * prompt), "{own:?} {prompt}");
        assert!((own.ttft.p99 / (9.0 * prompt) - 1.0).abs() < 0.003, "{own:?}");
        assert!(near(outcome.seconds, 9.0 * prompt) && near(outcome.groups[0].utilisation, 1.0));
    }
    let half = RequestClass::new(500, 1);
    let both = replica.prompt_interval(&half, 2.0);
    let own = run(&fleet(half, together(2, half), vec![group(ServingRole::Aggregated, &replica)]), &ALL);
    assert!(near(own.classes[0].ttft.mean, both), "two prompts fit in a chunk");
}

#[test]
fn caches_wait_for_the_link() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let replica = Replica::single(worker.clone());
    let class = RequestClass::new(1000, 1);
    let groups = vec![group(ServingRole::Prefill, &replica), group(ServingRole::Decode, &replica)];
    let mut fleet = fleet(class, together(3, class), groups);
    fleet.transfer = LinkDocument { latency_s: 0.1, bandwidth: 1e6 };
    let (prompts, sent) = (replica.prompt_interval(&class, 3.0), 0.1 + worker.cache_bytes(1000) / 1e6);
    let times = run(&fleet, &ALL).classes[0].ttft;
    assert!(near(times.mean, prompts + 2.0 * sent), "{times:?} {sent}");
}

#[test]
fn memory_and_the_plan_limit_batches_and_too_long_requests_are_refused() {
    let (model, engine) = (model(DENSE), ideal());
    let mut device = device();
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    device.memory = worker.weight_bytes() + 10.5 * worker.cache_bytes(1200);
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let class = RequestClass::new(1000, 200);
    let settings = Settings { warm_up_s: 5.0, measured_s: 20.0, ..ALL };
    for (limit, expected) in [(1 << 20, 10.0), (4, 4.0)] {
        let mut group = group(ServingRole::Aggregated, &replica);
        group.batch = limit;
        let outcome = run(&fleet(class, Arrivals::Closed { concurrency: 30 }, vec![group]), &settings);
        let batch = outcome.groups[0].batch;
        assert!(batch <= expected && batch > 0.9 * expected, "{outcome:?}");
    }
    let requests = [(1000, 200), (20_000, 200), (10, 5)];
    let trace = requests.map(|(input, output)| TracedRequest { arrival_s: 0.0, input, output });
    let fleet = fleet(class, Arrivals::Trace(trace.to_vec()), vec![group(ServingRole::Aggregated, &replica)]);
    let own = run(&fleet, &ALL).classes[0];
    assert_eq!((own.finished, own.refused), (2, 1));
}

#[test]
fn stages_take_turns_and_drafts_give_several_tokens() {
    let (model, device, engine) = (model(LATENT), device(), ideal());
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let stages = vec![worker.clone().with_layers(0..1), worker.clone().with_layers(1..4)];
    let pipeline = Replica::new("", stages, vec![LinkDocument { latency_s: 1e-5, bandwidth: 1e10 }]).unwrap();
    let class = RequestClass::new(100, 1001);
    let settings = Settings { warm_up_s: 1.0, measured_s: 5.0, ..ALL };
    let closed = |concurrency| Arrivals::Closed { concurrency };
    let times =
        run(&fleet(class, closed(8), vec![group(ServingRole::Aggregated, &pipeline)]), &settings).classes[0];
    let slowest = pipeline.token_seconds(8.0, class.mean_context());
    assert!((times.tpot.mean / slowest - 1.0).abs() < 0.02, "{times:?} {slowest}");
    // A sequence alone has no other microbatch to wait for.
    let times =
        run(&fleet(class, closed(1), vec![group(ServingRole::Aggregated, &pipeline)]), &settings).classes[0];
    let alone = worker.seconds(&Step::decode(1.0, class.mean_context())) + 1e-5 + 1024.0 / 1e10;
    assert!((times.tpot.mean / alone - 1.0).abs() < 0.01, "{times:?} {alone}");
    let speculation = Speculation { drafts: 3, acceptance: 0.8, draft_share: 0.1 };
    let drafting = Replica::single(worker).with_speculation(speculation);
    let times =
        run(&fleet(class, closed(4), vec![group(ServingRole::Aggregated, &drafting)]), &settings).classes[0];
    let token = drafting.token_seconds(4.0, class.mean_context());
    assert!((times.tpot.mean / token - 1.0).abs() < 0.02, "{times:?} {token}");
}

#[test]
fn the_router_follows_rates_and_classes_have_their_own_replicas() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let class = RequestClass::new(100, 400);
    let mut heavy = group(ServingRole::Aggregated, &replica);
    heavy.weight = 3.0;
    let mut other = group(ServingRole::Aggregated, &replica);
    (other.class, other.count) = (1, 2);
    let mut fleet = fleet(class, Arrivals::Closed { concurrency: 40 }, vec![]);
    fleet.groups = vec![heavy, group(ServingRole::Aggregated, &replica), other];
    fleet.traffic.push(Traffic { class, arrivals: Arrivals::Closed { concurrency: 6 } });
    let outcome = run(&fleet, &Settings { warm_up_s: 2.0, measured_s: 20.0, ..ALL });
    for (own, expected) in outcome.groups.iter().zip([30.0, 10.0, 3.0]) {
        assert!((own.batch / expected - 1.0).abs() < 0.05, "{outcome:?}");
    }
    assert!(outcome.classes.iter().all(|own| own.finished > 100 && own.tpot.p50 <= own.tpot.p99));
}

#[test]
fn outcomes_depend_on_the_seed_alone_and_warm_ups_are_cut_off() {
    let (model, device) = (model(DENSE), Device { memory: 1e9, ..device() });
    let engine = &stagewright_serving::engines()[0].clone();
    let engine = Engine { outside_bytes: 0.0, ..engine.clone() };
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(2)).unwrap());
    let groups = vec![group(ServingRole::Prefill, &replica), group(ServingRole::Decode, &replica)];
    let fleet = fleet(RequestClass::new(900, 50), Arrivals::Poisson { rate: 40.0 }, groups);
    let with = |fleet: &Fleet, seed| run(fleet, &Settings { seed, warm_up_s: 5.0, measured_s: 20.0, ..ALL });
    assert_eq!(with(&fleet, 1), with(&fleet, 1));
    assert_ne!(with(&fleet, 1), with(&fleet, 2));
    let rate = with(&fleet, 1).classes[0].requests_per_s;
    assert!((rate / 40.0 - 1.0).abs() < 0.15, "{rate}");
    let class = RequestClass::new(900, 50);
    let early = Fleet { traffic: vec![Traffic { class, arrivals: together(50, class) }], ..fleet };
    let outcome = run(&early, &Settings { warm_up_s: 500.0, ..ALL });
    assert_eq!((outcome.classes[0].finished, outcome.seconds), (0, 0.0));
    assert_eq!(run(&early, &ALL).classes[0].finished, 50);
    let bursts = Arrivals::Bursts { size: 5, every_s: 2.0 };
    let bursts = Fleet { traffic: vec![Traffic { class, arrivals: bursts }], ..early };
    assert_eq!(with(&bursts, 1).classes[0].finished, 50, "ten bursts in 20 seconds");
}

#[test]
fn a_benchmark_sends_its_requests_and_ends() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let class = RequestClass::new(1000, 10);
    let finished = |concurrency, requests| {
        let arrivals = Arrivals::Benchmark { concurrency, requests };
        run(&fleet(class, arrivals, vec![group(ServingRole::Aggregated, &replica)]), &ALL).classes[0]
    };
    let (few, many) = (finished(2, 7), finished(7, 7));
    assert_eq!((few.finished, many.finished, finished(9, 4).finished), (7, 7, 4));
    // Prompts of more requests wait for each other.
    assert!(many.ttft.mean > 1.5 * few.ttft.mean, "{many:?} {few:?}");
}
