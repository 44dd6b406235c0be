//! Computes the features of a subject and a plan.

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Pass;
use stagewright_core::ids::Keyed;
use stagewright_makespan::ClusterId;

use super::kinds::{KINDS, coarse};
use super::{DEVICE, EDGE, GRAPH, Input, PAIR, UNIT};
use crate::subject::{Base, Subject, ratio};

/// Largest magnitude of a logarithm. Logarithms are clamped to it and then scaled to a range of about one.
const MAX_LOG: f64 = 12.0;
const LOG_SCALE: f64 = 0.25;

/// Scaled and clamped logarithm of a ratio; the minimum if `part` is 0.
fn log(part: f64, whole: f64) -> f32 {
    let log = (part / whole).ln();
    let log = if log.is_nan() { 0.0 } else { log };
    (log.clamp(-MAX_LOG, MAX_LOG) * LOG_SCALE) as f32
}

/// Scaled logarithm of one plus a count or a share.
fn log1p(count: f64) -> f32 {
    log(1.0 + count.max(0.0), 1.0)
}

fn flag(is: bool) -> f32 {
    f32::from(u8::from(is))
}

/// Totals of which several features are shares.
struct Sums {
    /// Mean seconds of all units, and of all transfers along edges.
    work: f64,
    sent: f64,
    bytes: f64,
    /// Seconds of the longest path through the graph.
    longest: f64,
    /// Total memory of all devices; infinite if one of them has no limit.
    memory: f64,
}

/// The features of a subject and a plan to improve on. The plan's value is `value` seconds, at least `bound`.
/// O(units · devices + edges + operators).
pub fn input(subject: &Subject<'_, '_>, base: &Base, value: f64, bound: f64) -> Input {
    let (instance, level) = (subject.instance, &subject.level);
    let (units, devices) = (level.len(), instance.device_count());
    let all: Vec<DeviceId> = instance.problem().cluster().devices().collect();
    let mut capable = Vec::with_capacity(units * devices);
    for unit in level.ids() {
        capable.extend(all.iter().map(|&device| subject.can_run(unit, device)));
    }
    let sums = Sums {
        work: level.ids().map(|unit| level.mean(unit)).sum(),
        sent: subject.edges.iter().map(|edge| edge.2).sum(),
        bytes: level.ids().map(|unit| level.bytes(unit)).sum(),
        longest: subject.bottom.enumerate().map(|(unit, way)| subject.top[unit] + way).fold(0.0, f64::max),
        memory: all.iter().map(|&device| instance.memory(device)).sum(),
    };
    Input {
        units,
        devices,
        unit: of_units(subject, base, &capable, &sums),
        edges: subject.edges.iter().map(|&(from, to, _)| (from, to)).collect(),
        edge: of_edges(subject, base, &sums),
        device: of_devices(subject, base, &all, &sums),
        pair: of_pairs(subject, base, &capable, devices),
        graph: of_graph(subject, base, log(value, bound), devices, &sums),
        home: base.home.clone(),
        capable,
        order: subject.order.clone(),
    }
}

/// Per unit, the number of its operators in total and by pass, and their seconds by kind.
fn counts(subject: &Subject<'_, '_>) -> (Vec<[f64; 4]>, Vec<[f64; KINDS]>) {
    let (instance, level) = (subject.instance, &subject.level);
    let graph = instance.graph();
    let mut count = vec![[0.0f64; 4]; level.len()];
    let mut kinds = vec![[0.0f64; KINDS]; level.len()];
    for op in graph.operators() {
        let unit = level.cluster_of(graph.class_of(op));
        let operator = graph.operator(op);
        let pass = match operator.pass {
            Pass::Forward => 1,
            Pass::Backward => 2,
            Pass::Update => 3,
        };
        count[unit.index()][0] += 1.0;
        count[unit.index()][pass] += 1.0;
        kinds[unit.index()][coarse(operator.kind.as_deref())] +=
            instance.mean_seconds(op) + f64::MIN_POSITIVE;
    }
    (count, kinds)
}

