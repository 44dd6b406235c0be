//! Errors on the tables of an installed `aiconfigurator-core`, whose folder is in `STAGEWRIGHT_AICONFIGURATOR`.

use std::collections::BTreeMap;
use std::path::Path;

use stagewright_core::document::{ClassDocument, KernelKind, Precision};
use stagewright_costs::import::aiconfigurator::{self, Options};
use stagewright_costs::{AccuracyOptions, Costs};

/// Largest median and 90th percentile of the errors of products of left-out sizes.
const PRODUCTS: (f64, f64) = (0.05, 0.15);

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn products_of_sizes_that_are_not_in_the_tables_are_within_the_stated_errors() {
    let Ok(folder) = std::env::var("STAGEWRIGHT_AICONFIGURATOR") else {
        eprintln!("skipped: STAGEWRIGHT_AICONFIGURATOR does not name the folder of aiconfigurator-core");
        return;
    };
    let options = Options { systems: vec!["h100_sxm".into()], ..Options::default() };
    let imported = aiconfigurator::import(Path::new(&folder), &options).unwrap();
    let costs = Costs::new([(folder, imported.document)]).unwrap();
    let class = ClassDocument {
        peak_flops: Some(989.4e12),
        memory_bandwidth: Some(3.35e12),
        launch_overhead_s: 5e-6,
        efficiency: Some(0.5),
        ..ClassDocument::default()
    };
    let classes = BTreeMap::from([("h100".to_owned(), class)]);
    let errors = costs.accuracy(&classes, AccuracyOptions { rows: 1000, sizes: 6, seed: 1 });
    let products = errors
        .iter()
        .find(|error| error.kernel == KernelKind::Product && error.precision == Precision::Bf16)
        .unwrap();
    for (dimension, error) in &products.left_out_size {
        assert!(error.median <= PRODUCTS.0 && error.p90 <= PRODUCTS.1, "{dimension}: {error:?}");
    }
    let (fit, roofline) = (products.fit.unwrap(), products.roofline.unwrap());
    assert!(fit.mean < 0.5 * roofline.mean, "{fit:?}, {roofline:?}");
}
