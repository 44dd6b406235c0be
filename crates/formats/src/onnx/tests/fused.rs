//! Operators of ONNX Runtime, and newer ones of ONNX. Expected shapes are those of ONNX Runtime 1.32 for such
//! nodes, or of its schema for the few that its CPU build cannot run.

use super::model::Dim::{self, Of};
use super::model::{Model, int, ints};
use super::*;
use proto::AttributeProto;
use proto::tensor_proto::DataType;
use proto::tensor_proto::DataType::{Float, Int8, Int32, Int64, Uint8};

/// An input of a node: omitted, or a type and a shape.
type Input = Option<(DataType, Vec<i64>)>;

fn float(dims: &[i64]) -> Input {
    Some((Float, dims.to_vec()))
}

fn of(elem: DataType, dims: &[i64]) -> Input {
    Some((elem, dims.to_vec()))
}

fn dims(dims: &[i64]) -> Vec<Dim> {
    dims.iter().map(|&dim| Of(dim)).collect()
}

/// A model of one node of `domain` with `outputs` outputs.
fn model(
    domain: &str,
    kind: &str,
    inputs: &[Input],
    outputs: usize,
    attributes: Vec<AttributeProto>,
) -> Model {
    let mut model = Model::new(24);
    let mut names = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let name = if input.is_some() { format!("x{index}") } else { String::new() };
        if let Some((elem, shape)) = input {
            model.typed_input(&name, *elem, &dims(shape));
        }
        names.push(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let made: Vec<String> = (0..outputs).map(|index| format!("y{index}")).collect();
    let made: Vec<&str> = made.iter().map(String::as_str).collect();
    model.node(kind, &names, &made, attributes);
    model.graph().node[0].domain = Some(domain.into());
    for name in made {
        model.output(name);
    }
    model
}

/// Bytes of the outputs, and FLOP.
fn costs(model: &Model) -> (Vec<f64>, f64) {
    let graph = unfused(model, None);
    let bytes = graph.tensors.iter().map(|tensor| tensor.bytes).collect();
    (bytes, graph.operators[0].flop.expect("work that is known"))
}

fn contrib(kind: &str, inputs: &[Input], outputs: usize, attributes: Vec<AttributeProto>) -> (Vec<f64>, f64) {
    costs(&model("com.microsoft", kind, inputs, outputs, attributes))
}

fn standard(
    kind: &str,
    inputs: &[Input],
    outputs: usize,
    attributes: Vec<AttributeProto>,
) -> (Vec<f64>, f64) {
    costs(&model("", kind, inputs, outputs, attributes))
}

/// FLOP of attention: two products and a softmax of `scores`, with keys and values of these widths.
fn attention(scores: f64, key: f64, value: f64) -> f64 {
    scores * (2.0 * key + 2.0 * value + 5.0)
}

fn bytes(shapes: &[&[i64]]) -> Vec<f64> {
    shapes.iter().map(|shape| 4.0 * shape.iter().product::<i64>() as f64).collect()
}

fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { name: Some(name.into()), s: Some(value.into()), ..Default::default() }
}

#[test]
fn attention_of_onnx_has_queries_as_heads_or_in_one_row() {
    // Six heads in two groups; five new keys after seven.
    let heads = [float(&[3, 6, 4, 8]), float(&[3, 2, 5, 8]), float(&[3, 2, 5, 12])];
    let found = standard("Attention", &heads, 1, vec![]);
    assert_eq!(found, (bytes(&[&[3, 6, 4, 12]]), attention(3.0 * 6.0 * 4.0 * 5.0, 8.0, 12.0)));
    let rows = [
        float(&[3, 4, 48]),
        float(&[3, 5, 16]),
        float(&[3, 5, 24]),
        None,
        float(&[3, 2, 7, 8]),
        float(&[3, 2, 7, 12]),
    ];
    let found = standard("Attention", &rows, 4, vec![int("q_num_heads", 6), int("kv_num_heads", 2)]);
    let shapes: [&[i64]; 4] = [&[3, 4, 72], &[3, 2, 12, 8], &[3, 2, 12, 12], &[3, 6, 4, 12]];
    assert_eq!(found, (bytes(&shapes), attention(3.0 * 6.0 * 4.0 * 12.0, 8.0, 12.0)));
    let odd = [float(&[3, 5, 4, 8]), float(&[3, 2, 5, 8]), float(&[3, 2, 5, 8])];
    assert_eq!(rejection(&model("", "Attention", &odd, 1, vec![])).0, "M009", "five heads in two groups");
    let without = model("", "Attention", &rows, 1, vec![]);
    assert_eq!(rejection(&without).0, "M009", "rows without a number of heads");
}

