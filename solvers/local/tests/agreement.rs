//! Every plan of tiny models on tiny machines, by the rules of memory and speed themselves.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagewright_core::solver::{Context, Settings, Silent};
use stagewright_llamacpp::memory::{MARGIN, Memory};
use stagewright_llamacpp::{Class, Device, Goal, Host, Location, Override, Placement, Setting, place};
use stagewright_local::{Question, Solution, solve};
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
        // Some have no room for a slot.
        let share = if random.random_bool(0.1) { 0.0 } else { random.random_range(0.1..0.9) };
        let peak = 50e12 * random.random_range(0.2..1.0);
        let taken = MARGIN + random.random_range(0..48) * MIB + if class.is_cuda() { 512 * MIB } else { 0 };
        let memory = taken + (share * bytes as f64) as u64;
        // As slow as the models are small, so that bytes count and not changes of device alone.
        let bandwidth = 1e9 * random.random_range(1.0..10.0);
        devices.push(Device::new(&format!("CUDA{index}"), class, memory, bandwidth, peak));
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

/// Plans to enumerate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plans {
    /// Projections are with their slot or on the host, and no device is idle.
    AtHome,
    /// Projections are anywhere, and so are slots.
    Anywhere,
}

/// The fewest seconds of all plans with devices in an order.
fn best_of_order(question: &Question<'_>, order: &[Device], micro_batch: u64, plans: Plans) -> f64 {
    let slots = question.structure.layers.len() + 1;
    let mut best = f64::INFINITY;
    let least = usize::from(plans == Plans::AtHome);
    for host_slots in 0..slots + 1 - least {
        for cuts in compositions(slots - host_slots, order.len(), least) {
            let mut setting = question.setting(order.to_vec(), micro_batch);
            setting.layers = Some((slots - host_slots) as u64);
            setting.shares = cuts.iter().map(|&cut| cut as f32).collect();
            let placement = place(question.structure, &setting);
            best = match plans {
                Plans::AtHome => best.min(best_of_cuts(question, &mut setting, &placement)),
                Plans::Anywhere => best_anywhere(question, &mut setting, &placement, best),
            };
        }
    }
    best
}

/// Numbers of slots of each device, each at least `least`.
fn compositions(slots: usize, parts: usize, least: usize) -> Vec<Vec<usize>> {
    if parts == 1 {
        return if slots >= least { vec![vec![slots]] } else { Vec::new() };
    }
    let mut all = Vec::new();
    for first in least..=slots {
        for mut rest in compositions(slots - first, parts - 1, least) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

/// Tensors of each projection that an override can move.
fn projections(structure: &Structure) -> Vec<(u64, &str, Vec<usize>)> {
    let mut groups: Vec<(u64, &str, Vec<usize>)> = Vec::new();
    for (index, tensor) in structure.tensors.iter().enumerate() {
        let (Some(layer), Some(module)) = (tensor.layer, movable(&tensor.name)) else { continue };
        match groups.iter_mut().find(|group| (group.0, group.1) == (layer, module)) {
            Some(group) => group.2.push(index),
            None => groups.push((layer, module, vec![index])),
        }
    }
    groups
}

/// The fewest seconds below `best` with every projection in any memory.
fn best_anywhere(
    question: &Question<'_>,
    setting: &mut Setting,
    placement: &Placement,
    mut best: f64,
) -> f64 {
    let structure = question.structure;
    let groups = projections(structure);
    let devices = setting.devices.ids().map(Location::Device);
    let memories: Vec<Location> = [Location::Host].into_iter().chain(devices).collect();
    let mut placement = placement.clone();
    for number in 0..memories.len().pow(groups.len() as u32) {
        let mut rest = number;
        for (_, _, tensors) in &groups {
            let location = memories[rest % memories.len()];
            rest /= memories.len();
            tensors.iter().for_each(|&tensor| placement.tensors[tensor] = Some(location));
        }
        // Any override ends pipelining, one that moves nothing as well.
        setting.overrides = vec![Override::AllExperts];
        let seconds = question.goal.seconds(structure, setting, &placement, question.host);
        if seconds.is_some_and(|seconds| seconds < best) {
            let memory = Memory::of("model", structure, setting, &placement).expect("a memory");
            if memory.shortfalls(setting, question.host).is_empty() {
                best = seconds.unwrap_or(best);
            }
        }
    }
    best
}

fn best_of_cuts(question: &Question<'_>, setting: &mut Setting, placement: &Placement) -> f64 {
    let structure = question.structure;
    let mut groups = projections(structure);
    groups.retain(|group| placement.tensors[group.2[0]] != Some(Location::Host));
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

fn enumerated(question: &Question<'_>, plans: Plans) -> f64 {
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
            best = best.min(best_of_order(question, &order, micro_batch, plans));
        }
    }
    best
}

/// A random question, answered by the search.
struct Case {
    structure: Structure,
    devices: Vec<Device>,
    host: Host,
    goal: Goal,
    micro_batches: &'static [u64],
}

impl Case {
    fn new(random: &mut ChaCha8Rng, layers: u32) -> Case {
        let count = [0, 1, 2, 2][random.random_range(0..4)];
        let structure = structure(random, layers);
        let bytes = structure.weight_bytes();
        let devices = devices(random, count, bytes);
        let share = if random.random_bool(0.5) { 10.0 } else { random.random_range(0.0..1.2) };
        let host =
            Host::new(MARGIN + 40 * MIB + (share * bytes as f64) as u64, 1e9 * random.random_range(0.2..0.9));
        let is_measured =
            |device: &Device| device.rates.products.is_some() && device.rates.expert_products.is_some();
        let goal = match random.random_range(0..3) {
            0 => Goal::Decode { tokens: 500 },
            1 if devices.iter().all(is_measured) => Goal::Request { prompt: 900, output: 20 },
            _ => Goal::Decode { tokens: 0 },
        };
        let micro_batches = if goal.prompt() > 0 { &[16, 256, 512][..] } else { &[512][..] };
        Case { structure, devices, host, goal, micro_batches }
    }

    fn question(&self) -> Question<'_> {
        Question {
            structure: &self.structure,
            devices: &self.devices,
            host: self.host,
            goal: self.goal,
            context: 1024,
            sequences: 1,
            keys: Encoding::F16,
            values: Encoding::F16,
            micro_batches: self.micro_batches,
        }
    }

    /// The solution, whose line is read back as its placement.
    fn solution(&self, number: usize) -> Solution {
        let mut observer = Silent;
        let mut context = Context::new(Settings::default(), &mut observer);
        let solution = solve("model", &self.question(), &mut context)
            .unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(solution.stop, None);
        if let Some(plan) = &solution.plan {
            let line = plan.setting.line();
            let read = Setting::parse("line", &line, &self.devices).expect("a line that is read back");
            assert_eq!(place(&self.structure, &read), plan.placement, "{number}: {line}");
            assert!(solution.bound <= plan.seconds, "{number}: {} above the plan", solution.bound);
        }
        solution
    }
}

