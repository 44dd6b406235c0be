//! Training data: instances are reproducible problems of the requested sizes; labels agree with the independent
//! checker; a file of labels survives a kill at any byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stagewright::report::document::{Provenance, plan_document};
use stagewright::train::clusters::{CLASSES, COMMUNICATION, ROOM, staying_bytes};
use stagewright::train::families::{FAMILIES, FEWEST, MOST};
use stagewright::train::label::{MAX_PLANS, WORSE, Work};
use stagewright::train::recipe::{RecipeDocument, Target};
use stagewright::train::store::{Filling, Labeller, Labels, Local, Progress, StoreError, Take, Wanted};
use stagewright::train::{Instance, Label, LabelEffort, Labelled, Recipe, fill, instance, label};
use stagewright_core::bound::LowerBound;
use stagewright_core::document::{KindDocument, ObjectiveKind, Pass};
use stagewright_core::evaluate::evaluate;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Plan, Solution};
use stagewright_core::tolerance;
use stagewright_verify::check;

const QUICK: LabelEffort = LabelEffort::Seconds(0.04);
/// An effort with which labels are the same on every machine.
const COUNTED: LabelEffort = LabelEffort::Simulations(400);

fn recipe(seed: u64, operators: [usize; 2]) -> Recipe {
    let objectives = vec![Target::Makespan, Target::Throughput];
    let document = RecipeDocument {
        seed,
        families: None,
        except: Vec::new(),
        operators,
        devices: [2, 8],
        objectives,
        communication: None,
        room: None,
        alike: false,
    };
    Recipe::new(document).expect("a recipe")
}

fn documents(instance: &Instance) -> (String, String) {
    let problem = &instance.problem;
    let graph = serde_json::to_string(problem.graph().document()).expect("JSON");
    (graph, serde_json::to_string(problem.cluster().document()).expect("JSON"))
}

/// A path that no other test uses. The file is removed at the end of the test.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("labels.jsonl")
    }
}

fn fill_quietly(recipe: &Recipe, count: u64, path: &Path) -> Result<bool, StoreError> {
    fill_with(recipe, &QUICK, count, path, &Local { threads: 2 })
}

fn fill_with(
    recipe: &Recipe,
    effort: &LabelEffort,
    count: u64,
    path: &Path,
    labeller: &dyn Labeller,
) -> Result<bool, StoreError> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let filling = Filling { labeller, interrupt, progress: &|_: Progress<'_>| {} };
    fill(recipe, effort, count, path, &filling)
}

#[test]
fn every_family_makes_graphs_of_the_sizes_asked_for_the_same_every_time() {
    for (index, family) in (0..).zip(FAMILIES) {
        let mut made = 0;
        for (task, target) in [20, 33, 70, 150, 400, 1000, 4000].into_iter().enumerate() {
            let Some(size) = family.nearest(target, [FEWEST, MOST]) else { continue };
            let graph = || family.graph(&mut seed::stream(index, task as u64), size);
            let document = graph();
            let operators = document.operators.len();
            assert!(size <= 2 * operators && operators <= 2 * size, "{}: {operators} of {size}", family.name);
            assert!(document == graph(), "{}", family.name);
            let has_backward = document.operators.iter().any(|operator| operator.pass == Pass::Backward);
            assert_eq!(has_backward, family.is_training, "{}", family.name);
            made += 1;
        }
        assert_eq!(made, 7, "{}", family.name);
    }
}

#[test]
fn a_number_gives_the_same_documents_and_another_number_others() {
    let recipe = recipe(5, [20, 200]);
    let mut seen = BTreeSet::new();
    for index in 0..60 {
        let made = documents(&instance(&recipe, index));
        assert!(made == documents(&instance(&recipe, index)), "{index}");
        assert!(seen.insert(made), "{index}");
    }
}

