//! Random problems and placements: the flow of a placement follows the rules of ports, uplinks, hosts and
//! memory.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::MatrixDocument;
use stagewright_core::graph::OpId;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::simulate::{Flow, Operator, Rules, Simulator, Span, Template, simulate_all};

use super::model::{Model, host, kind, link, operators, transfers};
use super::reference;
use super::step::{Step, Tensor, Transfer};

const INSTANCES: u64 = 1500;
/// `acc0` and `acc1` are in group 0, `far0` and `host0` in group 1, `out0` in no group.
const KIND_OF: [usize; 5] = [0, 0, 1, 2, 3];
const GROUP_OF: [Option<usize>; 5] = [Some(0), Some(0), Some(1), Some(1), None];
const HOST: usize = 3;
pub(crate) const DEVICES: u32 = 5;

/// Integers, or reals among which no two sums are equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Figures {
    Whole,
    Real,
}

impl Figures {
    fn draw(self, rng: &mut ChaCha8Rng) -> f64 {
        match self {
            Figures::Whole => f64::from(rng.random_range(0..4u8)),
            Figures::Real => rng.random_range(0.1..4.0),
        }
    }
}

fn model(rng: &mut ChaCha8Rng, figures: Figures) -> Model {
    let count = rng.random_range(1..10);
    model_of(rng, figures, count, 12)
}

/// A model of `count` operators and fewer than `tensors` tensors.
pub(crate) fn model_of(rng: &mut ChaCha8Rng, figures: Figures, count: usize, tensors: usize) -> Model {
    let mut link = |seconds| link(figures.draw(rng), seconds);
    let kinds = vec![
        kind("acc", 2, link(1.0), Some("near")),
        kind("far", 1, link(2.0), Some("away")),
        host(1, Some("away")),
        kind("out", 1, link(1.0), None),
    ];
    let mut model = Model::on(kinds).group("near", link(2.0)).group("away", link(1.0));
    for _ in 0..count {
        let op = model.operator(0.0);
        let operator = &mut model.operators[op];
        operator.seconds.values_mut().for_each(|seconds| *seconds = figures.draw(rng));
        operator.parameter_bytes = figures.draw(rng);
        operator.optimizer_bytes = figures.draw(rng);
        operator.workspace_bytes = figures.draw(rng);
        // Not counted, since the tensors themselves make up the stash.
        operator.activation_bytes = figures.draw(rng);
    }
    for _ in 0..rng.random_range(0..tensors) {
        let from = rng.random_range(0..count);
        let to: Vec<usize> = (from + 1..count).filter(|_| rng.random_bool(0.3)).collect();
        let bytes = figures.draw(rng);
        let tensor = model.tensor(from, &to, bytes);
        if rng.random_bool(0.2) {
            model.tensors[tensor].seconds = [("acc".into(), figures.draw(rng))].into();
        }
    }
    if rng.random_bool(0.2) {
        let mut rows = || (0..DEVICES).map(|_| (0..DEVICES).map(|_| figures.draw(rng)).collect()).collect();
        model.matrix = Some(MatrixDocument { delay_s: rows(), seconds_per_byte: rows() });
    }
    model
}

fn placement(rng: &mut ChaCha8Rng, count: usize) -> Placement {
    let device_of = (0..count).map(|_| DeviceId(rng.random_range(0..DEVICES))).collect();
    let mut priority: Vec<OpId> = (0..count as u32).map(OpId).collect();
    for index in 1..count {
        priority.swap(index, rng.random_range(0..=index));
    }
    match rng.random_bool(0.5) {
        true => Placement::with_priority(device_of, priority),
        false => Placement::new(device_of),
    }
}

