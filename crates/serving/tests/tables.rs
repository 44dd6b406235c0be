//! Seconds of products from tables.

use stagewright_core::document::{CostsDocument, KernelCostsDocument, KernelKind, Precision};
use stagewright_costs::Costs;
use stagewright_serving::{Engine, Parallel, Step, Worker};

use super::fixture::{DENSE, device, ideal, model, near};

/// Products of 8 tokens with the matrices of a layer on one device: queries, keys and values at once, the output, gate and
/// projection up at once, the projection down.
const MEASURED: [[f64; 4]; 4] = [
    [8.0, 1536.0, 1024.0, 1e-3],
    [8.0, 1024.0, 1024.0, 2e-3],
    [8.0, 8192.0, 1024.0, 3e-3],
    [8.0, 1024.0, 4096.0, 4e-3],
];

fn costs(class: &str) -> Costs {
    let mut document = CostsDocument::new("test");
    document.kernels.push(KernelCostsDocument {
        class: class.into(),
        kernel: KernelKind::Product,
        precision: Precision::Bf16,
        source: "test".into(),
        rows: MEASURED.map(Vec::from).into(),
    });
    Costs::new([("costs.json".to_owned(), document)]).unwrap()
}

#[test]
fn measured_products_replace_closed_forms_without_their_launches() {
    let (model, device) = (model(DENSE), device());
    let engine = Engine { launch_s: 1e-4, ..ideal() };
    let costs = costs("test");
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let measured = worker.clone().with_costs(&costs);
    let step = Step::decode(8.0, 0.0);
    // 10 kernels of a layer with attention and a dense block; 4 of them are measured with their launches.
    let layer = 1e-3 + 2e-3 + 3e-3 + 4e-3 - 4.0 * 1e-4 + 10.0 * 1e-4;
    let expected = 2.0 * layer + worker.end_seconds(&step);
    assert!(near(measured.seconds(&step), expected), "{} {expected}", measured.seconds(&step));
}

#[test]
fn other_classes_keep_their_closed_forms() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let costs = costs("other");
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(2)).unwrap();
    for step in [Step::decode(8.0, 100.0), Step::prompt(512.0, 0.0)] {
        let (plain, measured) = (worker.seconds(&step), worker.clone().with_costs(&costs).seconds(&step));
        // Matrices are priced one by one instead of joined, which changes the rounded maximum by nothing but the last digits.
        assert!((plain - measured).abs() < 1e-6 * plain, "{plain} {measured}");
    }
}