fn seconds_of(solution: &Solution) -> f64 {
    solution.plan.as_ref().map_or(f64::INFINITY, |plan| plan.seconds)
}

/// 1,000 models and machines: no plan with projections at home or on the host is better. A third of the plans needs projections
/// on the host, and some have none that fits.
#[test]
fn no_plan_at_home_is_better() {
    let mut random = ChaCha8Rng::seed_from_u64(61);
    let (mut fitting, mut overridden, mut divided, mut proved) = (0, 0, 0, 0);
    for number in 0..1000 {
        let layers = random.random_range(1..=3);
        let case = Case::new(&mut random, layers);
        let expected = enumerated(&case.question(), Plans::AtHome);
        let solution = case.solution(number);
        let found = seconds_of(&solution);
        assert!(
            found <= expected * (1.0 + 1e-9),
            "{number}: {found} is found, {expected} is better\n{:?}",
            solution.plan.map(|plan| plan.setting.line())
        );
        let Some(plan) = solution.plan else { continue };
        fitting += 1;
        proved += usize::from(solution.bound >= plan.seconds * (1.0 - 1e-9));
        overridden += usize::from(!plan.setting.overrides.is_empty());
        divided += usize::from(plan.setting.devices.len() > 1);
    }
    println!("{fitting} with a plan, {proved} proved, {overridden} with overrides, {divided} on two devices");
    assert!(
        fitting > 700 && fitting < 1000 && overridden > 80 && divided > 30,
        "{fitting}, {overridden}, {divided}"
    );
}

/// 200 models and machines: no plan with projections anywhere is below the bound, and few are better than what is found.
#[test]
fn no_plan_anywhere_is_below_the_bound() {
    let mut random = ChaCha8Rng::seed_from_u64(37);
    let (mut fitting, mut best, mut proved, mut worst) = (0, 0, 0, 0.0_f64);
    for number in 0..200 {
        let layers = random.random_range(1..=2);
        let case = Case::new(&mut random, layers);
        let expected = enumerated(&case.question(), Plans::Anywhere);
        let solution = case.solution(number);
        let found = seconds_of(&solution);
        assert!(found >= expected * (1.0 - 1e-9), "{number}: {found} is below {expected}");
        assert!(
            solution.bound <= expected * (1.0 + 1e-9),
            "{number}: bound {} of {expected}, found {found}",
            solution.bound
        );
        if expected.is_infinite() {
            continue;
        }
        fitting += 1;
        best += usize::from(found <= expected * (1.0 + 1e-9));
        proved += usize::from(solution.bound >= found * (1.0 - 1e-9));
        worst = worst.max(found / expected - 1.0);
    }
    println!(
        "{fitting} with a plan, {best} of them the best, {proved} proved, at most {:.1}% slower",
        100.0 * worst
    );
    assert!(
        fitting > 120 && best * 20 > fitting * 19 && proved * 3 > fitting * 2,
        "{fitting}, {best}, {proved}"
    );
}