#[test]
fn attention_in_groups_reads_as_far_as_its_cache_goes() {
    let heads = || vec![int("num_heads", 6), int("kv_num_heads", 2)];
    let rows = [float(&[3, 4, 48]), float(&[3, 4, 16]), float(&[3, 4, 16])];
    let past = |length: i64| [float(&[3, 2, length, 8]), float(&[3, 2, length, 8])];
    let lengths = [of(Int32, &[3]), of(Int32, &[])];
    let of_parts =
        |parts: &[&[Input]]| model("com.microsoft", "GroupQueryAttention", &parts.concat(), 3, heads());
    // The number of tokens is data: all past and new ones count.
    let shapes: [&[i64]; 3] = [&[3, 4, 48], &[3, 2, 11, 8], &[3, 2, 11, 8]];
    let flop = attention(3.0 * 6.0 * 4.0 * 11.0, 8.0, 8.0);
    assert_eq!(costs(&of_parts(&[&rows, &past(7), &lengths])), (bytes(&shapes), flop));
    // Queries, keys and values in one tensor.
    let packed = [float(&[3, 4, 80]), None, None];
    assert_eq!(costs(&of_parts(&[&packed, &past(7), &lengths])), (bytes(&shapes), flop));
    // A buffer of 64 tokens of which 11 are in use.
    let mut shared = of_parts(&[&rows, &past(64), &lengths]);
    shared.graph().input.retain(|input| input.name() != "x6");
    shared.scalar("x6", 11);
    let shapes: [&[i64]; 3] = [&[3, 4, 48], &[3, 2, 64, 8], &[3, 2, 64, 8]];
    assert_eq!(costs(&shared), (bytes(&shapes), flop));
    // No past tokens.
    let shapes: [&[i64]; 3] = [&[3, 4, 48], &[3, 2, 4, 8], &[3, 2, 4, 8]];
    let flop = attention(3.0 * 6.0 * 4.0 * 4.0, 8.0, 8.0);
    assert_eq!(costs(&of_parts(&[&rows, &[None, None], &lengths])), (bytes(&shapes), flop));
}

