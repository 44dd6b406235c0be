//! Fused attention: shapes, and the work that follows from the same lengths.
//!
//! Every form computes `softmax(Q Kᵀ) V` for some heads. They differ in the source of queries, keys and
//! values, and in the way that the keys and values of past tokens reach the operator. The rules are those of
//! the specifications of ONNX (docs/Operators.md) and of ONNX Runtime (docs/ContribOperators.md), and were
//! compared with outputs of ONNX Runtime.
//!
//! | operator | queries | keys and values |
//! | --- | --- | --- |
//! | `Attention` of ONNX, from operator set 23 | `[B, N, S, H]`, or `[B, S, N·H]` with `q_num_heads` | the same with `kv_num_heads` |
//! | `MultiHeadAttention` | `[B, S, N·H]`, or packed `[B, S, N, 3, H]` | `[B, L, N·H]`, packed `[B, L, N, 2, H]`, or as heads `[B, N, L, H]` |
//! | `DecoderMaskedMultiHeadAttention` | `[B, 1, N·H]` | the same, with a cache that is written in place |
//! | `GroupQueryAttention`, `SparseAttention` | `[B, S, N·H]`, or packed with keys and values | `[B, L, G·H]` |
//! | `Attention`, `QAttention` of ONNX Runtime | `[B, S, D]` times weights `[D, 3·N·H]` | from the same product |
//! | `PackedAttention`, `PackedMultiHeadAttention` | as in the previous row and the second, without padding: `[tokens, …]` | of the same tokens |
//!
//! A cache is `[B, G, P, H]`. The updated cache has the new tokens appended, or keeps its length if it shares a buffer
//! with the past cache, which is then as long as the longest sequence may become.

use stagewright_core::document::KernelDocument;

use super::super::work::{elements, product};
use super::{Call, Inferred, Value, contradiction};
use crate::names::is_among;

/// FLOP of the softmax per score.
const SOFTMAX: f64 = 5.0;

/// An attention operator of known lengths.
pub(in super::super) struct Attention {
    /// The outputs, in the order of the operator.
    pub(in super::super) outputs: Vec<Value>,
    /// Number of scores: one per sequence, head, query and key.
    scores: f64,
    /// Width of a key and of a value of one head.
    widths: [u64; 2],
    /// FLOP of projecting queries, keys and values, if the operator does so.
    projection: f64,
    /// The kernels that the attention consists of; empty for sequences without padding, whose lengths are data.
    kernels: Vec<KernelDocument>,
}

impl Attention {
    /// FLOP of the products and the softmax over all keys, masked or not, as CPU kernels compute them.
    pub(in super::super) fn flop(&self) -> f64 {
        self.projection
            + product(self.scores, self.widths[0])
            + product(self.scores, self.widths[1])
            + SOFTMAX * self.scores
    }

    /// The kernels that the attention consists of; empty if values and keys differ in width, since tables of
    /// measurements have one width for both.
    pub(in super::super) fn kernels(self) -> Vec<KernelDocument> {
        if self.widths[0] == self.widths[1] { self.kernels } else { Vec::new() }
    }
}

/// The attention operators.
const ATTENTIONS: &str = "\
    Attention DecoderMaskedMultiHeadAttention GroupQueryAttention MultiHeadAttention PackedAttention \
    PackedMultiHeadAttention QAttention SparseAttention";

/// Whether a node is an attention operator.
pub(in super::super) fn is_attention(call: &Call<'_>) -> bool {
    is_among(call.kind(), ATTENTIONS)
}

/// Infers outputs and work of an attention operator.
pub(in super::super) fn attention(call: &Call<'_>) -> Inferred<Attention> {
    match call.kind() {
        "Attention" if is_standard(call) => standard(call),
        "GroupQueryAttention" | "SparseAttention" => grouped(call),
        "MultiHeadAttention" | "DecoderMaskedMultiHeadAttention" => multi_head(call),
        "PackedMultiHeadAttention" => packed_multi_head(call),
        _ => projected(call),
    }
}

fn is_standard(call: &Call<'_>) -> bool {
    matches!(call.node.domain(), "" | "ai.onnx")
}

/// Number of heads, from a required attribute.
fn heads(call: &Call<'_>, name: &str) -> Inferred<u64> {
    match call.int(name).and_then(|heads| u64::try_from(heads).ok()).filter(|&heads| heads > 0) {
        Some(heads) => Ok(heads),
        None => contradiction(format!("the attribute `{name}` is {:?}", call.int(name))),
    }
}

/// Width of one head.
fn each(width: u64, heads: u64) -> Inferred<u64> {
    match width % heads {
        0 => Ok(width / heads),
        _ => contradiction(format!("the width {width} is not a multiple of {heads} heads")),
    }
}

