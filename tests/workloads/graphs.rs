//! Invariants of every graph, independent of the family.

use std::collections::{BTreeMap, BTreeSet};

use stagewright::workloads::{
    FAMILIES, Family, Granularity, Optimizer, Options, Precision, Size, Sizes, WorkloadError, family,
};
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{GraphDocument, OperatorDocument, Pass};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;

use super::{close, flop, generate, of_pass, one, parameter_bytes, sum};

fn each_variant(mut check: impl FnMut(&'static dyn Family, &'static str)) {
    for &family in FAMILIES {
        for variant in family.variants() {
            check(family, variant);
        }
    }
}

fn training(granularity: Granularity) -> Options {
    Options { training: Some(Optimizer::Adam), granularity, ..Options::default() }
}

fn cluster() -> Cluster {
    let text = include_str!("../../data/demo/cluster.toml");
    let document = stagewright::formats::import_cluster("cluster.toml", text.as_bytes()).unwrap();
    Cluster::from_document(document).unwrap()
}

/// Loading a graph checks names, numbers, pins and cycles; the problem prices every operator by the roofline model.
#[test]
fn every_graph_makes_a_problem() {
    let cluster = std::sync::Arc::new(cluster());
    each_variant(|family, variant| {
        for training in [None, Some(Optimizer::Momentum)] {
            for granularity in [Granularity::Operator, Granularity::Layer] {
                let options = Options { training, granularity, ..Options::default() };
                let document = generate(family.name(), variant, &options);
                let graph = Graph::from_document(document)
                    .unwrap_or_else(|error| panic!("{} {variant}: {error}", family.name()));
                let problem = Problem::new(graph, cluster.clone(), Objective::default())
                    .unwrap_or_else(|error| panic!("{} {variant}: {error}", family.name()));
                let unpriced =
                    problem.graph().operators().find(|&op| problem.costs().seconds(op, 0).is_none());
                assert_eq!(unpriced, None, "{} {variant}", family.name());
            }
        }
    });
}

#[test]
fn whatever_follows_the_forward_pass_stays_with_its_forward_operator() {
    each_variant(|family, variant| {
        for granularity in [Granularity::Operator, Granularity::Layer] {
            let graph = generate(family.name(), variant, &training(granularity));
            let mut forward: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for operator in of_pass(&graph, Pass::Forward) {
                let home = operator.colocation.as_deref().expect("a step colocates");
                forward.entry(home).or_default().push(&operator.name);
            }
            let names: BTreeSet<&str> = forward.values().flatten().copied().collect();
            for operator in graph.operators.iter().filter(|operator| operator.pass != Pass::Forward) {
                assert_eq!(operator.parameter_bytes, 0.0);
                let homes = operator.colocation.as_deref().and_then(|home| forward.get(home));
                let homes = homes.unwrap_or_else(|| panic!("{} is alone", operator.name));
                // A sum of gradients is colocated with a reader, and any other operator with the operator after which
                // it is named.
                let own = homes
                    .iter()
                    .any(|home| operator.name.strip_prefix(home).is_some_and(|rest| rest.starts_with('.')));
                let is_sum = operator.kind.as_deref() == Some("accumulate");
                // A variable is not an operator, so its update is colocated with a reader.
                let is_of_variable =
                    operator.name.strip_suffix(".update").is_some_and(|name| !names.contains(name));
                assert!(own || is_sum || is_of_variable, "{}", operator.name);
            }
        }
    });
}

/// Each reader of a tied table updates it, but the weights of an unrolled layer are updated once.
#[test]
fn every_parameter_is_updated_where_it_is_read() {
    each_variant(|family, variant| {
        let graph = generate(family.name(), variant, &training(Granularity::Operator));
        let updates: BTreeSet<&str> =
            of_pass(&graph, Pass::Update).map(|update| update.name.as_str()).collect();
        assert!(of_pass(&graph, Pass::Update).all(|update| update.kind.as_deref() == Some("adam")));
        for shared in &graph.parameters {
            let is_updated = |name: &String| updates.contains(format!("{name}.update").as_str());
            assert!(
                is_updated(&shared.name) || shared.readers.iter().all(is_updated),
                "{} {variant}: {}",
                family.name(),
                shared.name
            );
            assert!(shared.optimizer_bytes >= 2.0 * shared.bytes, "{}: two moments", shared.name);
        }
        let own = of_pass(&graph, Pass::Forward).filter(|operator| operator.parameter_bytes > 0.0).count();
        assert!(updates.len() >= own + graph.parameters.len(), "{} {variant}", family.name());
    });
}