#[test]
fn attention_with_as_many_keys_as_heads_takes_them_in_several_forms() {
    let found = |inputs: &[Input], outputs: usize| {
        contrib("MultiHeadAttention", inputs, outputs, vec![int("num_heads", 3)])
    };
    let flop = attention(2.0 * 3.0 * 4.0 * 5.0, 8.0, 8.0);
    let made = bytes(&[&[2, 4, 24]]);
    assert_eq!(found(&[float(&[2, 4, 24]), float(&[2, 5, 24]), float(&[2, 5, 24])], 1), (made.clone(), flop));
    assert_eq!(found(&[float(&[2, 4, 24]), float(&[2, 5, 3, 2, 8])], 1), (made.clone(), flop));
    assert_eq!(
        found(&[float(&[2, 4, 24]), float(&[2, 3, 5, 8]), float(&[2, 3, 5, 8])], 1),
        (made.clone(), flop)
    );
    let own = attention(2.0 * 3.0 * 4.0 * 4.0, 8.0, 8.0);
    assert_eq!(found(&[float(&[2, 4, 3, 3, 8])], 1), (made, own));
    let wide = found(&[float(&[2, 4, 24]), float(&[2, 5, 24]), float(&[2, 5, 48])], 1);
    assert_eq!(wide, (bytes(&[&[2, 4, 48]]), attention(2.0 * 3.0 * 4.0 * 5.0, 8.0, 16.0)));
    // Appending, and writing into a buffer whose fill level is data.
    let row = || float(&[2, 1, 24]);
    let past = || float(&[2, 3, 7, 8]);
    let rows = [row(), row(), row(), None, None, None, past(), past()];
    let shapes: [&[i64]; 3] = [&[2, 1, 24], &[2, 3, 8, 8], &[2, 3, 8, 8]];
    assert_eq!(found(&rows, 3), (bytes(&shapes), attention(2.0 * 3.0 * 8.0, 8.0, 8.0)));
    let shared = [&rows[..], &[of(Int32, &[1])]].concat();
    let shapes: [&[i64]; 3] = [&[2, 1, 24], &[2, 3, 7, 8], &[2, 3, 7, 8]];
    assert_eq!(found(&shared, 3), (bytes(&shapes), attention(2.0 * 3.0 * 7.0, 8.0, 8.0)));
    let masked = [row(), row(), row(), None, None, past(), past(), of(Int32, &[1])];
    let found = contrib("DecoderMaskedMultiHeadAttention", &masked, 3, vec![int("num_heads", 3)]);
    assert_eq!(found, (bytes(&shapes), attention(2.0 * 3.0 * 7.0, 8.0, 8.0)));
}

#[test]
fn attention_that_projects_counts_its_projection() {
    let three = || vec![int("num_heads", 3)];
    let projection = 2.0 * 8.0 * 32.0 * 72.0 + 8.0 * 72.0;
    let inputs = [float(&[2, 4, 32]), float(&[32, 72]), float(&[72]), None, float(&[2, 2, 3, 7, 8])];
    let scores = 2.0 * 3.0 * 4.0 * 11.0;
    let shapes: [&[i64]; 2] = [&[2, 4, 24], &[2, 2, 3, 11, 8]];
    let expected = (bytes(&shapes), projection + attention(scores, 8.0, 8.0));
    assert_eq!(contrib("Attention", &inputs, 2, three()), expected);
    let quantized = [
        of(Uint8, &[2, 4, 32]),
        of(Int8, &[32, 72]),
        float(&[72]),
        float(&[]),
        float(&[]),
        None,
        of(Uint8, &[]),
        of(Int8, &[]),
        float(&[2, 2, 3, 7, 8]),
    ];
    assert_eq!(contrib("QAttention", &quantized, 2, three()), expected);
    let graph = unfused(&model("com.microsoft", "QAttention", &quantized, 2, three()), None);
    assert_eq!(graph.operators[0].precision, Some(stagewright_core::document::Precision::Int8));
    // Values wider than keys, and tokens without padding.
    let sizes = vec![int("num_heads", 3), ints("qkv_hidden_sizes", &[24, 24, 48])];
    let wide = contrib("Attention", &[float(&[2, 4, 32]), float(&[32, 96])], 1, sizes);
    let projection = 2.0 * 8.0 * 32.0 * 96.0;
    assert_eq!(wide, (bytes(&[&[2, 4, 48]]), projection + attention(2.0 * 3.0 * 16.0, 8.0, 16.0)));
    let packed = [float(&[7, 32]), float(&[32, 72]), float(&[72]), of(Int32, &[2, 4]), of(Int32, &[3])];
    let found = contrib("PackedAttention", &packed, 1, three());
    let projection = 2.0 * 7.0 * 32.0 * 72.0 + 7.0 * 72.0;
    assert_eq!(found, (bytes(&[&[7, 24]]), projection + attention(3.0 * 7.0 * 4.0, 8.0, 8.0)));
    let packed = [float(&[7, 3, 3, 8]), None, None, None, of(Int32, &[2, 4]), of(Int32, &[3])];
    let found = contrib("PackedMultiHeadAttention", &packed, 1, three());
    assert_eq!(found, (bytes(&[&[7, 24]]), attention(3.0 * 7.0 * 4.0, 8.0, 8.0)));
}