#[test]
fn instances_are_of_the_sizes_asked_for_and_of_all_families_clusters_and_objectives() {
    let recipe = recipe(1, [20, 300]);
    let mut families = BTreeMap::new();
    let mut seen = [0; 9];
    let mut bandwidths = [f64::INFINITY, 0.0f64];
    for index in 0..600 {
        let Instance { name, family, problem } = instance(&recipe, index);
        *families.entry(family).or_insert(0) += 1;
        let (graph, cluster) = (problem.graph(), problem.cluster().document());
        let operators = graph.operator_count();
        assert!((10..=600).contains(&operators), "{name}: {operators}");
        assert!((2..=8).contains(&problem.cluster().device_count()), "{name}");
        let limited = cluster.kinds[0].memory_bytes.is_some();
        let memory: f64 = cluster
            .kinds
            .iter()
            .map(|kind| f64::from(kind.count) * kind.memory_bytes.unwrap_or(f64::INFINITY))
            .sum();
        let staying = staying_bytes(graph, problem.objective().kind());
        assert!(memory >= ROOM[0] * staying * (1.0 - 1e-9), "{name}: {memory} for {staying}");
        let communication = communication(&problem);
        let asked = COMMUNICATION[0] * 0.999..=COMMUNICATION[1] * 1.001;
        assert!(asked.contains(&communication), "{name}: {communication}");
        bandwidths = [bandwidths[0].min(bandwidth(&problem)), bandwidths[1].max(bandwidth(&problem))];
        let is_mixed = cluster.kinds.iter().any(|kind| kind.class == CLASSES[1]);
        let has_host = cluster.kinds.iter().any(|kind| kind.host);
        let facts = [
            problem.objective().kind() == ObjectiveKind::Makespan,
            problem.objective().kind() == ObjectiveKind::Throughput,
            limited && memory < 2.0 * staying,
            !limited,
            is_mixed,
            has_host,
            !cluster.groups.is_empty(),
            communication < 0.05,
            communication > 2.0,
        ];
        for (seen, fact) in seen.iter_mut().zip(facts) {
            *seen += u32::from(fact);
        }
    }
    let expected: BTreeSet<&str> = recipe.families().iter().map(|family| family.name).collect();
    assert_eq!(families.keys().copied().collect::<BTreeSet<_>>(), expected, "{families:?}");
    assert!(expected.len() > 45, "{expected:?}");
    assert!(seen.iter().all(|&count| count > 30), "{seen:?}");
    assert!(bandwidths[1] > 1e4 * bandwidths[0], "{bandwidths:?}");
}

#[test]
fn links_and_memories_are_as_asked_for() {
    let text = "seed = 2\nfamilies = [\"layered\", \"branching\"]\noperators = [20, 60]\ndevices = [2, 4]\nobjectives = [\"makespan\"]\n\
                communication = [20.0, 40.0]\nroom = [50.0, 60.0]\n";
    let recipe = Recipe::from_toml(text).expect("a recipe");
    let (mut limited, mut drawn) = (0, 0);
    for index in 0..30 {
        let Instance { name, problem, .. } = instance(&recipe, index);
        let ratio = communication(&problem);
        assert!((20.0 * 0.999..=40.0 * 1.001).contains(&ratio), "{name}: {ratio}");
        let bytes_of =
            |kind: &KindDocument| (!kind.host).then(|| Some(f64::from(kind.count) * kind.memory_bytes?));
        let memory: Option<f64> = problem.cluster().document().kinds.iter().filter_map(bytes_of).sum();
        let staying = staying_bytes(problem.graph(), ObjectiveKind::Makespan);
        if let Some(memory) = memory {
            // Live tensors may need more memory; in that case, the memory was increased.
            assert!(memory >= 50.0 * 0.999 * staying, "{name}: {memory} for {staying}");
            limited += 1;
            drawn += u32::from(memory <= 60.0 * 1.001 * staying);
        }
    }
    assert!(limited > 10 && drawn > 3, "{limited} {drawn}");
}