/// Dimensions of a tensor of rank `N`.
fn of_rank<'a, const N: usize>(value: &'a Value, what: &str) -> Inferred<&'a [u64; N]> {
    match value.dims.as_slice().try_into() {
        Ok(dims) => Ok(dims),
        Err(_) => contradiction(format!("{what} of shape {:?}", value.dims)),
    }
}

fn scores(counts: [u64; 4]) -> f64 {
    elements(&counts)
}

/// The attention kernel with these dimensions; `heads` are those of queries.
fn fused([batch, queries, keys, heads, kv_heads, head_dim]: [u64; 6], causal: bool) -> KernelDocument {
    let [batch, queries, keys, heads, kv_heads, head_dim] =
        [batch, queries, keys, heads, kv_heads, head_dim].map(|size| size as f64);
    KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, causal }
}

/// The number in an input of one element, if known.
fn known(call: &Call<'_>, index: usize) -> Option<u64> {
    match call.optional(index)?.content.as_deref()? {
        [number] if *number >= 0.0 => Some(*number as u64),
        _ => None,
    }
}

/// A cache of shape `[B, heads, length, width]`.
fn cache(call: &Call<'_>, elem: i32, dims: [u64; 4]) -> Inferred<Value> {
    let dims = dims.into_iter().map(|dim| call.dim(i128::from(dim))).collect::<Inferred<Vec<u64>>>()?;
    Ok(Value::new(elem, dims))
}

fn sum(call: &Call<'_>, a: u64, b: u64) -> Inferred<u64> {
    call.dim(i128::from(a) + i128::from(b))
}

/// `Attention` of ONNX.
fn standard(call: &Call<'_>) -> Inferred<Attention> {
    let (query, key, value) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let split = |value: &Value, name: &str| -> Inferred<[u64; 4]> {
        match *value.dims.as_slice() {
            [batch, heads, length, width] => Ok([batch, heads, length, width]),
            [batch, length, all] => {
                let heads = heads(call, name)?;
                Ok([batch, heads, length, each(all, heads)?])
            }
            _ => contradiction(format!("queries, keys or values of shape {:?}", value.dims)),
        }
    };
    let [batch, heads, queries, width] = split(query, "q_num_heads")?;
    let [_, groups, new, key_width] = split(key, "kv_num_heads")?;
    let [_, _, new_values, value_width] = split(value, "kv_num_heads")?;
    if key_width != width || new_values != new || groups == 0 || heads % groups != 0 {
        return contradiction(format!(
            "queries {:?}, keys {:?} and values {:?} have incompatible shapes",
            query.dims, key.dims, value.dims
        ));
    }
    let past = match call.optional(4) {
        Some(past) => of_rank::<4>(past, "past keys")?[2],
        None => 0,
    };
    let total = sum(call, past, new)?;
    let dims = match query.rank() {
        4 => vec![batch, heads, queries, value_width],
        _ => vec![batch, queries, call.dim(i128::from(heads) * i128::from(value_width))?],
    };
    let outputs = vec![
        Value::new(query.elem, dims),
        cache(call, key.elem, [batch, groups, total, width])?,
        cache(call, value.elem, [batch, groups, total, value_width])?,
        Value::new(query.elem, vec![batch, heads, queries, total]),
    ];
    let scores = scores([batch, heads, queries, total]);
    Ok(Attention {
        outputs,
        scores,
        widths: [width, value_width],
        projection: 0.0,
        kernels: vec![fused([batch, queries, total, heads, groups, width], call.flag("is_causal", false))],
    })
}

