//! Measured costs of a model on a cluster.

use std::collections::BTreeMap;

use stagewright_core::cluster::Cluster;
use stagewright_core::cost::CostTable;
use stagewright_core::document::{
    ClassDocument, ClusterDocument, CostsDocument, GRAPH_SCHEMA_2, GraphDocument, KernelKind, KindDocument,
    LinkCostsDocument, LinkDocument, OperatorCostsDocument, OperatorDocument, Precision, TransferKind,
};
use stagewright_core::graph::Graph;
use stagewright_costs::{Costs, Estimate, Source, Unmeasured, apply};
use stagewright_formats::clusters;

use crate::tables::{known, product, table};

const MEASURED: f64 = 1e-4;

fn costs() -> Costs {
    let document = CostsDocument {
        operators: vec![OperatorCostsDocument {
            class: "gpu".into(),
            source: "test".into(),
            seconds: BTreeMap::from([("by-name".to_owned(), 3e-5)]),
            spread: BTreeMap::new(),
        }],
        kernels: vec![table(KernelKind::Product, vec![vec![512.0, 512.0, 512.0, MEASURED]])],
        links: vec![LinkCostsDocument {
            class: "gpu".into(),
            transfer: TransferKind::Send,
            devices: 2,
            between_servers: false,
            source: "test".into(),
            rows: (0..10).map(|i| 10f64.powi(i)).map(|bytes| [bytes, 2e-6 + bytes / 1e11]).collect(),
        }],
        ..CostsDocument::new("test")
    };
    Costs::new([("test".to_owned(), document)]).unwrap()
}

fn operator(name: &str, kernels: usize) -> OperatorDocument {
    OperatorDocument {
        flop: Some(1e9),
        bytes_moved: Some(1.0),
        precision: Some(Precision::Bf16),
        kernels: vec![product(512.0, 512.0, 512.0); kernels],
        ..OperatorDocument::named(name)
    }
}

fn cluster() -> ClusterDocument {
    let class = ClassDocument {
        peak_flops: Some(1e14),
        memory_bandwidth: Some(1e12),
        launch_overhead_s: 5e-6,
        ..ClassDocument::default()
    };
    let link = Some(LinkDocument { latency_s: 1.0, bandwidth: 1.0 });
    ClusterDocument {
        classes: BTreeMap::from([("gpu".to_owned(), class.clone()), ("other".to_owned(), class)]),
        kinds: vec![
            KindDocument { link, ..KindDocument::named("gpu", 2) },
            KindDocument { link, ..KindDocument::named("other", 2) },
        ],
        ..ClusterDocument::new("test")
    }
}

#[test]
fn each_operator_gets_the_best_source_that_it_has() {
    let operands = 3.0 * 2.0 * 512.0 * 512.0;
    let mut graph = GraphDocument {
        operators: vec![
            OperatorDocument { seconds: BTreeMap::from([("gpu".to_owned(), 7.0)]), ..operator("given", 1) },
            operator("by-name", 1),
            operator("one-kernel", 1),
            OperatorDocument {
                bytes_moved: Some(2.0 * operands + 1e6),
                launches: Some(5.0),
                ..operator("two-kernels", 2)
            },
            operator("no-kernel", 0),
            OperatorDocument { unsupported: vec!["gpu".into()], ..operator("unsupported", 1) },
        ],
        ..GraphDocument::new(GRAPH_SCHEMA_2, "test")
    };
    let mut cluster = cluster();
    let coverage = apply(&mut graph, &mut cluster, &costs(), Unmeasured::Stated);
    let seconds_of = |index: usize| graph.operators[index].seconds.get("gpu").copied();
    assert_eq!(seconds_of(0), Some(7.0));
    assert_eq!(seconds_of(1), Some(3e-5));
    assert_eq!(seconds_of(2), Some(MEASURED));
    // Two kernels, 1 MB at 1 TB/s, and three further launches.
    assert!((seconds_of(3).unwrap() - (2.0 * MEASURED + 1e-6 + 15e-6)).abs() < 1e-12);
    assert_eq!((seconds_of(4), seconds_of(5)), (None, None));
    use Source::{Guessed, Measured};
    assert_eq!(
        coverage.operators["gpu"],
        [Some(Measured), Some(Measured), Some(Measured), Some(Measured), Some(Guessed), None]
    );
    assert!(coverage.operators["other"].iter().all(|source| *source == Some(Guessed)));
    assert_eq!(coverage.counts("gpu"), BTreeMap::from([(Measured, 4), (Guessed, 1)]));
    assert_eq!(
        coverage.seconds("gpu", |index| index as f64),
        BTreeMap::from([(Measured, 6.0), (Guessed, 4.0)])
    );
}