#[test]
fn training_has_the_forward_pass_of_inference_and_losses() {
    each_variant(|family, variant| {
        if (family.name(), variant) == ("inception-v3", "auxiliary") {
            return;
        }
        let inference = generate(family.name(), variant, &Options::default());
        let step = generate(family.name(), variant, &training(Granularity::Operator));
        // Tensors that the backward pass reads leave their kernel, so bytes moved and launches differ.
        let costs = |operator: &OperatorDocument| (operator.name.clone(), operator.flop);
        let plain: Vec<_> = inference.operators.iter().map(costs).collect();
        let without_losses: Vec<_> = of_pass(&step, Pass::Forward)
            .filter(|operator| operator.kind.as_deref() != Some("loss"))
            .map(costs)
            .collect();
        assert_eq!(plain, without_losses, "{} {variant}", family.name());
        assert_eq!(parameter_bytes(&inference), parameter_bytes(&step), "{} {variant}", family.name());
    });
}

/// Kernels do not extend across layers, so bytes moved and launches differ.
#[test]
fn layers_keep_the_sums_of_their_operators() {
    each_variant(|family, variant| {
        let operators = generate(family.name(), variant, &training(Granularity::Operator));
        let layers = generate(family.name(), variant, &training(Granularity::Layer));
        let states = |graph: &GraphDocument| {
            sum(graph, |operator| operator.optimizer_bytes)
                + graph.parameters.iter().map(|shared| shared.optimizer_bytes).sum::<f64>()
        };
        let sums = |graph: &GraphDocument| [sum(graph, flop), parameter_bytes(graph), states(graph)];
        for (found, expected) in sums(&layers).into_iter().zip(sums(&operators)) {
            assert!(close(found, expected, 1e-9), "{} {variant}: {found}, {expected}", family.name());
        }
        assert!(layers.operators.len() < operators.operators.len(), "{} {variant}", family.name());
    });
}

/// The readers of a shared parameter may be on different devices: each has its copy and, in training, an update
/// of it.
#[test]
fn tied_tables_are_shared_parameters_that_each_reader_updates() {
    let graph = generate("gpt", "2-small", &training(Granularity::Operator));
    let [tied] = graph.parameters.as_slice() else {
        panic!("one table is tied: {:?}", graph.parameters);
    };
    assert_eq!(tied.bytes, 4.0 * 50_257.0 * 768.0);
    assert_eq!(tied.optimizer_bytes, 2.0 * tied.bytes);
    assert_eq!(tied.readers.len(), 2);
    let updates = |reader: &&String| {
        let home =
            graph.operators.iter().find(|operator| operator.name == **reader).expect("it is an operator");
        of_pass(&graph, Pass::Update).filter(|update| update.colocation == home.colocation).count()
    };
    assert!(tied.readers.iter().all(|reader| updates(&reader) == 1), "{:?}", tied.readers);
    let homes: BTreeSet<_> = tied
        .readers
        .iter()
        .filter_map(|reader| graph.operators.iter().find(|operator| operator.name == *reader))
        .map(|operator| &operator.colocation)
        .collect();
    assert_eq!(homes.len(), 2, "they are free of one another");
}