/// Grouped-query attention: heads share keys and values in groups.
fn grouped(call: &Call<'_>) -> Inferred<Attention> {
    let query = call.input(0)?;
    let &[batch, queries, all] = of_rank::<3>(query, "queries")?;
    let (heads, groups) = (heads(call, "num_heads")?, heads(call, "kv_num_heads")?);
    let (width, new) = match call.optional(1) {
        Some(key) => (each(all, heads)?, of_rank::<3>(key, "keys")?[1]),
        // Queries, keys and values of every token are packed one after the other.
        None => match groups.checked_mul(2).and_then(|both| both.checked_add(heads)) {
            Some(packed) => (each(all, packed)?, queries),
            None => return contradiction(format!("{heads} heads cannot be divided into {groups} groups")),
        },
    };
    let is_sparse = call.kind() == "SparseAttention";
    let total = known(call, if is_sparse { 7 } else { 6 });
    let past = match call.optional(3) {
        Some(past) => Some((past, *of_rank::<4>(past, "past keys")?)),
        None => None,
    };
    // A cache in a shared buffer is as long as the buffer, which is longer than its contents.
    let held = past.map_or(0, |(_, dims)| dims[2]);
    let present = match total {
        _ if call.flag("sliding_window_cache", false) || is_sparse => held,
        Some(total) => held.max(total),
        None => sum(call, held, new)?,
    };
    let keys = match total {
        Some(total) => call.dim(i128::from(total))?,
        None => present,
    };
    let output = vec![batch, queries, call.dim(i128::from(heads) * i128::from(width))?];
    let made = |index: usize| match call.optional(index) {
        // A quantised cache packs several numbers into an element.
        Some(past) => {
            let &[_, _, _, packed] = of_rank::<4>(past, "past keys or values")?;
            cache(call, past.elem, [batch, groups, present, packed])
        }
        None => cache(call, query.elem, [batch, groups, present, width]),
    };
    let outputs = vec![
        Value::new(query.elem, output),
        made(3)?,
        made(4)?,
        Value::new(query.elem, vec![batch, heads, queries, keys]),
    ];
    let scores = scores([batch, heads, queries, keys]);
    // A window leaves keys out, and so does a sparse layout.
    let window = call.int("local_window_size").filter(|&window| window > 0);
    let is_dense = !is_sparse && window.is_none_or(|window| i128::from(window) >= i128::from(keys));
    Ok(Attention {
        outputs,
        scores,
        widths: [width, width],
        projection: 0.0,
        kernels: if is_dense {
            vec![fused([batch, queries, keys, heads, groups, width], true)]
        } else {
            Vec::new()
        },
    })
}

/// Multi-head attention: every head has its own keys and values.
fn multi_head(call: &Call<'_>) -> Inferred<Attention> {
    let is_decoder = call.kind() == "DecoderMaskedMultiHeadAttention";
    let (past_at, length_at) = if is_decoder { (5, 7) } else { (6, 8) };
    let query = call.input(0)?;
    let heads = heads(call, "num_heads")?;
    let (batch, queries, width) = match *query.dims.as_slice() {
        [batch, queries, all] => (batch, queries, each(all, heads)?),
        [batch, queries, _, 3, width] => (batch, queries, width),
        _ => return contradiction(format!("queries of shape {:?}", query.dims)),
    };
    let (new, value_width) = match (call.optional(1), call.optional(2)) {
        (Some(key), value) => match (key.dims.as_slice(), value.map(|value| value.dims.as_slice())) {
            (&[_, new, _], Some(&[_, _, all])) => (new, each(all, heads)?),
            (&[_, new, _, 2, _], None) => (new, width),
            (&[_, _, new, _], Some(&[_, _, _, width])) => (new, width),
            _ => return contradiction(format!("keys of shape {:?}, and values of others", key.dims)),
        },
        (None, _) => (queries, width),
    };
    let past = match call.optional(past_at) {
        Some(past) => of_rank::<4>(past, "past keys")?[2],
        None => 0,
    };
    // If its length is an input, the past is in a buffer, which the updated cache shares.
    let is_shared = call.optional(length_at).is_some() && past > 0;
    let present = if is_shared { past } else { sum(call, past, new)? };
    let keys = match known(call, length_at).filter(|_| is_shared) {
        Some(length) => sum(call, length, new)?.min(present),
        None => present,
    };
    let outputs = vec![
        Value::new(query.elem, vec![batch, queries, call.dim(i128::from(heads) * i128::from(value_width))?]),
        cache(call, query.elem, [batch, heads, present, width])?,
        cache(call, query.elem, [batch, heads, present, value_width])?,
        Value::new(query.elem, vec![batch, heads, queries, keys]),
    ];
    let scores = scores([batch, heads, queries, keys]);
    Ok(Attention {
        outputs,
        scores,
        widths: [width, value_width],
        projection: 0.0,
        kernels: vec![fused([batch, queries, keys, heads, heads, width], call.flag("unidirectional", false))],
    })
}

/// Tokens of several sequences without padding between them. Their lengths are data, so every sequence is taken to be
/// as long as the longest.
fn packed_multi_head(call: &Call<'_>) -> Inferred<Attention> {
    let query = call.input(0)?;
    let heads = heads(call, "num_heads")?;
    let (tokens, width) = match *query.dims.as_slice() {
        [tokens, all] => (tokens, each(all, heads)?),
        [tokens, _, 3, width] => (tokens, width),
        _ => return contradiction(format!("queries of shape {:?}", query.dims)),
    };
    let value_width = match call.optional(2) {
        Some(value) => each(of_rank::<2>(value, "values")?[1], heads)?,
        None => width,
    };
    let &[_, longest] = of_rank::<2>(call.input(4)?, "offsets of tokens")?;
    let dims = vec![tokens, call.dim(i128::from(heads) * i128::from(value_width))?];
    let scores = scores([1, heads, tokens, longest]);
    let outputs = vec![Value::new(query.elem, dims)];
    Ok(Attention { outputs, scores, widths: [width, value_width], projection: 0.0, kernels: Vec::new() })
}

