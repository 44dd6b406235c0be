//! ResNet-50: the published figures.
//!
//! The network of He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016), with the stride in
//! the 3×3 convolutions as in torchvision, whose documentation gives 25,557,032 parameters and 4.09 GFLOPS
//! (counting a multiply-add once) for 224×224 images.

use super::model::Dim::{Named, Of};
use super::model::{Model, int, ints, value_info};
use super::*;
use stagewright_workloads::{Options, Size, Sizes, family};

/// A convolution without bias and its normalisation; returns the output.
fn convolve(model: &mut Model, name: &str, input: &str, sizes: [i64; 4], stride: i64) -> String {
    let [out, channels, kernel, _] = sizes;
    let (weight, output) = (format!("{name}.weight"), format!("{name}.out"));
    let pad = kernel / 2;
    model.weight(&weight, &[out, channels, kernel, kernel]);
    let attributes =
        vec![ints("kernel_shape", &[kernel; 2]), ints("strides", &[stride; 2]), ints("pads", &[pad; 4])];
    model.node("Conv", &[input, &weight], &[&output], attributes);
    let parts: Vec<String> =
        ["scale", "bias", "mean", "var"].iter().map(|part| format!("{name}.{part}")).collect();
    for part in &parts {
        model.weight(part, &[out]);
    }
    let normal = format!("{name}.normal");
    let inputs = [output.as_str(), &parts[0], &parts[1], &parts[2], &parts[3]];
    model.node("BatchNormalization", &inputs, &[&normal], vec![]);
    normal
}

fn relu(model: &mut Model, input: &str) -> String {
    let output = format!("{input}.relu");
    model.node("Relu", &[input], &[&output], vec![]);
    output
}

fn resnet50() -> Model {
    let mut model = Model::new(17);
    model.input("image", &[Named("batch"), Of(3), Of(224), Of(224)]);
    let stem = convolve(&mut model, "stem", "image", [64, 3, 7, 7], 2);
    let stem = relu(&mut model, &stem);
    let attributes = vec![ints("kernel_shape", &[3; 2]), ints("strides", &[2; 2]), ints("pads", &[1; 4])];
    model.node("MaxPool", &[&stem], &["pool"], attributes);
    let (mut current, mut channels) = ("pool".to_owned(), 64);
    for (layer, (blocks, width)) in [(3, 64), (4, 128), (6, 256), (3, 512)].into_iter().enumerate() {
        for block in 0..blocks {
            let name = format!("layer{}.{block}", layer + 1);
            let stride = if block == 0 && layer > 0 { 2 } else { 1 };
            let a = convolve(&mut model, &format!("{name}.conv1"), &current, [width, channels, 1, 1], 1);
            let a = relu(&mut model, &a);
            let b = convolve(&mut model, &format!("{name}.conv2"), &a, [width, width, 3, 3], stride);
            let b = relu(&mut model, &b);
            let c = convolve(&mut model, &format!("{name}.conv3"), &b, [4 * width, width, 1, 1], 1);
            let short = match block {
                0 => convolve(
                    &mut model,
                    &format!("{name}.down"),
                    &current,
                    [4 * width, channels, 1, 1],
                    stride,
                ),
                _ => current.clone(),
            };
            let sum = format!("{name}.sum");
            model.node("Add", &[&c, &short], &[&sum], vec![]);
            current = relu(&mut model, &sum);
            channels = 4 * width;
        }
    }
    model.node("GlobalAveragePool", &[&current], &["mean"], vec![]);
    model.node("Flatten", &["mean"], &["flat"], vec![]);
    model.weight("fc.weight", &[1000, 2048]).weight("fc.bias", &[1000]);
    model.node("Gemm", &["flat", "fc.weight", "fc.bias"], &["logits"], vec![int("transB", 1)]);
    model
}

const PARAMETERS: f64 = 25_557_032.0;

/// 4.09 billion multiply-adds.
const FLOP: f64 = 2.0 * 4.09e9;