#[test]
fn devices_are_alike_where_that_is_asked_for() {
    let text = "seed = 2\nfamilies = [\"layered\"]\noperators = [20, 40]\ndevices = [2, 6]\nobjectives = [\"makespan\"]\n";
    let differing = |text: &str| {
        let recipe = Recipe::from_toml(text).expect("a recipe");
        let is_plain = |index| {
            let problem = instance(&recipe, index).problem;
            let cluster = problem.cluster().document();
            cluster.kinds.len() == 1 && !cluster.kinds[0].host && cluster.groups.is_empty()
        };
        (0..30).filter(|&index| !is_plain(index)).count()
    };
    assert_eq!(differing(&format!("{text}alike = true\n")), 0);
    assert!(differing(text) > 10);
}

/// Bytes per second of the links of the first kind.
fn bandwidth(problem: &Problem) -> f64 {
    problem.cluster().kind(0).link.map_or(f64::NAN, |link| link.bandwidth)
}

/// Transfer seconds per second of computation, on the first kind and without latency.
fn communication(problem: &Problem) -> f64 {
    let (graph, costs) = (problem.graph(), problem.costs());
    let seconds: f64 = graph.operators().filter_map(|op| costs.seconds(op, 0)).sum();
    let bytes: f64 = graph.tensors().map(|tensor| graph.bytes(tensor)).sum();
    bytes / bandwidth(problem) / seconds
}

#[test]
fn large_instances_are_problems_too() {
    let recipe = recipe(2, [1000, 4000]);
    for index in 0..12 {
        let made = instance(&recipe, index);
        let operators = made.problem.graph().operator_count();
        assert!((500..=8000).contains(&operators), "{}: {operators}", made.name);
    }
}

/// For every operator, the kind of its device and the first operator on that device. These do not depend on device
/// names.
fn places(problem: &Problem, plan: &Labelled) -> Vec<(usize, u32)> {
    let device = |op| plan.placement.device_of(op);
    let mut first = BTreeMap::new();
    for op in problem.graph().operators() {
        first.entry(device(op)).or_insert(op.0);
    }
    problem
        .graph()
        .operators()
        .map(|op| (problem.cluster().kind_of(device(op)), first[&device(op)]))
        .collect()
}

/// Checks a labelled placement from its documents alone.
fn check_plan(made: &Instance, index: u64, value: f64, plan: Plan) {
    let problem = &made.problem;
    let solution = Solution::with_plan("label", plan, LowerBound::TRIVIAL, None);
    let provenance = Provenance { solver: "label".into(), seconds: 0.0, seed: index };
    let document = plan_document(problem, &solution, provenance);
    let report = check(problem.graph().document(), problem.cluster().document(), None, &document);
    let report = report.expect("a sound problem");
    assert!(report.holds(), "{}: {:?}", made.name, report.violations);
    let found = report.value_s.expect("a value");
    assert!(tolerance::same(found, value), "{}: {found}, {value}", made.name);
}

#[test]
fn the_checker_accepts_every_plan_of_a_label_and_agrees_on_its_value() {
    let recipe = recipe(3, [20, 80]);
    let (mut several, mut proved, mut ordered) = (0, 0, 0);
    for index in 0..50 {
        let made = instance(&recipe, index);
        let work = Work { seed: index, threads: 1, interrupt: Arc::new(AtomicBool::new(false)) };
        let label = label(&made.problem, &QUICK, &work).expect("a label").expect("nobody interrupted it");
        assert!((1..=MAX_PLANS).contains(&label.plans.len()), "{}", made.name);
        assert_eq!(label.value, label.plans[0].value, "{}", made.name);
        assert!(label.bound <= label.value && label.bound >= 0.0, "{}", made.name);
        assert_eq!(label.proved, tolerance::gap(label.value, label.bound) == 0.0, "{}", made.name);
        for (position, plan) in label.plans.iter().enumerate() {
            assert!(plan.value <= label.value * (1.0 + WORSE) && plan.value >= label.value, "{}", made.name);
            let evaluation = evaluate(&made.problem, &plan.placement);
            check_plan(&made, index, plan.value, Plan { placement: plan.placement.clone(), evaluation });
            let places = places(&made.problem, plan);
            assert!(
                !label.plans[..position].iter().any(|other| self::places(&made.problem, other) == places)
            );
            ordered += u32::from(!plan.placement.priority().is_empty());
        }
        several += u32::from(label.plans.len() > 1);
        proved += u32::from(label.proved);
    }
    assert!(several > 15 && proved > 5 && ordered > 15, "{several}, {proved}, {ordered}");
}