#[test]
fn measured_sends_replace_the_links_of_their_class_only() {
    let mut graph = GraphDocument::new(GRAPH_SCHEMA_2, "test");
    let mut cluster = cluster();
    let own = cluster.kinds[1].link;
    cluster.kinds.push(KindDocument {
        class: "gpu".into(),
        host: true,
        link: own,
        ..KindDocument::named("host", 1)
    });
    let coverage = apply(&mut graph, &mut cluster, &costs(), Unmeasured::Stated);
    assert_eq!(coverage.links, ["gpu"]);
    let link = cluster.kinds[0].link.unwrap();
    assert!((link.latency_s / 2e-6 - 1.0).abs() < 1e-6 && (link.bandwidth / 1e11 - 1.0).abs() < 1e-6);
    assert_eq!((cluster.kinds[1].link, cluster.kinds[2].link), (own, own));
}

#[test]
fn operators_that_the_fits_of_a_class_price_count_as_fitted() {
    let mut graph = GraphDocument {
        operators: vec![operator("product", 1)],
        ..GraphDocument::new(GRAPH_SCHEMA_2, "test")
    };
    let mut cluster = cluster();
    let fit = known(KernelKind::Product, Precision::Bf16);
    cluster.classes.get_mut("other").unwrap().fits.push(fit);
    let coverage = apply(&mut graph, &mut cluster, &costs(), Unmeasured::Stated);
    assert_eq!(coverage.operators["other"], [Some(Source::Fitted)]);
    assert!(
        graph.operators[0].seconds.contains_key("gpu") && !graph.operators[0].seconds.contains_key("other")
    );
}

#[test]
fn one_rule_of_classes_holds_for_operators_kernels_and_links() {
    let costs = costs();
    let kernel = |class| costs.kernel(class, &product(512.0, 512.0, 512.0), Precision::Bf16);
    for class in ["gpu", "gpu-bf16"] {
        assert_eq!(costs.operator(class, "by-name"), Some(3e-5), "{class}");
        assert_eq!(kernel(class), Some(Estimate { seconds: MEASURED, source: Source::Measured }), "{class}");
        assert!(costs.link(class, false).is_some(), "{class}");
    }
    for class in ["gpu-large", "g"] {
        assert_eq!((costs.operator(class, "by-name"), kernel(class)), (None, None), "{class}");
        assert_eq!(costs.link(class, false), None, "{class}");
    }
    let measured = |class: &str, seconds| OperatorCostsDocument {
        class: class.into(),
        source: "test".into(),
        seconds: BTreeMap::from([("by-name".to_owned(), seconds)]),
        spread: BTreeMap::new(),
    };
    let operators = vec![measured("gpu", 3e-5), measured("gpu-bf16", 1e-5)];
    let document = CostsDocument { operators, ..CostsDocument::new("test") };
    let costs = Costs::new([("test".to_owned(), document)]).unwrap();
    assert_eq!(costs.operator("gpu-bf16", "by-name"), Some(1e-5), "its own measurements come first");
}