#[test]
fn products_with_few_bits_are_priced_as_products() {
    let sizes = || vec![int("K", 64), int("N", 27), int("bits", 4), int("block_size", 32)];
    let inputs = [float(&[2, 3, 64]), of(Uint8, &[27, 2, 16]), float(&[27, 2])];
    let product = 2.0 * 6.0 * 27.0 * 64.0;
    assert_eq!(contrib("MatMulNBits", &inputs, 1, sizes()), (bytes(&[&[2, 3, 27]]), product));
    let bias = [&inputs[..], &[None, None, float(&[27])]].concat();
    assert_eq!(contrib("MatMulNBits", &bias, 1, sizes()).1, product + 6.0 * 27.0);
    let floats = [float(&[2, 3, 64]), of(Uint8, &[64 * 27 / 2]), float(&[54])];
    assert_eq!(contrib("MatMulBnb4", &floats, 1, sizes()), (bytes(&[&[2, 3, 27]]), product));
    let misfit = [float(&[2, 3, 65]), of(Uint8, &[27, 2, 16]), float(&[27, 2])];
    assert_eq!(rejection(&model("com.microsoft", "MatMulNBits", &misfit, 1, sizes())).0, "M009");
    // Weights are read in their stored form.
    let mut weights = Model::new(21);
    weights.input("x", &[Of(6), Of(64)]);
    weights.typed_weight("w", Uint8, &[27, 2, 16]).weight("scales", &[27, 2]);
    weights.contrib("MatMulNBits", &["x", "w", "scales"], &["y"], sizes()).output("y");
    let graph = graph_of(&weights, None);
    let (held, made) = (27.0 * 2.0 * 16.0 + 4.0 * 54.0, 4.0 * 6.0 * (64.0 + 27.0));
    assert_eq!(graph.operators[0].parameter_bytes, held);
    assert_eq!(graph.operators[0].bytes_moved, Some(held + made));
    assert_eq!(graph.operators[0].precision, Some(stagewright_core::document::Precision::Fp32));
}

#[test]
fn products_with_something_around_them_have_their_shapes() {
    let flagged = |names: &[&str]| names.iter().map(|name| int(name, 1)).collect::<Vec<_>>();
    let product = |a: &[i64], b: &[i64], flags: &[&str]| {
        contrib("FusedMatMul", &[float(a), float(b)], 1, flagged(flags))
    };
    let expected =
        |shape: &[i64], inner: f64| (bytes(&[shape]), 2.0 * inner * shape.iter().product::<i64>() as f64);
    assert_eq!(product(&[2, 3, 7], &[2, 5, 7], &["transB"]), expected(&[2, 3, 5], 7.0));
    assert_eq!(product(&[3, 2, 7], &[2, 7, 5], &["transBatchA"]), expected(&[2, 3, 5], 7.0));
    assert_eq!(product(&[7, 2, 3], &[2, 7, 5], &["transBatchA", "transA"]), expected(&[2, 3, 5], 7.0));
    let turned = product(&[2, 4, 3, 7], &[5, 2, 4, 7], &["transBatchB", "transB"]);
    assert_eq!(turned, expected(&[2, 4, 3, 5], 7.0));
    let found = contrib("TransposeMatMul", &[float(&[2, 7, 3]), float(&[2, 7, 5])], 1, flagged(&["transA"]));
    assert_eq!(found, expected(&[2, 3, 5], 7.0));
    let activated = contrib(
        "FusedGemm",
        &[float(&[3, 7]), float(&[5, 7]), float(&[5])],
        1,
        vec![int("transB", 1), text("activation", "Relu")],
    );
    assert_eq!(activated, (bytes(&[&[3, 5]]), 15.0 * (14.0 + 1.0 + 1.0)));
    let gelu = contrib("GemmFastGelu", &[float(&[2, 3, 7]), float(&[7, 5]), float(&[5])], 1, vec![]);
    assert_eq!(gelu, (bytes(&[&[2, 3, 5]]), 30.0 * (14.0 + 1.0 + 4.0)));
    let conv = contrib(
        "FusedConv",
        &[float(&[2, 4, 9, 8]), float(&[6, 2, 3, 3]), float(&[6]), float(&[2, 6, 7, 6])],
        1,
        vec![int("group", 2), text("activation", "Relu")],
    );
    assert_eq!(conv, (bytes(&[&[2, 6, 7, 6]]), 504.0 * (36.0 + 1.0 + 1.0 + 1.0)));
}