#[test]
fn a_file_cut_off_anywhere_is_filled_again_to_the_same_instances() {
    const COUNT: u64 = 8;
    let recipe = recipe(6, [20, 30]);
    let scratch = Scratch::new();
    let path = scratch.path();
    assert_eq!(fill_quietly(&recipe, COUNT, &path), Ok(true));
    let whole = fs::read(&path).expect("labels");
    let first = Labels::read(&path).expect("labels");
    let all: BTreeSet<u64> = (0..COUNT).collect();
    assert_eq!(first.labels.keys().copied().collect::<BTreeSet<_>>(), all);
    let lines = whole.split_inclusive(|&byte| byte == b'\n');
    let ends: Vec<usize> = lines
        .scan(0, |offset, line| {
            Some({
                *offset += line.len();
                *offset
            })
        })
        .collect();
    // The positions are every line end with its adjacent bytes, one inside the header, and a few others.
    let mut cuts: BTreeSet<usize> =
        ends.iter().flat_map(|&end| [end - 1, end, (end + 1).min(whole.len())]).collect();
    cuts.extend([0, 1, ends[0] / 2, ends[1] + (ends[2] - ends[1]) / 3, whole.len() - 7]);
    for cut in cuts {
        fs::write(&path, &whole[..cut]).expect("a file");
        assert_eq!(fill_quietly(&recipe, COUNT, &path), Ok(true), "{cut}");
        let again = Labels::read(&path).expect("labels");
        assert_eq!(again.header, first.header);
        assert_eq!(again.labels.keys().copied().collect::<BTreeSet<_>>(), all, "{cut}");
        // Complete lines are kept byte for byte.
        let kept = ends.iter().copied().filter(|&end| end <= cut).max().unwrap_or(0);
        assert!(fs::read(&path).expect("labels").starts_with(&whole[..kept]), "{cut}");
    }
}

#[test]
fn more_labels_are_added_to_those_that_are_there_and_read_back_as_placements() {
    let recipe = recipe(7, [20, 40]);
    let scratch = Scratch::new();
    let path = scratch.path();
    assert_eq!(fill_quietly(&recipe, 3, &path), Ok(true));
    let few = fs::read(&path).expect("labels");
    assert_eq!(fill_quietly(&recipe, 9, &path), Ok(true));
    assert!(fs::read(&path).expect("labels").starts_with(&few));
    assert_eq!(fill_quietly(&recipe, 2, &path), Ok(true));
    let read = Labels::read(&path).expect("labels");
    assert_eq!(read.labels.len(), 9);
    for (&index, stored) in &read.labels {
        let made = instance(&recipe, index);
        assert_eq!((stored.name.as_str(), stored.family.as_str()), (made.name.as_str(), made.family));
        let label = stored.label(&made.problem).expect("a label of this problem");
        for plan in label.plans {
            let evaluation = evaluate(&made.problem, &plan.placement);
            assert!(evaluation.is_feasible() && evaluation.value == plan.value, "{index}");
        }
        let other = instance(&recipe, index + 100).problem;
        if other.graph().operator_count() != made.problem.graph().operator_count() {
            assert_eq!(stored.label(&other).map_err(|error| error.code().name).err(), Some("D016"));
        }
    }
}

#[test]
fn an_interrupt_keeps_what_is_done() {
    let recipe = recipe(8, [20, 40]);
    let scratch = Scratch::new();
    let path = scratch.path();
    let interrupt = Arc::new(AtomicBool::new(false));
    let after_two = |progress: Progress<'_>| {
        if progress.done == 2 {
            interrupt.store(true, Ordering::Relaxed);
        }
    };
    let labeller = Local { threads: 2 };
    let filling = Filling { labeller: &labeller, interrupt: interrupt.clone(), progress: &after_two };
    assert_eq!(fill(&recipe, &QUICK, 20, &path, &filling), Ok(false));
    let done = Labels::read(&path).expect("labels").labels.len();
    assert!((2..=3).contains(&done), "{done}");
    assert_eq!(fill_quietly(&recipe, 5, &path), Ok(true));
    assert_eq!(Labels::read(&path).expect("labels").labels.len(), 5);
}