/// `core::cost` prices everything that was not measured, and [`apply`] records the source: fitted if the seconds depend
/// on the fits.
#[test]
fn sources_agree_with_the_seconds_of_the_problem() {
    let mut operators = Vec::new();
    for precision in [None, Some(Precision::Bf16), Some(Precision::Fp32)] {
        for kernels in 0..2 {
            for flop in [None, Some(0.0), Some(1e9)] {
                for bytes_moved in [None, Some(0.0), Some(1.0), Some(1e12)] {
                    let name = operators.len().to_string();
                    operators.push(OperatorDocument {
                        precision,
                        flop,
                        bytes_moved,
                        ..operator(&name, kernels)
                    });
                }
            }
        }
    }
    let whole = ClassDocument {
        peak_flops: Some(1e14),
        memory_bandwidth: Some(1e12),
        fits: vec![known(KernelKind::Product, Precision::Bf16)],
        ..ClassDocument::default()
    };
    let classes = BTreeMap::from([
        ("whole".to_owned(), whole.clone()),
        ("no-bandwidth".to_owned(), ClassDocument { memory_bandwidth: None, ..whole.clone() }),
        ("no-peak".to_owned(), ClassDocument { peak_flops: None, ..whole.clone() }),
        (
            "one-peak".to_owned(),
            ClassDocument { peak_flops: None, peaks: BTreeMap::from([(Precision::Fp32, 1e13)]), ..whole },
        ),
    ]);
    let names = ["whole", "no-bandwidth", "no-peak", "one-peak", "no-figures"];
    let mut cluster = ClusterDocument {
        classes,
        kinds: names.iter().map(|name| KindDocument::named(*name, 1)).collect(),
        ..ClusterDocument::new("test")
    };
    let mut graph = GraphDocument { operators, ..GraphDocument::new(GRAPH_SCHEMA_2, "test") };
    let coverage = apply(&mut graph, &mut cluster, &Costs::default(), Unmeasured::Stated);
    let seconds = |cluster: &ClusterDocument| {
        let graph = Graph::from_document(graph.clone()).unwrap();
        let costs = CostTable::new(&graph, &Cluster::from_document(cluster.clone()).unwrap()).unwrap();
        let seconds_on = |kind| graph.operators().map(|op| costs.seconds(op, kind)).collect();
        (0..names.len()).map(seconds_on).collect::<Vec<Vec<Option<f64>>>>()
    };
    let with_fits = seconds(&cluster);
    cluster.classes.values_mut().for_each(|class| class.fits.clear());
    let without = seconds(&cluster);
    for (kind, name) in names.into_iter().enumerate() {
        for (index, source) in coverage.operators[name].iter().enumerate() {
            let expected =
                with_fits[kind][index].map(|seconds| match without[kind][index] == Some(seconds) {
                    true => Source::Guessed,
                    false => Source::Fitted,
                });
            assert_eq!(*source, expected, "{:?} on {name}", graph.operators[index]);
        }
    }
}

/// A graph of products on one H100, and the cluster.
fn on_an_h100(sizes: &[f64]) -> (GraphDocument, ClusterDocument) {
    let operators = sizes.iter().map(|&m| OperatorDocument {
        kernels: vec![product(m, 4096.0, 4096.0)],
        ..operator(&format!("m{m}"), 0)
    });
    let graph =
        GraphDocument { operators: operators.collect(), ..GraphDocument::new(GRAPH_SCHEMA_2, "test") };
    (graph, clusters::find("1xh100").unwrap())
}

