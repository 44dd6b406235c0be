//! Light models of the `onnx` Python package, if it is installed: published convolutional networks whose
//! weights are made by `ConstantOfShape`.
//!
//! The folder is `STAGEWRIGHT_ONNX_MODELS`, or else found by asking `python3` (or `STAGEWRIGHT_PYTHON`) for
//! the package.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{ClassDocument, ClusterDocument, KindDocument, LinkDocument};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_dp::Dp;

use std::collections::BTreeMap;

use super::*;
use stagewright_report::document::{Provenance, plan_document};

fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("STAGEWRIGHT_ONNX_MODELS") {
        return Some(folder.into());
    }
    let python = std::env::var_os("STAGEWRIGHT_PYTHON").unwrap_or_else(|| "python3".into());
    let ask =
        "import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), 'backend/test/data/light'))";
    let output =
        Command::new(python).args(["-c", ask]).output().ok().filter(|output| output.status.success())?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    folder.is_dir().then_some(folder)
}

fn cluster() -> ClusterDocument {
    ClusterDocument {
        schema: stagewright_core::document::CLUSTER_SCHEMA.into(),
        name: "four".into(),
        classes: BTreeMap::from([(
            "gpu".to_owned(),
            ClassDocument {
                peak_flops: Some(1.25e14),
                memory_bandwidth: Some(9e11),
                launch_overhead_s: 5e-6,
                ..ClassDocument::default()
            },
        )]),
        kinds: vec![KindDocument {
            reserve_bytes: None,
            name: "gpu".into(),
            class: "gpu".into(),
            count: 4,
            host: false,
            memory_bytes: Some(16e9),
            link: Some(LinkDocument { latency_s: 5e-6, bandwidth: 1.2e10 }),
            group: None,
            server: None,
            ram: None,
        }],
        groups: Vec::new(),
        matrix: None,
    }
}

/// Millions of parameters and billions of multiply-adds, as published for each model (torchvision's and Caffe's
/// tables). The light models deviate a little: some have layers that other converters fold.
const PUBLISHED: [(&str, f64, f64); 5] = [
    ("light_resnet50", 25.557032, 4.09),
    ("light_vgg19", 143.667240, 19.63),
    ("light_squeezenet", 1.235496, 0.35),
    ("light_densenet121", 7.978856, 2.83),
    ("light_bvlc_alexnet", 60.965224, 0.655),
];

#[test]
fn light_models_import_plan_and_check() {
    let Some(folder) = folder() else {
        eprintln!("skipped: the onnx package is not installed, and STAGEWRIGHT_ONNX_MODELS is not set");
        return;
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "onnx"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no models", folder.display());
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let imported = import_bytes(&std::fs::read(&file).unwrap(), None)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let flop = total(&imported.graph, |operator| {
            operator.flop.unwrap_or_else(|| panic!("{name}: {operator:?}"))
        });
        let parameters = total(&imported.graph, |operator| operator.parameter_bytes) / 4.0;
        if let Some(&(_, millions, billions)) = PUBLISHED.iter().find(|(published, ..)| *published == name) {
            let off = |found: f64, expected: f64| (found - expected).abs() / expected;
            assert!(off(parameters, millions * 1e6) <= 0.011, "{name}: {parameters} parameters");
            assert!(off(flop, 2.0 * billions * 1e9) <= 0.02, "{name}: {flop} FLOP");
        }
        let cluster = cluster();
        let problem = Problem::new(
            Graph::from_document(imported.graph.clone()).expect("a graph"),
            Cluster::from_document(cluster.clone()).expect("a cluster"),
            Objective::default(),
        )
        .expect("a problem");
        let mut silent = Silent;
        let limits = Limits { time: Some(Duration::from_secs(600)), ..Limits::default() };
        let mut context = Context::new(limits, &mut silent);
        let solution = Dp.solve(&problem, &mut context).expect("a contiguous problem");
        let plan =
            plan_document(&problem, &solution, Provenance { solver: "dp".into(), seconds: 0.0, seed: 0 });
        let report =
            stagewright_verify::check(&imported.graph, &cluster, None, &plan).expect("a readable plan");
        assert!(report.holds() && solution.value().is_some(), "{name}: {:?}", report.violations);
    }
}