#[test]
fn files_that_hold_something_else_are_refused_with_their_place_and_left_alone() {
    let ours = recipe(9, [20, 30]);
    let scratch = Scratch::new();
    let path = scratch.path();
    assert_eq!(fill_quietly(&ours, 2, &path), Ok(true));
    let whole = fs::read_to_string(&path).expect("labels");
    let name = path.display().to_string();
    let refused = |text: &str, recipe: &Recipe| {
        fs::write(&path, text).expect("a file");
        let error = fill_quietly(recipe, 3, &path).expect_err("another file");
        assert_eq!(fs::read_to_string(&path).expect("the file"), text);
        assert!(!error.help().is_empty());
        (error.code().name, error.place().replace(&name, "labels"))
    };
    let is = |code: &'static str, place: &str| (code, place.to_owned());
    assert_eq!(refused(&whole, &recipe(10, [20, 30])), is("D013", "labels:1: recipe.seed"));
    assert_eq!(refused(&whole, &recipe(9, [20, 31])), is("D013", "labels:1: recipe.operators"));
    let with = |communication, room| {
        let document = RecipeDocument { communication, room, ..ours.document().clone() };
        Recipe::new(document).expect("a recipe")
    };
    let (slow, tight) = (with(Some([1.0, 2.0]), None), with(None, Some([1.0, 2.0])));
    assert_eq!(refused(&whole, &slow), is("D013", "labels:1: recipe.communication"));
    assert_eq!(refused(&whole, &tight), is("D013", "labels:1: recipe.room"));
    let alike = Recipe::new(RecipeDocument { alike: true, ..ours.document().clone() }).expect("a recipe");
    assert_eq!(refused(&whole, &alike), is("D013", "labels:1: recipe.alike"));
    fs::write(&path, &whole).expect("a file");
    assert_eq!(fill_quietly(&with(Some(COMMUNICATION), Some(ROOM)), 2, &path), Ok(true), "as they are");
    let other = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replacen(from, to, 1)
    };
    assert_eq!(refused(&other("labels/1", "labels/2"), &ours), is("D012", "labels:1: schema"));
    assert_eq!(
        refused(&other("\"generation\":", "\"generation\":9"), &ours),
        is("D013", "labels:1: generation")
    );
    assert_eq!(refused(&other("\"effort\"", "\"efforts\""), &ours), is("D014", "labels:1"));
    assert_eq!(refused(&other("\"proved\"", "\"proven\""), &ours), is("D014", "labels:2"));
    assert_eq!(refused("important notes\n", &ours), is("D011", "labels"));
    assert_eq!(refused("important notes", &ours), is("D011", "labels"));
    let twice = format!("{whole}{}\n", whole.lines().nth(1).expect("a label"));
    assert_eq!(refused(&twice, &ours), is("D014", "labels:4"));
    let none = scratch.0.path().join("no").join("folder");
    assert_eq!(fill_quietly(&ours, 1, &none).map_err(|error| error.code().name), Err("D010"));
    let work = Work { seed: 0, threads: 1, interrupt: Arc::new(AtomicBool::new(false)) };
    let seconds = [0.0, -1.0, f64::NAN, f64::INFINITY].map(LabelEffort::Seconds);
    let counts = [0, u64::MAX].map(LabelEffort::Simulations);
    for effort in seconds.into_iter().chain(counts) {
        let label = label(&instance(&ours, 0).problem, &effort, &work);
        assert_eq!(label.map_err(|error| error.code().name), Err("D006"));
    }
}