#[test]
fn learned_seconds_price_what_nobody_measured_on_devices_of_the_catalogue() {
    let (graph, cluster) = on_an_h100(&[100.0, 5000.0]);
    let priced = |mut graph: GraphDocument, mut cluster: ClusterDocument, costs: &Costs| {
        let coverage = apply(&mut graph, &mut cluster, costs, Unmeasured::learned());
        let seconds: Vec<Option<f64>> =
            graph.operators.iter().map(|operator| operator.seconds.get("h100").copied()).collect();
        (coverage.operators["h100"].clone(), coverage.spreads.get("h100").cloned(), seconds)
    };
    let (sources, spreads, learned) = priced(graph.clone(), cluster.clone(), &Costs::default());
    assert_eq!(sources, [Some(Source::Learned); 2]);
    assert!(spreads.unwrap().iter().all(|spread| *spread > 0.0 && *spread < 0.5));
    // Products of an H100 reach half to nine tenths of the peak once they are large.
    let least = 2.0 * 5000.0 * 4096.0 * 4096.0 / 989.4e12;
    assert!((1.1..2.0).contains(&(learned[1].unwrap() / least)), "{learned:?}");

    // Another bandwidth is another device.
    let mut other = cluster.clone();
    other.classes.values_mut().for_each(|class| class.memory_bandwidth = Some(1e12));
    let (sources, spreads, seconds) = priced(graph.clone(), other, &Costs::default());
    assert_eq!((sources, spreads, seconds), (vec![Some(Source::Fitted); 2], None, vec![None; 2]));

    // Measured kernels keep their seconds, and a few of them calibrate the others.
    let slow = |m: f64| {
        let (mut graph, mut cluster) = on_an_h100(&[m]);
        apply(&mut graph, &mut cluster, &Costs::default(), Unmeasured::learned());
        vec![m, 4096.0, 4096.0, 1.5 * graph.operators[0].seconds["h100"]]
    };
    let mut rows: Vec<Vec<f64>> = [100.0, 1000.0, 2000.0, 4000.0, 8000.0].map(slow).to_vec();
    let mut few = table(KernelKind::Product, rows.clone());
    few.class = "h100".into();
    let document = CostsDocument { kernels: vec![few], ..CostsDocument::new("test") };
    let costs = Costs::new([("few".to_owned(), document)]).unwrap();
    let (sources, _, calibrated) = priced(graph, cluster, &costs);
    assert_eq!(sources, [Some(Source::Measured), Some(Source::Learned)]);
    assert_eq!(calibrated[0], rows.remove(0).pop());
    let ratio = calibrated[1].unwrap() / learned[1].unwrap();
    assert!((1.35..1.55).contains(&ratio), "{ratio}");
}

#[test]
fn other_devices_of_the_vendor_price_a_device_without_closed_forms() {
    let seconds = |name: &str, unmeasured: Unmeasured<'_>| {
        let mut cluster = clusters::find(&format!("1x{name}")).unwrap();
        let (mut graph, _) = on_an_h100(&[4096.0]);
        let coverage = apply(&mut graph, &mut cluster, &Costs::default(), unmeasured);
        assert_eq!(coverage.has_predicted, graph.operators[0].seconds.contains_key(name), "{name}");
        (coverage.operators[name][0], graph.operators[0].seconds.get(name).copied())
    };
    assert_eq!(seconds("rtx-4090", Unmeasured::Stated), (Some(Source::Guessed), None));
    let (source, priced) = seconds("rtx-4090", Unmeasured::Closed);
    // A large product reaches between a half and all of the peak.
    let least = 2.0 * 4096.0_f64.powi(3) / 165.2e12;
    assert!(source == Some(Source::Fitted) && (1.0..2.0).contains(&(priced.unwrap() / least)), "{priced:?}");
    assert_eq!(seconds("mi300x", Unmeasured::Closed), (Some(Source::Guessed), None));
    assert_eq!(seconds("mi300x", Unmeasured::learned()), (Some(Source::Guessed), None));
}

#[test]
fn the_last_word_among_files_counts() {
    let files = ["a.json", "learned", "b.json", "closed"].map(str::to_owned);
    assert!(matches!(Unmeasured::among(&files), Some(Unmeasured::Closed)));
    assert!(matches!(Unmeasured::among(&files[..3]), Some(Unmeasured::Learned(_))));
    assert!(Unmeasured::among(&files[..1]).is_none() && Unmeasured::among(&[]).is_none());
}