/// Attention that projects queries, keys and values itself, by one product.
fn projected(call: &Call<'_>) -> Inferred<Attention> {
    let input = call.input(0)?;
    let &[inner, columns] = of_rank::<2>(call.input(1)?, "weights")?;
    let heads = heads(call, "num_heads")?;
    let sizes = match call.ints("qkv_hidden_sizes") {
        Some(sizes) => {
            sizes.iter().map(|&size| call.dim(i128::from(size))).collect::<Inferred<Vec<u64>>>()?
        }
        None => vec![columns / 3; 3],
    };
    let (&[query, key, value], Some(&width)) = (sizes.as_slice(), input.dims.last()) else {
        return contradiction(format!("sizes {sizes:?} for queries, keys and values"));
    };
    let all = i128::from(query) + i128::from(key) + i128::from(value);
    if width != inner || query != key || all != i128::from(columns) {
        return contradiction(format!(
            "weights of {inner} rows and {columns} columns for {sizes:?}, and an input of shape {:?}",
            input.dims
        ));
    }
    let widths = [each(query, heads)?, each(value, heads)?];
    let (is_packed, is_quantized) = (call.kind() == "PackedAttention", call.kind() == "QAttention");
    let bias = if call.optional(2).is_some() { 1.0 } else { 0.0 };
    let elem = if is_quantized { call.input(3)?.elem } else { input.elem };
    let mut dims = input.dims.clone();
    if let Some(last) = dims.last_mut() {
        *last = value;
    }
    let rows = elements(&dims[..dims.len() - 1]);
    let projection = product(rows * columns as f64, inner) + bias * rows * columns as f64;
    let (scores, mut outputs) = (|keys, rows| elements(&[heads, keys]) * rows, vec![Value::new(elem, dims)]);
    if is_packed {
        of_rank::<2>(input, "an input")?;
        let &[_, longest] = of_rank::<2>(call.input(3)?, "offsets of tokens")?;
        let kernels = Vec::new();
        return Ok(Attention { outputs, scores: scores(longest, rows), widths, projection, kernels });
    }
    let &[batch, queries, _] = of_rank::<3>(input, "an input")?;
    let past = match call.optional(if is_quantized { 8 } else { 4 }) {
        Some(past) => of_rank::<5>(past, "past keys and values")?[3],
        None => 0,
    };
    let is_shared = call.flag("past_present_share_buffer", false) && past > 0;
    let present = if is_shared { past } else { sum(call, past, queries)? };
    let length = if is_shared && !is_quantized { known(call, 6) } else { None };
    let keys = match length {
        Some(length) => sum(call, length, queries)?.min(present),
        None => present,
    };
    outputs.push(Value::new(elem, vec![2, batch, heads, present, widths[0]]));
    let kernels = vec![
        KernelDocument::Product { batch: 1.0, m: rows, n: columns as f64, k: inner as f64 },
        fused([batch, queries, keys, heads, heads, widths[0]], call.flag("unidirectional", false)),
    ];
    Ok(Attention { outputs, scores: scores(keys, rows), widths, projection, kernels })
}

/// `PagedAttention`: paged caches, written in place. Lengths are data, so a sequence is taken to be as long as its
/// block table.
pub(super) fn paged(call: &Call<'_>) -> Inferred {
    let query = call.input(0)?;
    let &[tokens, all] = of_rank::<2>(query, "queries")?;
    let (heads, groups) = (heads(call, "num_heads")?, heads(call, "kv_num_heads")?);
    let hidden = match call.optional(1) {
        Some(_) => all,
        None => {
            let packed = groups.checked_mul(2).and_then(|both| both.checked_add(heads));
            let width = each(all, packed.unwrap_or(u64::MAX))?;
            call.dim(i128::from(width) * i128::from(heads))?
        }
    };
    let mut outputs = vec![Value::new(query.elem, vec![tokens, hidden])];
    for index in [3, 4] {
        if let Some(pages) = call.optional(index) {
            outputs.push(Value::new(pages.elem, pages.dims.clone()));
        }
    }
    Ok(outputs)
}

/// Writes new tokens into a cache, whose length stays the same.
pub(super) fn scattered(call: &Call<'_>) -> Inferred {
    let past = call.input(0)?;
    Ok(vec![Value::new(past.elem, past.dims.clone())])
}
