//! Every plan of tiny models on tiny machines, by the rules of memory and speed themselves.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagewright_core::solver::{Context, Settings, Silent};
use stagewright_llamacpp::memory::{MARGIN, Memory};
use stagewright_llamacpp::{
    Class, Device, DeviceId, Goal, Host, Location, Override, Placement, Setting, place,
};
use stagewright_local::{Question, solve};
use stagewright_structure::{Encoding, Structure};

use crate::models::{self, Widths};

const MIB: u64 = 1 << 20;

fn structure(random: &mut ChaCha8Rng, layers: u32) -> Structure {
    let widths = Widths {
        layers,
        hidden: 256 * random.random_range(1..=2),
        heads: 8,
        kv_heads: 2,
        head: 64,
        inner: 256 * random.random_range(1..=4),
        vocabulary: 1024 * random.random_range(1..=8),
    };
    match random.random_range(0..4) {
        0 => models::llama(&widths, random.random()).structure(),
        1 | 2 => models::qwen3_moe(&widths, 16, random.random_range(1..=8)).structure(),
        _ => models::gpt_oss(&widths, 8, random.random_range(1..=4)).structure(),
    }
}

/// Devices with room for parts of a model.
fn devices(random: &mut ChaCha8Rng, count: usize, bytes: u64) -> Vec<Device> {
    let classes = [Class::Cuda, Class::Cuda, Class::Rocm];
    let mut devices: Vec<Device> = Vec::new();
    for index in 0..count {
        if index > 0 && random.random_bool(0.3) {
            let name = format!("CUDA{index}");
            devices.push(Device { name: name.clone(), buffer: name, ..devices[0].clone() });
            continue;
        }
        let class = classes[random.random_range(0..classes.len())];
        let share = random.random_range(0.1..0.9);
        let taken = MARGIN + random.random_range(0..48) * MIB + if class.is_cuda() { 512 * MIB } else { 0 };
        let memory = taken + (share * bytes as f64) as u64;
        // As slow as the models are small, so that bytes count and not changes of device alone.
        let bandwidth = 1e9 * random.random_range(1.0..10.0);
        devices.push(Device::new(&format!("CUDA{index}"), class, memory, bandwidth, 50e12));
    }
    devices
}

fn movable(name: &str) -> Option<&str> {
    let module = name.split('.').nth(2)?;
    let is_expert = module.ends_with("_exps");
    let is_dense = matches!(module, "ffn_up" | "ffn_gate" | "ffn_down");
    (is_expert || is_dense).then_some(module)
}

/// Seconds of a placement if it fits.
fn seconds(question: &Question<'_>, setting: &Setting, placement: &Placement) -> Option<f64> {
    let memory = Memory::of("model", question.structure, setting, placement).expect("a memory");
    let fits = memory.shortfalls(setting, question.host).is_empty();
    fits.then(|| question.goal.seconds(question.structure, setting, placement, question.host)).flatten()
}

/// The fewest seconds of all plans with devices in an order, none of which is idle.
fn best_of_order(question: &Question<'_>, order: &[Device], micro_batch: u64) -> f64 {
    let slots = question.structure.layers.len() + 1;
    let mut best = f64::INFINITY;
    for host_slots in 0..slots {
        for cuts in compositions(slots - host_slots, order.len()) {
            let mut setting = question.setting(order.to_vec(), micro_batch);
            setting.layers = Some((slots - host_slots) as u64);
            setting.shares = cuts.iter().map(|&cut| cut as f32).collect();
            let placement = place(question.structure, &setting);
            best = best.min(best_of_cuts(question, &mut setting, &placement));
        }
    }
    best
}

