//! Documents that are refused, each with its code.

use std::collections::BTreeMap;

use stagewright_core::document::{
    CostsDocument, KernelKind, LinkCostsDocument, OperatorCostsDocument, TransferKind,
};
use stagewright_costs::Costs;
use stagewright_costs::import::native;

use crate::tables::table;

fn refused(document: CostsDocument, code: &str) {
    let error = Costs::new([("test".to_owned(), document)]).unwrap_err();
    assert_eq!(error.code, code, "{error}");
}

fn document() -> CostsDocument {
    CostsDocument::new("test")
}

#[test]
fn an_unknown_schema_is_refused() {
    refused(CostsDocument { schema: "stagewright.costs/9".into(), ..document() }, "Q010");
}

#[test]
fn rows_of_the_wrong_length_are_refused() {
    for row in [vec![], vec![1.0, 1.0, 1.0], vec![1.0; 5]] {
        refused(CostsDocument { kernels: vec![table(KernelKind::Product, vec![row])], ..document() }, "Q011");
    }
    let row = vec![1.0, 1.0, 1.0, 1.0];
    refused(CostsDocument { kernels: vec![table(KernelKind::Attention, vec![row])], ..document() }, "Q011");
}

#[test]
fn numbers_out_of_range_are_refused() {
    for (column, bad) in
        [(0, 0.5), (0, 8.5), (1, 0.0), (2, -3.0), (0, f64::NAN), (1, f64::INFINITY), (2, 1e300)]
            .into_iter()
            .chain([0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300].map(|seconds| (3, seconds)))
    {
        let mut row = vec![8.0, 8.0, 8.0, 1e-5];
        row[column] = bad;
        refused(CostsDocument { kernels: vec![table(KernelKind::Product, vec![row])], ..document() }, "Q012");
    }
    for row in [[0.0, 1.0], [1.0, 0.0], [f64::NAN, 1.0], [1.0, f64::INFINITY]] {
        refused(CostsDocument { links: vec![link(2, row)], ..document() }, "Q012");
    }
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        refused(operators(bad, 0.1), "Q012");
        refused(operators(1.0, bad), "Q012");
    }
}

#[test]
fn a_spread_without_seconds_is_refused() {
    let mut document = operators(1.0, 0.1);
    document.operators[0].seconds.clear();
    refused(document, "Q109");
}

#[test]
fn a_file_and_a_document_are_refused_with_the_same_error() {
    let row = |row| CostsDocument { kernels: vec![table(KernelKind::Product, vec![row])], ..document() };
    for (document, code, place) in [
        (row(vec![1.0; 3]), "Q011", "kernels[0].rows[0]"),
        (row(vec![8.0, 8.5, 8.0, 1.0]), "Q012", "kernels[0].rows[0][1]"),
        (row(vec![8.0, 8.0, 8.0, 0.0]), "Q012", "kernels[0].rows[0][3]"),
        (operators(-1.0, 0.1), "Q012", "operators[0].seconds.a"),
        (operators(1.0, -0.1), "Q012", "operators[0].spread.a"),
        (CostsDocument { links: vec![link(1, [1.0, 1.0])], ..document() }, "Q014", "links[0].devices"),
        (CostsDocument { links: vec![link(2, [0.0, 1.0])], ..document() }, "Q012", "links[0].rows[0][0]"),
        (CostsDocument { links: vec![link(2, [1.0, 0.0])], ..document() }, "Q012", "links[0].rows[0][1]"),
    ] {
        let error = native::import("test", native::write(&document).as_bytes()).unwrap_err();
        assert_eq!((error.code.name, error.place.at.to_string().as_str()), (code, place), "{error}");
        assert_eq!(Costs::new([("test".to_owned(), document)]).unwrap_err(), error);
    }
}

#[test]
fn classes_without_a_name_are_refused() {
    let mut kernels = table(KernelKind::Product, Vec::new());
    kernels.class.clear();
    refused(CostsDocument { kernels: vec![kernels], ..document() }, "Q013");
}

#[test]
fn transfers_among_fewer_than_two_devices_are_refused() {
    for devices in [0, 1] {
        refused(CostsDocument { links: vec![link(devices, [1.0, 1.0])], ..document() }, "Q014");
    }
}

fn link(devices: u32, row: [f64; 2]) -> LinkCostsDocument {
    LinkCostsDocument {
        class: "gpu".into(),
        transfer: TransferKind::Send,
        devices,
        between_servers: false,
        source: "test".into(),
        rows: vec![row],
    }
}

fn operators(seconds: f64, spread: f64) -> CostsDocument {
    let operators = OperatorCostsDocument {
        class: "gpu".into(),
        source: "test".into(),
        seconds: BTreeMap::from([("a".to_owned(), seconds)]),
        spread: BTreeMap::from([("a".to_owned(), spread)]),
    };
    CostsDocument { operators: vec![operators], ..document() }
}