#[test]
fn products_of_whole_numbers_have_the_type_that_comes_out() {
    let (byte, scale) = (|dims: &[i64]| of(Uint8, dims), || float(&[]));
    let zero = || of(Uint8, &[]);
    let integer = standard("MatMulInteger", &[byte(&[2, 3, 7]), of(Int8, &[7, 5])], 1, vec![]);
    assert_eq!(integer, (bytes(&[&[2, 3, 5]]), 420.0));
    let scaled =
        contrib("MatMulIntegerToFloat", &[byte(&[2, 3, 7]), of(Int8, &[7, 5]), scale(), scale()], 1, vec![]);
    assert_eq!(scaled, (bytes(&[&[2, 3, 5]]), 420.0 + 30.0));
    let dynamic =
        contrib("DynamicQuantizeMatMul", &[float(&[2, 3, 7]), of(Int8, &[7, 5]), scale()], 1, vec![]);
    assert_eq!(dynamic, (bytes(&[&[2, 3, 5]]), 420.0 + 30.0 + 4.0 * 42.0));
    let gemm = [byte(&[3, 7]), scale(), zero(), of(Int8, &[5, 7]), scale(), of(Int8, &[])];
    let turned = || vec![int("transB", 1)];
    assert_eq!(contrib("QGemm", &gemm, 1, turned()), (bytes(&[&[3, 5]]), 210.0));
    let whole = [&gemm[..], &[of(Int32, &[5]), scale(), zero()]].concat();
    assert_eq!(contrib("QGemm", &whole, 1, turned()), (vec![15.0], 225.0));
    let product = [byte(&[3, 7]), scale(), zero(), byte(&[7, 5]), scale(), zero(), scale(), zero()];
    assert_eq!(standard("QLinearMatMul", &product, 1, vec![]), (vec![15.0], 210.0));
    // Channels-last data, with weights in the usual layout.
    let conv = [byte(&[2, 9, 8, 4]), scale(), zero(), byte(&[6, 4, 3, 3]), scale(), zero(), scale(), zero()];
    let strides = || vec![int("channels_last", 1), ints("strides", &[2, 1])];
    assert_eq!(contrib("QLinearConv", &conv, 1, strides()), (vec![288.0], 2.0 * 288.0 * 36.0));
    let pool = [byte(&[2, 9, 8, 4]), scale(), zero(), scale(), zero()];
    let window = vec![int("channels_last", 1), ints("kernel_shape", &[2, 3])];
    assert_eq!(contrib("QLinearAveragePool", &pool, 1, window).0, [2.0 * 8.0 * 6.0 * 4.0]);
    assert_eq!(contrib("QLinearGlobalAveragePool", &pool, 1, vec![int("channels_last", 1)]).0, [8.0]);
    let lstm = [float(&[4, 2, 7]), of(Int8, &[1, 7, 20]), of(Int8, &[1, 5, 20])];
    let (made, flop) = contrib("DynamicQuantizeLSTM", &lstm, 3, vec![int("hidden_size", 5)]);
    assert_eq!(made, bytes(&[&[4, 1, 2, 5], &[1, 2, 5], &[1, 2, 5]]));
    assert_eq!(flop, 2.0 * 8.0 * 20.0 * 12.0);
}