/// Numbers of slots of each device, at least one.
fn compositions(slots: usize, parts: usize) -> Vec<Vec<usize>> {
    if parts == 1 {
        return if slots > 0 { vec![vec![slots]] } else { Vec::new() };
    }
    let mut all = Vec::new();
    for first in 1..slots {
        for mut rest in compositions(slots - first, parts - 1) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

fn best_of_cuts(question: &Question<'_>, setting: &mut Setting, placement: &Placement) -> f64 {
    let structure = question.structure;
    let mut groups: Vec<(u64, &str, Vec<usize>)> = Vec::new();
    for (index, tensor) in structure.tensors.iter().enumerate() {
        let (Some(layer), Some(module)) = (tensor.layer, movable(&tensor.name)) else { continue };
        if placement.tensors[index] == Some(Location::Host) {
            continue;
        }
        match groups.iter_mut().find(|group| (group.0, group.1) == (layer, module)) {
            Some(group) => group.2.push(index),
            None => groups.push((layer, module, vec![index])),
        }
    }
    let mut best = f64::INFINITY;
    for moved in 0_u32..1 << groups.len() {
        let mut placement = placement.clone();
        for (position, (_, _, tensors)) in groups.iter().enumerate() {
            if moved >> position & 1 == 1 {
                tensors.iter().for_each(|&tensor| placement.tensors[tensor] = Some(Location::Host));
            }
        }
        // Any override ends pipelining, one that moves nothing as well.
        for overrides in [Vec::new(), vec![Override::AllExperts]] {
            if moved == 0 || !overrides.is_empty() {
                setting.overrides = overrides;
                best = best.min(seconds(question, setting, &placement).unwrap_or(f64::INFINITY));
            }
        }
    }
    best
}

/// All orders of all sets of devices, at least one.
fn orders(devices: &[Device]) -> Vec<Vec<Device>> {
    let mut all = Vec::new();
    for index in 0..devices.len() {
        let mut rest = devices.to_vec();
        let first = rest.remove(index);
        all.push(vec![first.clone()]);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

fn enumerated(question: &Question<'_>) -> f64 {
    let mut best = f64::INFINITY;
    for &micro_batch in question.micro_batches {
        for setting in
            [question.setting(Vec::new(), micro_batch)].into_iter().chain(question.devices.iter().map(
                |device| Setting { layers: Some(0), ..question.setting(vec![device.clone()], micro_batch) },
            ))
        {
            let placement = place(question.structure, &setting);
            best = best.min(seconds(question, &setting, &placement).unwrap_or(f64::INFINITY));
        }
        for order in orders(question.devices) {
            best = best.min(best_of_order(question, &order, micro_batch));
        }
    }
    best
}

/// 1,000 models and machines: no plan is better, and the bound is the value. A third of the plans needs projections on the
/// host, and some have none that fits.
#[test]
fn no_plan_is_better() {
    let mut random = ChaCha8Rng::seed_from_u64(61);
    let (mut fitting, mut overridden, mut divided) = (0, 0, 0);
    for case in 0..1000 {
        let count = [0, 1, 2, 2][random.random_range(0..4)];
        let layers = random.random_range(1..=3);
        let structure = structure(&mut random, layers);
        let bytes = structure.weight_bytes();
        let devices = devices(&mut random, count, bytes);
        let share = if random.random_bool(0.5) { 10.0 } else { random.random_range(0.0..1.2) };
        let host =
            Host::new(MARGIN + 40 * MIB + (share * bytes as f64) as u64, 1e9 * random.random_range(0.2..0.9));
        let goal = match random.random_range(0..3) {
            0 => Goal::Decode { tokens: 500 },
            1 if devices
                .iter()
                .all(|device| device.rates.products.is_some() && device.rates.expert_products.is_some()) =>
            {
                Goal::Request { prompt: 900, output: 20 }
            }
            _ => Goal::Decode { tokens: 0 },
        };
        let micro_batches = if goal.prompt() > 0 { &[16, 256, 512][..] } else { &[512][..] };
        let question = Question {
            structure: &structure,
            devices: &devices,
            host,
            goal,
            context: 1024,
            sequences: 1,
            keys: Encoding::F16,
            values: Encoding::F16,
            micro_batches,
        };
        let expected = enumerated(&question);
        let mut observer = Silent;
        let mut context = Context::new(Settings::default(), &mut observer);
        let solution =
            solve("model", &question, &mut context).unwrap_or_else(|error| panic!("{case}: {error}"));
        let found = solution.plan.as_ref().map_or(f64::INFINITY, |plan| plan.seconds);
        let same = found == expected || (found / expected - 1.0).abs() < 1e-9;
        assert!(
            same,
            "{case}: {found} is found, {expected} is the best\n{:?}",
            solution.plan.map(|plan| plan.setting.line())
        );
        assert!(solution.bound <= expected * (1.0 + 1e-12), "{case}: bound {} of {expected}", solution.bound);
        assert_eq!(solution.stop, None);
        let Some(plan) = solution.plan else { continue };
        fitting += 1;
        overridden += usize::from(!plan.setting.overrides.is_empty());
        divided += usize::from(plan.setting.devices.len() > 1);
        let read = Setting::parse("line", &plan.setting.line(), &devices).expect("a line that is read back");
        assert_eq!(place(&structure, &read), plan.placement, "{case}: {}", plan.setting.line());
        assert!(
            plan.setting.devices.ids().all(|device| uses(&plan.placement, device)),
            "{case}: an idle device"
        );
    }
    println!("{fitting} with a plan, {overridden} with overrides, {divided} on two devices");
    assert!(
        fitting > 700 && fitting < 1000 && overridden > 80 && divided > 30,
        "{fitting}, {overridden}, {divided}"
    );
}

fn uses(placement: &Placement, device: DeviceId) -> bool {
    placement.slots.contains(&Location::Device(device))
        // A device may serve large batches of a model on the host.
        || placement.slots.iter().all(|slot| *slot == Location::Host)
}