/// Steps of an unrolled layer read one variable, which is not an operator, and produce one gradient for one
/// update.
#[test]
fn unrolled_layers_share_their_weights() {
    let graph = generate("gnmt", "2", &training(Granularity::Operator));
    assert!(graph.operators.iter().all(|operator| operator.kind.as_deref() != Some("variable")));
    let sizes: BTreeMap<&str, usize> =
        graph.parameters.iter().map(|shared| (shared.name.as_str(), shared.readers.len())).collect();
    assert!(sizes.values().filter(|&&readers| readers > 20).count() >= 4, "{sizes:?}");
    for shared in &graph.parameters {
        let update = format!("{}.update", shared.name);
        let updates = of_pass(&graph, Pass::Update).filter(|operator| operator.name == update).count();
        assert_eq!(updates, 1, "{}", shared.name);
    }
}

/// The output of inference has no reader but is kept; all other tensors have readers.
#[test]
fn the_answer_of_inference_is_a_tensor_without_readers() {
    for (name, variant, outputs) in [("resnet", "50", 1), ("gpt", "2-small", 1), ("bert", "base", 1)] {
        let graph = generate(name, variant, &Options::default());
        let unread = graph.tensors.iter().filter(|tensor| tensor.consumers.is_empty()).count();
        assert_eq!(unread, outputs, "{name} {variant}");
        let launched = graph.operators.iter().filter(|operator| operator.kind.as_deref() == Some("input"));
        assert!(launched.clone().count() > 0);
        assert!(launched.clone().all(|operator| operator.launches == Some(0.0)), "inputs are no kernels");
    }
}

/// One class token is broadcast over the images of a batch; no other concatenated tensor is.
#[test]
fn the_gradient_of_a_repeated_part_is_summed_over_the_batch() {
    for (name, variant, expected) in [("vit", "b16", 31.0 * 768.0), ("inception-v3", "plain", 0.0)] {
        let graph = generate(name, variant, &training(Granularity::Operator));
        let found: f64 =
            graph.operators.iter().filter(|op| op.kind.as_deref() == Some("concat_grad")).map(flop).sum();
        assert_eq!(found, expected, "{name}");
    }
}

/// The destination of a token is known only after the router has weighed the experts.
#[test]
fn experts_wait_for_the_router() {
    let graph = generate("mixtral", "8x7b", &Options::default());
    let softmax = "decoder.layer.0.router.softmax";
    let weights = graph.tensors.iter().find(|tensor| tensor.producer == softmax).expect("the weights");
    assert_eq!(weights.consumers, ["decoder.layer.0.router.dispatch", "decoder.layer.0.combine.combine"]);
}

/// Two backward products per forward product; other operators shift the ratio a little.
#[test]
fn backward_takes_about_twice_the_forward_pass() {
    for (name, variant) in [
        ("resnet", "152"),
        ("vgg", "16"),
        ("vit", "l16"),
        ("unet", "stable-diffusion-1"),
        ("bert", "large"),
        ("llama", "2-7b"),
        ("mixtral", "8x7b"),
        ("deepseek", "v3"),
        ("transformer-xl", "24"),
        ("rnnlm", "8"),
        ("gnmt", "8"),
    ] {
        let graph = generate(name, variant, &training(Granularity::Operator));
        let forward: f64 = of_pass(&graph, Pass::Forward).map(flop).sum();
        let backward: f64 = of_pass(&graph, Pass::Backward).map(flop).sum();
        assert!((1.9..2.1).contains(&(backward / forward)), "{name} {variant}: {}", backward / forward);
    }
}

/// Rajbhandari et al., "ZeRO" (SC 2020), section 3.1: mixed-precision Adam takes 16 bytes per parameter.
#[test]
fn mixed_precision_adam_takes_sixteen_bytes_a_parameter() {
    let options = Options { precision: Precision::Bf16, ..training(Granularity::Operator) };
    let states = |graph: &GraphDocument| {
        let of_operators = sum(graph, |operator| operator.parameter_bytes + operator.optimizer_bytes);
        of_operators
            + graph.parameters.iter().map(|shared| shared.bytes + shared.optimizer_bytes).sum::<f64>()
    };
    // Gradients are tensors of two bytes per parameter.
    let graph = generate("resnet", "50", &options);
    let updates: BTreeSet<&str> = of_pass(&graph, Pass::Update).map(|update| update.name.as_str()).collect();
    let is_gradient = |consumers: &[String]| consumers.iter().any(|name| updates.contains(name.as_str()));
    let gradients: f64 =
        graph.tensors.iter().filter(|tensor| is_gradient(&tensor.consumers)).map(|tensor| tensor.bytes).sum();
    assert_eq!((states(&graph), gradients), (14.0 * 25_557_032.0, 2.0 * 25_557_032.0));
    // Tied tables are stored once, with one state.
    let graph = generate("gpt", "2-small", &options);
    assert_eq!(states(&graph), 14.0 * 124_439_808.0);
}

/// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022), section 4.1, counts sbh
/// (34 + 5as / h) bytes for a layer in 16 bits, of which sbh (2 + 3as / h) are the masks and copies of dropout. The
/// layer here has the remainder, plus two 32-bit statistics per token for each of the two norms.
#[test]
fn a_transformer_layer_stashes_what_is_published() {
    let options = Options {
        sizes: Sizes::default().with(Size::Batch, 2),
        precision: Precision::Bf16,
        ..training(Granularity::Operator)
    };
    let (s, b, h, a) = (1024.0, 2.0, 1024.0, 16.0);
    let layer = |operator: &OperatorDocument| {
        operator.layer.as_deref().is_some_and(|layer| layer.starts_with("decoder.layer.7."))
    };
    let published = s * b * h * (32.0 + 2.0 * a * s / h) + 16.0 * s * b;
    // These are the tensors read by the backward pass of the layer.
    let graph = generate("gpt", "2-medium", &options);
    let forward: BTreeSet<&str> = of_pass(&graph, Pass::Forward).map(|op| op.name.as_str()).collect();
    let backward: BTreeSet<&str> =
        of_pass(&graph, Pass::Backward).filter(|op| layer(op)).map(|op| op.name.as_str()).collect();
    let stashed = graph.tensors.iter().filter(|tensor| {
        forward.contains(tensor.producer.as_str())
            && tensor.consumers.iter().any(|name| backward.contains(name.as_str()))
    });
    assert_eq!(stashed.map(|tensor| tensor.bytes).sum::<f64>(), published);
}

#[test]
fn unrolled_translation_passes_fifty_thousand_operators() {
    let sizes = Sizes::default().with(Size::Hidden, 1024).with(Size::Batch, 128).with(Size::Sequence, 80);
    let options = Options { sizes, ..training(Granularity::Operator) };
    let graph = generate("gnmt", "8", &options);
    assert!(graph.operators.len() > 50_000, "{}", graph.operators.len());
    let layers = generate("gnmt", "8", &Options { granularity: Granularity::Layer, ..options });
    assert!(
        of_pass(&layers, Pass::Forward).count() < 30,
        "one operator for each layer, however long the text"
    );
}

#[test]
fn the_same_options_give_the_same_graph() {
    for granularity in [Granularity::Operator, Granularity::Layer] {
        let once = generate("mixtral", "8x7b", &training(granularity));
        assert_eq!(once, generate("mixtral", "8x7b", &training(granularity)));
    }
}

#[test]
fn sizes_scale_what_they_should() {
    let two = generate(
        "resnet",
        "50",
        &Options { sizes: Sizes::default().with(Size::Batch, 2), ..Options::default() },
    );
    let single = one("resnet", "50", Sizes::default());
    assert!(close(sum(&two, flop), 2.0 * sum(&single, flop), 1e-12));
    let half = generate(
        "resnet",
        "50",
        &Options {
            sizes: Sizes::default().with(Size::Batch, 1),
            precision: Precision::Fp16,
            ..Options::default()
        },
    );
    assert_eq!(parameter_bytes(&half), parameter_bytes(&single) / 2.0);
    assert_eq!(sum(&half, flop), sum(&single, flop));
}

fn refused(name: &str, variant: Option<&str>, options: &Options) -> WorkloadError {
    match family(name).and_then(|family| family.generate(variant, options)) {
        Ok(_) => panic!("{name} should have been refused"),
        Err(error) => error,
    }
}