#[test]
fn whole_numbers_element_by_element_broadcast_past_their_scales() {
    let (scale, zero) = (float(&[]), of(Uint8, &[]));
    let add = [
        of(Uint8, &[2, 1, 5]),
        scale.clone(),
        zero.clone(),
        of(Uint8, &[3, 1]),
        scale.clone(),
        zero.clone(),
        scale.clone(),
        zero.clone(),
    ];
    assert_eq!(contrib("QLinearAdd", &add, 1, vec![]), (vec![30.0], 30.0));
    let parts = [
        scale.clone(),
        zero.clone(),
        of(Uint8, &[2, 3]),
        scale.clone(),
        zero.clone(),
        of(Uint8, &[2, 4]),
        scale.clone(),
        zero.clone(),
    ];
    assert_eq!(contrib("QLinearConcat", &parts, 1, vec![int("axis", 1)]).0, [14.0]);
    let mean = [of(Uint8, &[2, 3, 4]), scale.clone(), zero.clone(), scale, zero];
    let axes = vec![ints("axes", &[2]), int("keepdims", 0)];
    assert_eq!(contrib("QLinearReduceMean", &mean, 1, axes), (vec![6.0], 24.0));
    let sum = contrib("ReduceSumInteger", &[of(Int8, &[2, 3, 4])], 1, vec![ints("axes", &[1])]);
    assert_eq!(sum.0, [4.0 * 8.0], "as wide as sums are");
}

#[test]
fn normalisations_have_statistics_and_sums() {
    let (rows, width) = (float(&[2, 3, 8]), float(&[8]));
    let skipped = [rows.clone(), rows.clone(), width.clone(), width.clone()];
    let all: [&[i64]; 4] = [&[2, 3, 8], &[2, 3, 1], &[2, 3, 1], &[2, 3, 8]];
    for kind in ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"] {
        assert_eq!(contrib(kind, &skipped, 4, vec![]).0, bytes(&all), "{kind}");
    }
    assert_eq!(standard("RMSNormalization", &[rows.clone(), width.clone()], 1, vec![]).0, bytes(&all[..1]));
    let plain = standard("SimplifiedLayerNormalization", &[rows, width], 2, vec![]);
    assert_eq!(plain.0, bytes(&all[..2]));
    // Only the selected rows of the tables are read.
    let mut model = Model::new(21);
    model.typed_input("ids", Int32, &[Of(2), Of(3)]);
    model.weight("words", &[1000, 8]).weight("places", &[12, 8]).weight("gamma", &[8]).weight("beta", &[8]);
    let inputs = ["ids", "", "words", "places", "", "gamma", "beta"];
    model.contrib("EmbedLayerNormalization", &inputs, &["y", "", "sum"], vec![]).output("y").output("sum");
    let graph = graph_of(&model, None);
    let made: Vec<f64> = graph.tensors.iter().map(|tensor| tensor.bytes).collect();
    assert_eq!(made, bytes(&[&[2, 3, 8], &[2, 3, 8]]));
    let taken = 4.0 * (6.0 * 8.0 + 6.0 * 8.0 + 16.0) + 24.0;
    let moved = graph.operators[0].bytes_moved.unwrap();
    assert!((moved - taken - 2.0 * 192.0).abs() < 1e-6, "{moved}");
    assert_eq!(graph.operators[0].parameter_bytes, 4.0 * 8.0 * (1000.0 + 12.0 + 2.0));
}