fn of_units(subject: &Subject<'_, '_>, base: &Base, capable: &[bool], sums: &Sums) -> Vec<f32> {
    let level = &subject.level;
    let (units, devices) = (level.len(), subject.instance.device_count());
    let (count, kinds) = counts(subject);
    let mut rank: Keyed<ClusterId, f64> = Keyed::filled(0.0, units);
    for (position, &unit) in subject.order.iter().enumerate() {
        rank[unit] = ratio(position as f64, (units - 1) as f64);
    }
    let most_busy = base.busy.iter().copied().fold(0.0, f64::max);
    let usual = ratio(sums.work, units as f64);
    let mut figures = Vec::with_capacity(units * UNIT);
    for (cluster, &here) in base.home.enumerate() {
        let unit = cluster.index();
        let seconds = level.mean(cluster);
        let received: f64 = level.previous(cluster).iter().map(|edge| edge.1).sum();
        let sent: f64 = level.next(cluster).iter().map(|edge| edge.1).sum();
        let cut = |edges: &[(ClusterId, f64)]| -> f64 {
            edges.iter().filter(|edge| base.home[edge.0] != here).map(|edge| edge.1).sum()
        };
        let away = cut(level.previous(cluster)) + cut(level.next(cluster));
        let [top, bottom] =
            [subject.top[cluster], subject.bottom[cluster]].map(|way| ratio(way, sums.longest));
        let can = capable[unit * devices..(unit + 1) * devices].iter().filter(|&&can| can).count();
        let [all, passes @ ..] = count[unit];
        figures.extend([
            log(seconds, usual),
            log1p(ratio(seconds * devices as f64, sums.work)),
            top as f32,
            bottom as f32,
            (1.0 - top - bottom) as f32,
            log(level.bytes(cluster) * devices as f64, sums.bytes),
            if sums.memory.is_finite() {
                log1p(ratio(level.bytes(cluster) * devices as f64, sums.memory))
            } else {
                0.0
            },
            log1p(level.previous(cluster).len() as f64),
            log1p(level.next(cluster).len() as f64),
            log(received + sent, seconds),
            ratio(received, received + sent) as f32,
            rank[cluster] as f32,
            log1p(all - 1.0),
        ]);
        figures.extend(passes.map(|pass| ratio(pass, all) as f32));
        figures.extend([
            ratio(can as f64, devices as f64) as f32,
            base.start[unit] as f32,
            base.critical[unit] as f32,
            ratio(away, received + sent) as f32,
            ratio(base.busy[here], most_busy) as f32,
        ]);
        let all: f64 = kinds[unit].iter().sum();
        figures.extend(kinds[unit].map(|kind| ratio(kind, all) as f32));
    }
    figures
}

fn of_edges(subject: &Subject<'_, '_>, base: &Base, sums: &Sums) -> Vec<f32> {
    let level = &subject.level;
    let usual = ratio(sums.work, level.len() as f64);
    let total = |edges: &[(ClusterId, f64)]| edges.iter().map(|edge| edge.1).sum::<f64>();
    let mut figures = Vec::with_capacity(subject.edges.len() * EDGE);
    for &(from, to, seconds) in &subject.edges {
        let way = subject.top[from] + level.mean(from) + seconds + subject.bottom[to];
        figures.extend([
            log(seconds, usual),
            log(seconds, 0.5 * (level.mean(from) + level.mean(to))),
            ratio(seconds, total(level.next(from))) as f32,
            ratio(seconds, total(level.previous(to))) as f32,
            (1.0 - ratio(way, sums.longest)) as f32,
            flag(base.home[from] == base.home[to]),
        ]);
    }
    figures
}