#[test]
fn nonsense_is_refused_with_a_code() {
    let sized = |size, value| Options { sizes: Sizes::default().with(size, value), ..Options::default() };
    assert_eq!(refused("alexnet", None, &Options::default()).code(), "W001");
    assert_eq!(refused("resnet", Some("51"), &Options::default()).code(), "W002");
    assert_eq!(refused("resnet", None, &sized(Size::Sequence, 10)).code(), "W003");
    for (name, size, value) in [
        ("resnet", Size::Batch, 0),
        ("resnet", Size::Batch, u64::MAX),
        ("resnet", Size::Image, 31),
        ("gpt", Size::Hidden, 0),
        ("gnmt", Size::Layers, 1),
        ("bert", Size::Vocabulary, u64::MAX),
    ] {
        assert_eq!(refused(name, None, &sized(size, value)).code(), "W004", "{name} {size} {value}");
    }
    for (name, size, value) in
        [("gpt", Size::Hidden, 1000), ("vit", Size::Image, 225), ("amoebanet-d", Size::Layers, 4)]
    {
        assert_eq!(refused(name, None, &sized(size, value)).code(), "W005", "{name} {size} {value}");
    }
    let small = Options { sizes: Sizes::default().with(Size::Image, 75), ..training(Granularity::Operator) };
    assert_eq!(refused("inception-v3", Some("auxiliary"), &small).code(), "W006");
    let long = Sizes::default().with(Size::Sequence, 1 << 20).with(Size::Layers, 1 << 10);
    for name in ["rnnlm", "gnmt"] {
        let error = refused(name, None, &Options { sizes: long.clone(), ..Options::default() });
        assert_eq!(error.code(), "W007", "{name}");
    }
    // The forward pass alone is within the limit, but not together with the backward pass.
    let long = Sizes::default().with(Size::Sequence, 4_000).with(Size::Layers, 8);
    let error = refused("rnnlm", None, &Options { sizes: long, ..training(Granularity::Operator) });
    assert_eq!(error.code(), "W007");
}

/// The smallest and the largest sizes give a graph or an error code, but never a panic.
#[test]
fn extreme_sizes_are_taken_or_refused() {
    for &family in FAMILIES {
        for &size in family.sizes() {
            let unrolled = ["rnnlm", "gnmt"].contains(&family.name());
            for value in [1, 2, 3, 96, size.most() - 1, size.most()] {
                let mut sizes = Sizes::default();
                if unrolled && size != Size::Sequence {
                    sizes = sizes.with(Size::Sequence, 1);
                }
                let options = Options { sizes: sizes.with(size, value), ..training(Granularity::Layer) };
                match family.generate(None, &options) {
                    Ok(graph) => {
                        Graph::from_document(graph)
                            .unwrap_or_else(|error| panic!("{} {size} {value}: {error}", family.name()));
                    }
                    Err(error) => assert!(error.code().name.starts_with('W')),
                }
            }
        }
    }
}

/// Number of samples and, if the model reads tokens, number of tokens; for an encoder and a decoder, the encoder's.
#[test]
fn what_a_batch_holds_is_known() {
    each_variant(|family, variant| {
        let tokens = match family.name() {
            "bert" | "deepseek" | "gnmt" | "gpt" | "llama" | "mixtral" | "rnnlm" | "transformer-xl" => {
                Some(24)
            }
            _ => None,
        };
        let sizes = Sizes::default().with(Size::Batch, 3);
        let sizes = if tokens.is_some() { sizes.with(Size::Sequence, 24) } else { sizes };
        for granularity in [Granularity::Operator, Granularity::Layer] {
            let options = Options { sizes: sizes.clone(), granularity, ..Options::default() };
            let batch = generate(family.name(), variant, &options).batch.expect("it is known");
            assert_eq!(
                (batch.samples.get(), batch.tokens.map(|tokens| tokens.get())),
                (3, tokens),
                "{}",
                family.name()
            );
        }
    });
}