/// The step of a placement, derived from the documents.
fn step(model: &Model, placement: &Placement) -> Step {
    let device = |op: usize| placement.device_of(OpId(op as u32)).index();
    let class = |device: usize| model.kinds[KIND_OF[device]].class.as_str();
    let operators = model.operators.iter().enumerate().map(|(op, operator)| Operator {
        device: device(op) as u32,
        rank: placement.priority().iter().position(|named| named.index() == op).unwrap_or(0) as u32,
        seconds: operator.seconds[class(device(op))],
        pause: 0.0,
        fixed_bytes: operator.parameter_bytes + operator.optimizer_bytes,
        workspace_bytes: operator.workspace_bytes,
    });
    let number = |name: &String| model.operators.iter().position(|operator| operator.name == *name);
    let tensors = model.tensors.iter().map(|tensor| {
        let producer = number(&tensor.producer).expect("a known operator");
        let home = device(producer);
        let on = |there: usize| -> Vec<u32> {
            let readers = tensor.consumers.iter().filter_map(number);
            readers.filter(|&op| device(op) == there).map(|op| op as u32).collect()
        };
        let away = (0..DEVICES as usize).filter(|&there| there != home && !on(there).is_empty());
        let transfers = away.map(|there| {
            let links = [home, there].into_iter().filter(|&end| end != HOST).map(|end| {
                let link = model.kinds[KIND_OF[end]].link.expect("all but hosts have links");
                let seconds = link.latency_s + tensor.bytes / link.bandwidth;
                tensor.seconds.get(class(end)).copied().unwrap_or(seconds)
            });
            let mut seconds = links.fold(0.0, f64::max);
            let mut ports = Vec::new();
            ports.extend((home != HOST).then_some(home as u32));
            ports.extend((there != HOST).then_some(DEVICES + there as u32));
            if let Some(matrix) = &model.matrix {
                seconds = matrix.delay_s[home][there] + tensor.bytes * matrix.seconds_per_byte[home][there];
            } else if GROUP_OF[home] != GROUP_OF[there] {
                for group in [home, there].into_iter().filter_map(|end| GROUP_OF[end]) {
                    let uplink = model.groups[group].uplink;
                    seconds = seconds.max(uplink.latency_s + tensor.bytes / uplink.bandwidth);
                    ports.push(2 * DEVICES + group as u32);
                }
            }
            Transfer { seconds, gap: 0.0, ports, copies: vec![(there as u32, on(there))] }
        });
        let (transfers, at_home) = (transfers.collect(), on(home));
        Tensor { producer: producer as u32, bytes: tensor.bytes, at_home, transfers }
    });
    Step {
        rules: Rules::PORTS,
        devices: DEVICES,
        ports: 2 * DEVICES + 2,
        has_priority: !placement.priority().is_empty(),
        operators: operators.collect(),
        tensors: tensors.collect(),
    }
}

fn instance(number: u64, figures: Figures) -> (Model, Problem, Placement) {
    let mut rng = seed::stream(11, number);
    let model = model(&mut rng, figures);
    let placement = placement(&mut rng, model.operators.len());
    let problem = model.problem();
    (model, problem, placement)
}

#[test]
fn placements_take_what_the_reference_says() {
    let mut flow = None;
    let mut simulator = Simulator::new();
    for number in 0..INSTANCES {
        let (model, problem, placement) = instance(number, Figures::Whole);
        // Reusing the memory of another flow must not change the result.
        let made = match flow.take() {
            Some(spare) => Template::new(&problem).flow_of(&placement, spare),
            None => Flow::from_placement(&problem, &placement),
        };
        let step = step(&model, &placement);
        let expected = reference::simulate(&step);
        let timeline = simulator.run(&made);
        assert_eq!(operators(timeline), expected.operators, "instance {number}: {step:#?}");
        assert_eq!(transfers(timeline), expected.transfers, "instance {number}: {step:#?}");
        assert_eq!(timeline.peak_bytes(), expected.peaks, "instance {number}: {step:#?}");
        assert_eq!(timeline.makespan(), expected.makespan, "instance {number}");
        flow = Some(made);
    }
}