#[test]
fn rows_of_few_bits_are_as_long_as_the_numbers_in_them() {
    for (bits, each) in [(4, 2), (8, 1)] {
        let attributes = vec![int("bits", bits), int("block_size", 16), int("quantize_axis", 1)];
        let inputs = [of(Uint8, &[9, 64 / each]), of(Int64, &[2, 3]), float(&[9, 4])];
        let found = contrib("GatherBlockQuantized", &inputs, 1, attributes);
        assert_eq!(found.0, bytes(&[&[2, 3, 64]]), "{bits}");
    }
    assert_eq!(contrib("RotaryEmbedding", &[float(&[2, 3, 24])], 1, vec![]), (bytes(&[&[2, 3, 24]]), 432.0));
    assert_eq!(
        contrib("BiasSplitGelu", &[float(&[2, 3, 24]), float(&[24])], 1, vec![]).0,
        bytes(&[&[2, 3, 12]])
    );
    for kind in ["BiasGelu", "FastGelu", "QuickGelu"] {
        assert_eq!(contrib(kind, &[float(&[2, 3]), float(&[3])], 1, vec![]), (vec![24.0], 24.0), "{kind}");
    }
}

#[test]
fn experts_are_read_as_far_as_tokens_choose_them() {
    // Two of sixteen experts for each of three tokens; gate and value in one matrix.
    let mut model = Model::new(21);
    model.input("x", &[Of(3), Of(64)]).input("router", &[Of(3), Of(16)]);
    model.typed_weight("up", Uint8, &[16, 96, 32]).weight("up_scales", &[16, 96]);
    model.typed_weight("down", Uint8, &[16, 64, 24]).weight("down_scales", &[16, 64]);
    let attributes = vec![int("k", 2), int("swiglu_fusion", 1), int("expert_weight_bits", 4)];
    let inputs = ["x", "router", "up", "up_scales", "", "down", "down_scales"];
    model.contrib("QMoE", &inputs, &["y"], attributes).output("y");
    let graph = graph_of(&model, None);
    let operator = &graph.operators[0];
    assert_eq!(operator.flop, Some(3.0 * 2.0 * 2.0 * (64.0 * 96.0 + 48.0 * 64.0)));
    let weights = 16.0 * (96.0 * 32.0 + 4.0 * 96.0 + 64.0 * 24.0 + 4.0 * 64.0);
    assert_eq!(operator.parameter_bytes, weights);
    let moved = operator.bytes_moved.unwrap();
    assert!((moved - weights * 6.0 / 16.0 - 4.0 * 3.0 * (64.0 + 16.0 + 64.0)).abs() < 1e-6, "{moved}");
    // A separate gate.
    let parts = [
        float(&[3, 64]),
        float(&[3, 4]),
        float(&[4, 48, 64]),
        None,
        float(&[4, 64, 48]),
        None,
        float(&[4, 48, 64]),
    ];
    let found = contrib("MoE", &parts, 1, vec![int("k", 1)]);
    assert_eq!(found, (bytes(&[&[3, 64]]), 3.0 * 2.0 * 3.0 * 64.0 * 48.0));
}

/// Invalid heads, groups and sizes are errors, without a division by zero.
#[test]
fn attributes_of_attention_are_checked() {
    for (heads, groups) in [(0, 1), (1, 0), (-1, 1), (i64::MAX, i64::MAX), (7, 1)] {
        let inputs = [float(&[1, 1, 8]), None, None, None, None, of(Int32, &[1]), of(Int32, &[])];
        let attributes = vec![int("num_heads", heads), int("kv_num_heads", groups)];
        let node = model("com.microsoft", "GroupQueryAttention", &inputs, 1, attributes);
        assert_eq!(rejection(&node).0, "M009", "{heads} {groups}");
    }
    let huge = 1 << 40;
    let inputs = [float(&[huge, huge, 8]), float(&[huge, huge, 8]), float(&[huge, huge, 8])];
    let node = model("com.microsoft", "MultiHeadAttention", &inputs, 1, vec![int("num_heads", 1)]);
    assert_eq!(rejection(&node).0, "M009", "scores without end");
}
