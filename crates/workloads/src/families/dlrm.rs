//! DLRM: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems"
//! (2019), section 2.
//!
//! | variant | parameters | of which embeddings |
//! | --- | --- | --- |
//! | kaggle | 540,677,217 | 540,201,232 |
//! | terabyte | 24,036,595,969 | 24,034,227,072 |
//!
//! `kaggle` is the paper's model on the Criteo Kaggle data; `terabyte` is the model of the MLPerf training
//! benchmark on the Criteo Terabyte data, with at most 40 M rows per table. Source: the closed form of the
//! table sizes and layers in the reference implementation (`facebookresearch/dlrm`, `bench`).

use crate::{Definition, Loss, Size, Sizes, Tape, Tensor, WorkloadError};

pub(crate) struct Dlrm {
    /// Rows of each table.
    tables: &'static [u64; 26],
    /// Width of an embedding.
    width: u64,
    /// Layers of the MLP over the dense features.
    bottom: &'static [u64],
    /// Layers of the MLP over the interactions.
    top: &'static [u64],
}

#[rustfmt::skip]
const KAGGLE: [u64; 26] = [
    1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194, 27, 14_992,
    5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
];

#[rustfmt::skip]
const TERABYTE: [u64; 26] = [
    39_884_406, 39_043, 17_289, 7420, 20_263, 3, 7120, 1543, 63, 38_532_951, 2_953_546, 403_346, 10, 2208,
    11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36,
];

pub(crate) static FAMILY: Definition<Dlrm> = Definition {
    name: "dlrm",
    summary: "recommendation models of embedding tables and MLPs",
    sizes: &[Size::Batch],
    variants: &[
        ("kaggle", Dlrm { tables: &KAGGLE, width: 16, bottom: &[512, 256, 64], top: &[512, 256] }),
        (
            "terabyte",
            Dlrm { tables: &TERABYTE, width: 128, bottom: &[512, 256], top: &[1024, 1024, 512, 256] },
        ),
    ],
    record,
};

/// Dense features of the Criteo data.
const DENSE: u64 = 13;

fn record(tape: &mut Tape, dlrm: &Dlrm, sizes: &Sizes) -> Result<(), WorkloadError> {
    let batch = sizes.batch(2048)?;
    let mut x = tape.input("dense", [batch, DENSE]);
    for (layer, &out) in dlrm.bottom.iter().chain([&dlrm.width]).enumerate() {
        x = tape.scope(format!("bottom.{layer}"), |tape| rectified(tape, x, out));
    }
    let mut vectors = vec![x];
    for (index, &rows) in dlrm.tables.iter().enumerate() {
        let indices = tape.indices(&format!("category{index}"), [batch, 1]);
        vectors.push(tape.scope(format!("table.{index}"), |tape| {
            tape.embedding("lookup", indices, rows, [batch, dlrm.width]).0
        }));
    }
    let mut x = tape.scope("interaction", |tape| interact(tape, &vectors));
    for (layer, &out) in dlrm.top.iter().enumerate() {
        x = tape.scope(format!("top.{layer}"), |tape| rectified(tape, x, out));
    }
    tape.scope("click", |tape| {
        let x = tape.linear("fc", x, 1);
        tape.loss("loss", x, Loss::CrossEntropy);
    });
    Ok(())
}

fn rectified(tape: &mut Tape, x: Tensor, out: u64) -> Tensor {
    let x = tape.linear("fc", x, out);
    tape.relu("relu", x)
}

/// Concatenates the dense vector with the dot products of all pairs of vectors. All products are computed,
/// and one per pair is kept.
fn interact(tape: &mut Tape, vectors: &[Tensor]) -> Tensor {
    let (batch, width, count) = (vectors[0].dim(0), vectors[0].last(), vectors.len() as u64);
    let all = tape.concat("concat", vectors, 1).view([batch, count, width]);
    let products = tape.contract("products", all, all, width, [batch, count, count]);
    let pairs = tape.slice("pairs", products, [batch, count * (count - 1) / 2]);
    tape.concat("join", &[vectors[0], pairs], 1)
}
