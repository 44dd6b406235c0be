//! Matrix products.

use crate::record::Product;
use crate::{Owner, Piece, Read, Record, Shape, Tape, Tensor};

/// A bilinear operator with weights, and its gradients; each is a product as large as the forward one.
pub(crate) fn bilinear(record: Record, weights: f64, flop: f64, product: Product) -> Record {
    let Product { batch, m, n, k } = product;
    record
        .flop(flop)
        .product(product)
        .piece(Piece::of_inputs("grad_input", &[0], flop, &[Read::Weights]).product(Product {
            batch,
            m,
            n: k,
            k: n,
        }))
        .piece(Piece::of_weights(weights, flop, &[Read::Input(0)]).product(Product { batch, m: k, n, k: m }))
}

/// The product of `[…, in]` and one matrix `[in, out]`.
fn by_matrix(x: Tensor, out: u64) -> Product {
    let k = x.last() as f64;
    Product { batch: 1.0, m: x.elements() / k, n: out as f64, k }
}

impl Tape {
    /// Multiplies `[…, in]` by a weight matrix `[in, out]` and adds a bias of `[out]`.
    pub(crate) fn linear(&mut self, name: &str, x: Tensor, out: u64) -> Tensor {
        self.dense(name, x, out, true)
    }

    /// Multiplies `[…, in]` by a weight matrix `[in, out]`, without a bias.
    pub(crate) fn project(&mut self, name: &str, x: Tensor, out: u64) -> Tensor {
        self.dense(name, x, out, false)
    }

    fn dense(&mut self, name: &str, x: Tensor, out: u64, bias: bool) -> Tensor {
        let inner = x.last() as f64;
        let weights = inner * out as f64 + if bias { out as f64 } else { 0.0 };
        let flop = 2.0 * x.elements() * out as f64;
        let record =
            bilinear(Record::new("linear", [x]).parameters(weights), weights, flop, by_matrix(x, out));
        self.record(name, record, x.shape.with_last(out))
    }

    /// A grouped product: multiplies each row of `[rows, in]` by the matrix `[in, out]` of its expert, one of `experts`.
    /// A kernel reads the matrices of no more experts than it has rows.
    pub(crate) fn project_grouped(&mut self, name: &str, x: Tensor, out: u64, experts: u64) -> Tensor {
        let matrix = x.last() as f64 * out as f64;
        let rows = x.elements() / x.last() as f64;
        let weights = experts as f64 * matrix;
        let flop = 2.0 * x.elements() * out as f64;
        let batch = rows.min(experts as f64);
        let moved = (x.elements() + batch * matrix + rows * out as f64) * self.width;
        let record = Record::new("linear", [x]).parameters(weights).moved(moved);
        let product = Product { batch, m: rows / batch, ..by_matrix(x, out) };
        self.record(name, bilinear(record, weights, flop, product), x.shape.with_last(out))
    }

    /// Multiplies `[…, in]` by the transposed matrix `[in, out]` that an embedding owns.
    pub(crate) fn tied(&mut self, name: &str, x: Tensor, out: u64, owner: Owner) -> Tensor {
        let weights = x.last() as f64 * out as f64;
        let flop = 2.0 * x.elements() * out as f64;
        let record =
            bilinear(Record::new("linear", [x]).shares(owner, weights), weights, flop, by_matrix(x, out));
        self.record(name, record, x.shape.with_last(out))
    }

    /// The product of two tensors over a common dimension of `inner`: every output element is a sum of
    /// `inner` products. Batched if both have the batch dimension.
    pub(crate) fn contract(
        &mut self,
        name: &str,
        a: Tensor,
        b: Tensor,
        inner: u64,
        out: impl Into<Shape>,
    ) -> Tensor {
        let out = out.into();
        let k = inner as f64;
        let flop = 2.0 * out.elements() * k;
        let (left, right) = (a.elements() / k, b.elements() / k);
        let batch = left * right / out.elements();
        let (m, n) = (left / batch, right / batch);
        let of_left = Product { batch, m, n: k, k: n };
        let of_right = Product { batch, m: k, n, k: m };
        let record = Record::new("matmul", [a, b])
            .flop(flop)
            .product(Product { batch, m, n, k })
            .piece(Piece::of_inputs("grad_0", &[0], flop, &[Read::Input(1)]).product(of_left))
            .piece(Piece::of_inputs("grad_1", &[1], flop, &[Read::Input(0)]).product(of_right));
        self.record(name, record, out)
    }
}