#[test]
fn two_programs_do_not_add_to_one_file() {
    let recipe = recipe(11, [20, 30]);
    let scratch = Scratch::new();
    let path = scratch.path();
    let second = std::sync::Mutex::new(None);
    let progress = |_: Progress<'_>| {
        let outcome = fill_quietly(&recipe, 1, &path).map_err(|error| error.code().name);
        *second.lock().expect("nothing failed") = Some(outcome);
    };
    let filling = Filling {
        labeller: &Local { threads: 1 },
        interrupt: Arc::new(AtomicBool::new(false)),
        progress: &progress,
    };
    assert_eq!(fill(&recipe, &QUICK, 1, &path, &filling), Ok(true));
    assert_eq!(second.into_inner().expect("nothing failed"), Some(Err("D015")));
}

/// Labels with a counted effort depend neither on threads nor on the load of the machine.
#[test]
fn counted_labels_are_the_same_under_load_and_for_any_threads() {
    let recipe = recipe(12, [20, 200]);
    let (mut proved, mut open) = (0, 0);
    for index in 0..8 {
        let problem = instance(&recipe, index).problem;
        let labelled = |threads| {
            let work = Work { seed: index, threads, interrupt: Arc::new(AtomicBool::new(false)) };
            label(&problem, &COUNTED, &work).expect("a label").expect("nobody interrupted it")
        };
        let alone = labelled(1);
        let load = AtomicBool::new(true);
        let beside = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while load.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let beside = [labelled(1), labelled(2)];
            load.store(false, Ordering::Relaxed);
            beside
        });
        let bits = |label: &Label| {
            let values = label.plans.iter().map(|plan| plan.value.to_bits());
            (label.value.to_bits(), label.bound.to_bits(), values.collect::<Vec<_>>())
        };
        for other in &beside {
            assert_eq!((bits(other), other), (bits(&alone), &alone), "{index}");
        }
        *(if alone.proved { &mut proved } else { &mut open }) += 1;
    }
    assert!(proved > 0 && open > 0, "{proved} {open}");
}

/// Returns the labels of another labeller in a different order, and every third one twice.
struct Shuffled(Local);

impl Labeller for Shuffled {
    fn label(&self, wanted: &Wanted<'_>, take: &Take<'_>) -> Result<(), StoreError> {
        let mut indices = wanted.indices.to_vec();
        indices.sort_by_key(|index| (index % 3, std::cmp::Reverse(*index)));
        let twice: Vec<u64> =
            indices.iter().flat_map(|&index| vec![index; 1 + usize::from(index % 3 == 0)]).collect();
        self.0.label(&Wanted { indices: &twice, ..*wanted }, take)
    }
}

#[test]
fn the_file_is_the_same_whatever_the_threads_and_the_order_of_the_labels() {
    let recipe = recipe(13, [20, 60]);
    let scratch = Scratch::new();
    let path = scratch.path();
    let filled = |labeller: &dyn Labeller| {
        let _ = fs::remove_file(&path);
        assert_eq!(fill_with(&recipe, &COUNTED, 10, &path, labeller), Ok(true));
        fs::read(&path).expect("labels")
    };
    let first = filled(&Local { threads: 1 });
    assert!(first == filled(&Local { threads: 3 }));
    assert!(first == filled(&Shuffled(Local { threads: 2 })));
    let order: Vec<u64> = String::from_utf8(first)
        .expect("text")
        .lines()
        .skip(1)
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["index"]
                .as_u64()
                .expect("a number")
        })
        .collect();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
}

/// Files of earlier versions, whose effort is always in seconds, can be read, and are written in the same form.
#[test]
fn an_effort_in_seconds_is_written_as_before() {
    assert_eq!(serde_json::to_string(&QUICK).expect("JSON"), r#"{"seconds":0.04}"#);
    assert_eq!(serde_json::to_string(&COUNTED).expect("JSON"), r#"{"simulations":400}"#);
    let read = |text: &str| serde_json::from_str::<LabelEffort>(text);
    assert_eq!(read(r#"{"seconds":0.04}"#).ok(), Some(QUICK));
    assert!(read(r#"{"seconds":0.04,"simulations":400}"#).is_err() && read("{}").is_err());
}