fn of_devices(subject: &Subject<'_, '_>, base: &Base, all: &[DeviceId], sums: &Sums) -> Vec<f32> {
    let (instance, level) = (subject.instance, &subject.level);
    let problem = instance.problem();
    // Only units that every pool can run allow pools to be compared in speed.
    let pools = problem.pools().len();
    let everywhere = |unit: &ClusterId| (0..pools).all(|pool| level.seconds(*unit, pool).is_finite());
    let common: Vec<ClusterId> = level.ids().filter(everywhere).collect();
    let mean: f64 = common.iter().map(|&unit| level.mean(unit)).sum();
    let seconds = |pool: usize| common.iter().map(|&unit| level.seconds(unit, pool)).sum::<f64>();
    let capable = |pool: usize| level.ids().filter(|&unit| level.seconds(unit, pool).is_finite()).count();
    let of_pool: Vec<(f64, f64)> =
        (0..pools).map(|pool| (seconds(pool), ratio(capable(pool) as f64, level.len() as f64))).collect();
    let finite: Vec<f64> = all
        .iter()
        .map(|&device| problem.pools()[problem.pool_of(device)].bandwidth)
        .filter(|bandwidth| bandwidth.is_finite())
        .collect();
    let usual_bandwidth = ratio(finite.iter().sum(), finite.len() as f64);
    let most_busy = base.busy.iter().copied().fold(0.0, f64::max);
    let mut figures = Vec::with_capacity(all.len() * DEVICE);
    for &device in all {
        let pool_id = problem.pool_of(device);
        let pool = &problem.pools()[pool_id];
        let memory = instance.memory(device);
        let in_group =
            all.iter().filter(|&&other| problem.pools()[problem.pool_of(other)].group == pool.group);
        figures.extend([
            log(mean, of_pool[pool_id].0),
            of_pool[pool_id].1 as f32,
            if memory.is_finite() { log(memory * all.len() as f64, sums.bytes) } else { 0.0 },
            flag(memory.is_finite()),
            flag(pool.host),
            if pool.bandwidth.is_finite() { log(pool.bandwidth, usual_bandwidth) } else { 0.0 },
            ratio(in_group.count() as f64, all.len() as f64) as f32,
            ratio(base.busy[device], most_busy) as f32,
            if memory.is_finite() { ratio(base.peak[device], memory).min(4.0) as f32 } else { 0.0 },
        ]);
    }
    figures
}

fn of_pairs(subject: &Subject<'_, '_>, base: &Base, capable: &[bool], devices: usize) -> Vec<f32> {
    let (instance, level) = (subject.instance, &subject.level);
    let pools: Keyed<DeviceId, usize> =
        instance.problem().cluster().devices().map(|device| instance.problem().pool_of(device)).collect();
    let mut figures = Vec::with_capacity(level.len() * devices * PAIR);
    let mut received: Keyed<DeviceId, f64> = Keyed::filled(0.0, devices);
    let mut sent = received.clone();
    for (cluster, &here) in base.home.enumerate() {
        let unit = cluster.index();
        received.fill(0.0);
        sent.fill(0.0);
        for &(from, seconds) in level.previous(cluster) {
            received[base.home[from]] += seconds;
        }
        for &(to, seconds) in level.next(cluster) {
            sent[base.home[to]] += seconds;
        }
        let all: f64 = received.iter().chain(sent.iter()).sum();
        for device in received.ids() {
            let can = capable[unit * devices + device.index()];
            figures.extend([
                if can { log(level.seconds(cluster, pools[device]), level.mean(cluster)) } else { 0.0 },
                flag(can),
                flag(here == device),
                ratio(received[device], all) as f32,
                ratio(sent[device], all) as f32,
            ]);
        }
    }
    figures
}

fn of_graph(
    subject: &Subject<'_, '_>,
    base: &Base,
    over_bound: f32,
    devices: usize,
    sums: &Sums,
) -> Vec<f32> {
    let most_busy = base.busy.iter().copied().fold(0.0, f64::max);
    let mean_busy = ratio(base.busy.iter().sum(), devices as f64);
    let figures = vec![
        log(subject.level.len() as f64, 100.0),
        log(devices as f64, 4.0),
        log(sums.sent, sums.work),
        log(sums.work, sums.longest),
        log(sums.longest * devices as f64, sums.work),
        flag(subject.is_throughput),
        if sums.memory.is_finite() { log(sums.bytes, sums.memory) } else { 0.0 },
        flag(subject.instance.has_ports()),
        over_bound,
        ratio(mean_busy, most_busy) as f32,
    ];
    debug_assert_eq!(figures.len(), GRAPH);
    figures
}