/// Bytes on a device at a moment, derived from the spans alone. A span counts from its start up to, but not including,
/// its end.
fn bytes_at(step: &Step, spans: [&[Span]; 2], device: u32, now: f64) -> f64 {
    let [operators, moves] = spans;
    let mut bytes = 0.0;
    for (operator, span) in step.operators.iter().zip(operators).filter(|(op, _)| op.device == device) {
        bytes += operator.fixed_bytes;
        bytes += if span.start <= now && now < span.end { operator.workspace_bytes } else { 0.0 };
    }
    let last = |ends: &mut dyn Iterator<Item = f64>| ends.fold(0.0, f64::max);
    let read = |readers: &[u32]| last(&mut readers.iter().map(|&op| operators[op as usize].end));
    let mut next = 0;
    for tensor in &step.tensors {
        let producer = tensor.producer as usize;
        let mine = &moves[next..next + tensor.transfers.len()];
        next += tensor.transfers.len();
        let sent = last(&mut mine.iter().map(|span| span.end));
        let until = operators[producer].end.max(read(&tensor.at_home)).max(sent);
        let is_home = step.operators[producer].device == device;
        if is_home && operators[producer].start <= now && now < until {
            bytes += tensor.bytes;
        }
        for (transfer, span) in tensor.transfers.iter().zip(mine) {
            let here = transfer.copies.iter().filter(|copy| copy.0 == device);
            bytes +=
                here.filter(|copy| span.start <= now && now < read(&copy.1)).count() as f64 * tensor.bytes;
        }
    }
    bytes
}

#[test]
fn the_peak_is_the_most_that_the_timeline_shows_and_nothing_overlaps() {
    for number in 0..INSTANCES {
        let (model, problem, placement) = instance(number, Figures::Real);
        let (step, flow) = (step(&model, &placement), Flow::from_placement(&problem, &placement));
        let timeline = super::model::run(&flow);
        let spans = [timeline.operators(), timeline.transfers()];
        for device in 0..DEVICES {
            let starts = spans.iter().flat_map(|spans| spans.iter()).map(|span| span.start);
            let highest = starts.map(|now| bytes_at(&step, spans, device, now)).fold(0.0, f64::max);
            let peak = timeline.peak_bytes()[device as usize];
            assert!(
                (highest - peak).abs() <= 1e-9 * highest,
                "instance {number}: {peak}, timeline {highest}"
            );
        }
        for device in 0..DEVICES {
            let mine = step.operators.iter().zip(spans[0]).filter(|(operator, _)| operator.device == device);
            alone(&mut mine.map(|(_, &span)| span).collect::<Vec<_>>());
        }
        for port in 0..flow.port_count() as u32 {
            let through =
                (0..flow.transfer_count()).filter(|&transfer| flow.ports_of(transfer as u32).contains(&port));
            let mut through: Vec<Span> = through.map(|transfer| spans[1][transfer]).collect();
            alone(&mut through);
            let busy: f64 = through.iter().map(|span| span.end - span.start).sum();
            assert!((busy - flow.port_seconds()[port as usize]).abs() <= 1e-9 * busy);
            assert!(timeline.utilisation(busy) <= 1.0 + 1e-9);
        }
        let length: f64 =
            timeline.critical_path(&flow).iter().map(|step| step.span.end - step.span.start).sum();
        assert!(
            (length - timeline.makespan()).abs() <= 1e-9 * length,
            "without gaps the path is the makespan"
        );
    }
}

/// Asserts that no two spans overlap.
fn alone(spans: &mut [Span]) {
    spans.sort_by(|a, b| a.start.total_cmp(&b.start));
    assert!(spans.windows(2).all(|two| two[0].end <= two[1].start), "{spans:?}");
}

#[test]
fn a_batch_is_each_alone_whatever_the_threads() {
    let (model, problem, _) = instance(5, Figures::Real);
    let mut rng = seed::stream(13, 0);
    let placements: Vec<Placement> = (0..200).map(|_| placement(&mut rng, model.operators.len())).collect();
    let threads = |count| rayon::ThreadPoolBuilder::new().num_threads(count).build().expect("threads");
    let [single, three] = [1, 3].map(|count| threads(count).install(|| simulate_all(&problem, &placements)));
    assert_eq!(single, three);
    for (outcome, placement) in single.iter().zip(&placements) {
        let timeline = super::model::run(&Flow::from_placement(&problem, placement));
        assert_eq!((outcome.makespan, &*outcome.peak_bytes), (timeline.makespan(), timeline.peak_bytes()));
    }
    assert!(single.iter().any(|outcome| outcome != &single[0]), "the placements differ");
}
