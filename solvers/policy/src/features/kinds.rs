//! Coarse classes of operator kinds.

/// Number of coarse kinds.
pub const KINDS: usize = 9;

/// Substrings to look for, in order; the first match wins.
const PARTS: [(usize, &[&str]); 8] = [
    (0, &["conv"]),
    (1, &["attention", "softmax"]),
    (2, &["embed", "gather", "lookup"]),
    (3, &["norm", "dropout"]),
    (4, &["pool", "reduce", "sum", "mean", "loss"]),
    (5, &["matmul", "gemm", "linear", "dense", "einsum", "lstm", "rnn", "gru", "fc"]),
    (6, &["concat", "split", "reshape", "transpose", "slice", "pad", "cast", "copy", "stack", "shape"]),
    (
        7,
        &["add", "mul", "relu", "gelu", "tanh", "sigmoid", "silu", "activation", "sub", "div", "bias", "exp"],
    ),
];

/// The coarse class of an operator's kind: convolution, attention, lookup, normalisation, reduction, matrix product,
/// rearrangement, arithmetic, or other.
pub fn coarse(kind: Option<&str>) -> usize {
    let Some(kind) = kind else { return KINDS - 1 };
    let kind = kind.to_ascii_lowercase();
    let found = PARTS.iter().find(|(_, parts)| parts.iter().any(|part| kind.contains(part)));
    found.map_or(KINDS - 1, |&(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_parts_of_their_names() {
        assert_eq!(coarse(Some("Conv2D")), 0);
        assert_eq!(coarse(Some("batch_norm")), 3);
        assert_eq!(coarse(Some("MatMul")), 5);
        assert_eq!(coarse(Some("unheard-of")), KINDS - 1);
        assert_eq!(coarse(None), KINDS - 1);
    }
}
