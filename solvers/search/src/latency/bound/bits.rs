//! Sets of small numbers as words of 64 bits.

/// Number of words of a set of numbers below `len`, at least one.
pub(super) fn words(len: usize) -> usize {
    len.div_ceil(64).max(1)
}

/// The empty set.
pub(super) fn none(words: usize) -> Vec<u64> {
    vec![0; words]
}

#[inline]
pub(super) fn insert(set: &mut [u64], at: usize) {
    set[at / 64] |= 1 << (at % 64);
}

#[inline]
pub(super) fn contains(set: &[u64], at: usize) -> bool {
    set[at / 64] >> (at % 64) & 1 == 1
}

/// Whether `part` is a subset of `whole`.
#[inline]
pub(super) fn within(part: &[u64], whole: &[u64]) -> bool {
    part.iter().zip(whole).all(|(part, whole)| part & !whole == 0)
}
