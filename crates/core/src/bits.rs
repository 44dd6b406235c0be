//! Sets of small numbers, stored as bits of 64-bit words.

/// Number of words that a set of numbers below `len` needs, at least one.
pub fn words(len: usize) -> usize {
    len.div_ceil(64).max(1)
}

/// Adds a number.
#[inline]
pub fn insert(set: &mut [u64], index: usize) {
    set[index / 64] |= 1 << (index % 64);
}

/// Removes a number.
#[inline]
pub fn remove(set: &mut [u64], index: usize) {
    set[index / 64] &= !(1 << (index % 64));
}

/// Whether a number is in a set.
#[inline]
pub fn contains(set: &[u64], index: usize) -> bool {
    set[index / 64] >> (index % 64) & 1 == 1
}

/// Whether `part` is a subset of `whole`.
#[inline]
pub fn within(part: &[u64], whole: &[u64]) -> bool {
    part.iter().zip(whole).all(|(part, whole)| part & !whole == 0)
}

/// The numbers of a set, ascending.
#[inline]
pub fn members(set: &[u64]) -> impl Iterator<Item = usize> {
    set.iter().enumerate().flat_map(|(word, &set)| members_of_word(set, word))
}

/// The numbers of `set` that are not in `other`, ascending.
#[inline]
pub fn difference<'a>(set: &'a [u64], other: &'a [u64]) -> impl Iterator<Item = usize> + 'a {
    set.iter().zip(other).enumerate().flat_map(|(word, (set, other))| members_of_word(set & !other, word))
}

/// The numbers in one word of a set.
#[inline]
fn members_of_word(mut set: u64, word: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let bit = set.trailing_zeros() as usize;
        set &= set - 1;
        Some(word * 64 + bit)
    })
}
