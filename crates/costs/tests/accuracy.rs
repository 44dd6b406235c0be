//! Errors on left-out measurements.

use std::collections::BTreeMap;

use stagewright_core::document::{
    ClassDocument, CostsDocument, KernelCostsDocument, KernelKind, LinkCostsDocument, TransferKind,
};
use stagewright_costs::{AccuracyOptions, Costs};

use crate::tables::{costs, products, table};

const SIZES: [f64; 9] = [16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];

fn class() -> ClassDocument {
    ClassDocument {
        peak_flops: Some(1e15),
        memory_bandwidth: Some(3e12),
        launch_overhead_s: 5e-6,
        efficiency: Some(0.5),
        ..ClassDocument::default()
    }
}

fn two_classes() -> (Costs, BTreeMap<String, ClassDocument>) {
    let other = KernelCostsDocument { class: "other".into(), ..products(&SIZES) };
    let classes = ["gpu", "other"].map(|name| (name.to_owned(), class()));
    (costs(vec![products(&SIZES), other]), BTreeMap::from(classes))
}

#[test]
fn smooth_measurements_are_predicted_well_and_the_roofline_is_beside_them() {
    let (costs, classes) = two_classes();
    let errors = costs.accuracy(&classes, AccuracyOptions::default());
    assert_eq!(errors.len(), 2);
    for error in &errors {
        assert_eq!(error.rows, 729);
        let names: Vec<&str> = error.left_out_size.keys().copied().collect();
        assert_eq!(names, ["k", "m", "n"]);
        let left_out = error.left_out_size.values().copied();
        for summary in left_out.chain(error.left_out_row).chain(error.held_out).chain(error.left_out_class) {
            assert!(summary.n > 0 && summary.median < 0.05 && summary.p90 < 0.15, "{error:?}");
            assert!(summary.median <= summary.p90);
        }
        let (fit, roofline) = (error.fit.unwrap(), error.roofline.unwrap());
        assert!(fit.mean < 0.05 && roofline.mean > 0.2, "{error:?}");
    }
}

#[test]
fn samples_are_the_same_for_a_seed_and_have_the_stated_number() {
    let (costs, classes) = two_classes();
    let options = AccuracyOptions { rows: 50, sizes: 2, seed: 7 };
    let errors = costs.accuracy(&classes, options);
    assert_eq!(errors, costs.accuracy(&classes, options));
    assert_eq!(errors[0].left_out_row.unwrap().n, 50);
    assert_eq!(errors[0].left_out_size["m"].n, 50);
}

#[test]
fn a_table_of_one_row_and_an_unknown_class_have_no_errors_to_state() {
    let costs = costs(vec![table(KernelKind::Product, vec![vec![8.0, 8.0, 8.0, 1e-5]])]);
    let errors = costs.accuracy(&BTreeMap::new(), AccuracyOptions::default());
    assert_eq!((errors[0].left_out_row, errors[0].held_out, errors[0].roofline), (None, None, None));
    assert!(errors[0].left_out_size.is_empty() && errors[0].left_out_class.is_none());
}

#[test]
fn transfers_are_predicted_from_other_bytes_and_other_numbers_of_devices() {
    let links = [2, 4, 8].map(|devices| LinkCostsDocument {
        class: "gpu".into(),
        transfer: TransferKind::AllReduce,
        devices,
        between_servers: false,
        source: "test".into(),
        rows: (0..12).map(|i| 256.0 * 4f64.powi(i)).map(|bytes| [bytes, 1e-5 + bytes / 1e11]).collect(),
    });
    let document = CostsDocument { links: links.to_vec(), ..CostsDocument::new("test") };
    let costs = Costs::new([("test".to_owned(), document)]).unwrap();
    let errors = costs.link_accuracy();
    assert_eq!(errors[0].rows, 36);
    assert_eq!((errors[0].left_out_row.unwrap().n, errors[0].left_out_devices.unwrap().n), (30, 12));
    assert!(errors[0].left_out_devices.unwrap().p90 < 1e-9, "all numbers of devices are equally fast");
    assert!(errors[0].fit.unwrap().p90 < 1e-6);
}

#[test]
fn the_largest_number_of_devices_does_not_overflow() {
    let links = [2, u32::MAX].map(|devices| LinkCostsDocument {
        class: "gpu".into(),
        transfer: TransferKind::AllReduce,
        devices,
        between_servers: false,
        source: "test".into(),
        rows: vec![[1e3, 1e-5], [1e6, 1e-4]],
    });
    let document = CostsDocument { links: links.to_vec(), ..CostsDocument::new("test") };
    let costs = Costs::new([("test".to_owned(), document)]).unwrap();
    assert_eq!(costs.link_accuracy()[0].left_out_devices, None, "neither is between two others");
}