#[test]
fn resnet50_has_its_published_parameters_and_flop() {
    let graph = unfused(&resnet50(), Some(1));
    assert_eq!(total(&graph, |operator| operator.parameter_bytes), 4.0 * PARAMETERS);
    let flop = total(&graph, |operator| operator.flop.expect("every operator is known"));
    assert!((flop - FLOP).abs() <= 0.02 * FLOP, "{flop}");
    // Running means and variances take memory, but are not trained.
    assert_eq!(total(&graph, |operator| operator.workspace_bytes), 0.0);
    assert!(graph.parameters.iter().all(|parameter| !parameter.trained && parameter.readers.len() == 1));
    assert_eq!(graph.operators.len(), 53 + 53 + 49 + 16 + 4);
    let last = graph.tensors.iter().find(|tensor| tensor.name.as_deref() == Some("mean")).unwrap();
    assert_eq!(last.bytes, 4.0 * 2048.0);
}

/// The built-in workload describes the same network, from the paper and not from a file.
#[test]
fn resnet50_is_the_same_by_both_routes() {
    let imported = graph_of(&resnet50(), Some(1));
    let options = Options { sizes: Sizes::default().with(Size::Batch, 1), ..Options::default() };
    let built = family("resnet").unwrap().generate(Some("50"), &options).unwrap();
    let flop = |graph: &GraphDocument| total(graph, |operator| operator.flop.unwrap_or(0.0));
    for (route, graph) in [("imported", &imported), ("built in", &built)] {
        assert_eq!(total(graph, |operator| operator.parameter_bytes), 4.0 * PARAMETERS, "{route}");
        assert!((flop(graph) - FLOP).abs() <= 0.02 * FLOP, "{route}: {}", flop(graph));
    }
    let (imported, built) = (flop(&imported), flop(&built));
    assert!((imported - built).abs() <= 0.01 * built, "{imported} imported, {built} built in");
}

#[test]
fn flop_grow_with_the_batch_and_parameters_do_not() {
    let (single, four) = (graph_of(&resnet50(), Some(1)), graph_of(&resnet50(), Some(4)));
    let flop = |graph: &GraphDocument| total(graph, |operator| operator.flop.unwrap());
    assert_eq!(flop(&four), 4.0 * flop(&single));
    assert_eq!(total(&four, |operator| operator.parameter_bytes), 4.0 * PARAMETERS);
}

#[test]
fn a_batch_that_is_open_has_to_be_given_and_one_that_is_not_cannot_be() {
    let (code, text) = rejection(&resnet50());
    assert_eq!(code, "M010");
    assert!(text.contains("--batch"), "{text}");
    let mut fixed = Model::new(17);
    fixed.input("x", &[Of(1), Of(2)]).node("Relu", &["x"], &["y"], vec![]);
    assert_eq!(import_bytes(&fixed.bytes(), Some(8)).unwrap_err().code, "M010");
    fixed.graph().input[0] = value_info("x", &[Named("batch"), Of(2)]);
    assert_eq!(import_bytes(&fixed.bytes(), Some(u64::MAX)).unwrap_err().code, "M010");
    // Other dimensions are not the batch, and the help names the option that gives them.
    let mut open = Model::new(17);
    open.input("x", &[Named("batch"), Named("words")]).node("Relu", &["x"], &["y"], vec![]);
    let error = import_bytes(&open.bytes(), Some(8)).unwrap_err();
    assert_eq!(error.code, "M010");
    assert!(error.help.contains("--dim 'words=N'"), "{error}");
    let dims = [("words".to_owned(), 5)].into();
    let given = ImportOptions { batch: Some(8), dims, ..ImportOptions::default() };
    let graph = import_model("model.onnx", &open.bytes(), &given).expect("all sizes are given").graph;
    assert_eq!(graph.operators[0].bytes_moved, Some(2.0 * 4.0 * 40.0));
    // The same holds for dimensions without a name.
    open.graph().input[0] = value_info("x", &[Named(""), Named(""), Of(4)]);
    let error = import_bytes(&open.bytes(), Some(2)).unwrap_err();
    assert!(error.code == "M010" && error.message.contains("dimension 1"), "{error}");
    // A name with quotes does not get into a command.
    open.graph().input[0] = value_info("x", &[Of(1), Named("w'; touch gotcha; '")]);
    let error = import_bytes(&open.bytes(), None).unwrap_err();
    assert!(error.help.contains("--dim 'NAME=N'"), "{error}");
}
