//! Latency with one call per accelerator.

use std::fs;

use stagewright::calls::assign_calls;
use stagewright::formats::import_plan;
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::document::ObjectiveKind;
use stagewright_core::objective::Objective;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Solver};
use stagewright_dp::Dp;
use stagewright_search::{LatencyGreedy, Local};
use stagewright_verify::{ViolationKind, check};

use super::{PUBLISHED, Rounds, files, import, problem, published, shared, stem};

/// An instance on which enumerating pairs of ideals takes long; the bench covers it.
const LARGE: &str = "layer_inceptionv3_inference";
/// Maximum relative excess of the block program over the best known plan; in one instance, the best plan overlaps
/// branches.
const NEAR: f64 = 0.02;

fn latency() -> Objective {
    Objective::Latency { calls: 1 }
}

#[test]
fn blocks_are_near_the_best_known_and_local_search_reaches_it() {
    let Some(shared) = shared() else { return };
    let [best, greedy] = ["best", "greedy"].map(|column| published(&shared, "latency", column));
    for path in files(&shared.join("data/msr/latency")) {
        let name = stem(&path);
        if name == LARGE {
            continue;
        }
        let model = import(&path);
        let problem = problem(&model).with_objective(latency()).expect("a problem");
        let mut warm = None;
        for (solver, near) in [(&Dp as &dyn Solver, NEAR), (&Local, 1e-6)] {
            let mut rounds = Rounds(4);
            let limits = Limits { time: None, ..Limits::default() };
            let mut context =
                Context::new(Settings { limits, threads: 2, ..Settings::default() }, &mut rounds);
            context.warm_start = warm.take();
            let solution = solver.solve(&problem, &mut context).expect("latency");
            let value = solution.value().expect("hosts run everything");
            if let Some(known) = best.get(name) {
                assert!(value <= known * (1.0 + near), "{name} {}: {value}, known {known}", solver.name());
            }
            assert!(
                greedy.get(name).is_none_or(|greedy| value <= greedy * (1.0 + PUBLISHED)),
                "{name}: {value}"
            );
            assert!(solution.bound.value <= value, "{name}");
            let provenance = Provenance { solver: solver.name().into(), seconds: 0.0, seed: 0 };
            let plan = plan_document(&problem, &solution, provenance);
            let report =
                check(&model.graph, problem.cluster().document(), None, &plan).expect("a readable plan");
            assert!(report.violations.is_empty(), "{name}: {:?}", report.violations);
            warm = solution.plan.map(|plan| plan.placement);
        }
    }
}

/// The published greedy orders operators by a hash map. On graphs where the order does not matter, the values agree.
#[test]
fn greedy_has_its_published_value() {
    let Some(shared) = shared() else { return };
    let published = published(&shared, "latency", "greedy");
    let mut same = 0;
    for (name, expected) in &published {
        let model = import(&shared.join(format!("data/msr/latency/{name}.json")));
        let problem = problem(&model).with_objective(latency()).expect("a problem");
        let mut silent = Silent;
        let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
        let value = LatencyGreedy.solve(&problem, &mut context).expect("latency").value().expect("a plan");
        assert!((value - expected).abs() <= 0.1 * expected, "{name}: {value}, published {expected}");
        same += u32::from((value - expected).abs() <= PUBLISHED * expected);
    }
    assert!(same >= 3, "only {same} of {} are the same", published.len());
}

#[test]
fn expert_splits_have_their_published_latency() {
    let Some(shared) = shared() else { return };
    // The published values in milliseconds. They are marked `over`, because the splits exceed the memory.
    let experts = [("layer_resnet50_inference", 1.0149), ("layer_inceptionv3_inference", 0.8655)];
    for (name, expected) in experts {
        let model = import(&shared.join(format!("data/msr/latency/{name}.json")));
        let split = shared.join(format!("data/msr/experts/{}.json", name.trim_start_matches("layer_")));
        let mut plan =
            import_plan("split", &fs::read(&split).expect("a split"), &model).expect("a sound split");
        plan.objective.kind = ObjectiveKind::Latency;
        let cluster = model.graph.cluster.clone().expect("its own cluster");
        assert!(assign_calls(&model.graph, &cluster, &mut plan), "{name} has calls already");
        let report = check(&model.graph, &cluster, None, &plan).expect("a readable plan");
        let value = report.value_s.expect("a value");
        assert!((value - expected).abs() < 1e-4, "{name}: {value}");
        let kinds: Vec<_> = report.violations.iter().map(|violation| violation.kind).collect();
        assert!(
            kinds.iter().all(|&kind| kind == ViolationKind::Memory) && !kinds.is_empty(),
            "{name}: {kinds:?}"
        );
    }
}
