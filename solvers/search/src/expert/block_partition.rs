//! The most even partition of a sequence into blocks: it minimises the largest block.
//!
//! For a given cap on a block, filling each block as far as possible needs the fewest blocks, so the smallest cap for
//! which the available blocks suffice is found exactly, by bisection over the bits of the number. The blocks are then
//! filled under this cap towards an equal share of the rest, so that no block stays needlessly small.
//!
//! torchgpipe (`blockpartition`) follows Bárány and Grinberg ("Block partitions of sequences", arXiv:1308.2452), whose
//! blocks differ by at most the largest item. DeepSpeed (`partition_balanced`) bisected for the cap, as here, before it
//! changed to a program that minimises the difference between the largest and the smallest block.

/// The block of each item of a sequence of non-negative weights: at most `blocks` non-empty blocks. O(items · (64 +
/// blocks)), O(items · 64) if the items do not differ much.
pub(super) fn block_partition(weights: &[f64], blocks: usize) -> Vec<usize> {
    let count = weights.len();
    let blocks = blocks.min(count);
    if blocks == 0 {
        return Vec::new();
    }
    let mut prefix = Vec::with_capacity(count + 1);
    let mut total = 0.0;
    prefix.push(total);
    for weight in weights {
        total += weight;
        prefix.push(total);
    }
    let sequence = Sequence { prefix };

    // Non-negative floats have the order of their bits.
    let single = (0..count).map(|index| sequence.sum(index, index + 1)).fold(0.0, f64::max);
    let (mut low, mut high) = (single.to_bits(), total.to_bits());
    while low < high {
        let middle = low + (high - low) / 2;
        if sequence.needs(f64::from_bits(middle))[0] <= blocks {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    sequence.fill(f64::from_bits(high), blocks)
}

struct Sequence {
    prefix: Vec<f64>,
}

impl Sequence {
    fn len(&self) -> usize {
        self.prefix.len() - 1
    }

    /// Weight of the items in `start..end`: monotone in the range, also after rounding.
    fn sum(&self, start: usize, end: usize) -> f64 {
        self.prefix[end] - self.prefix[start]
    }

    /// End of the longest block that starts at `start` and weighs at most `cap`; the search begins at `from`.
    fn reach(&self, start: usize, cap: f64, from: usize) -> usize {
        (from..self.len()).find(|&end| self.sum(start, end + 1) > cap).unwrap_or(self.len())
    }

    /// Minimum number of blocks of at most `cap` for the items from each position on; no item weighs more.
    fn needs(&self, cap: f64) -> Vec<usize> {
        let mut ends = Vec::with_capacity(self.len());
        let mut end = 0;
        for start in 0..self.len() {
            end = self.reach(start, cap, end.max(start + 1));
            ends.push(end);
        }
        let mut needs = vec![0; self.len() + 1];
        for start in (0..self.len()).rev() {
            needs[start] = 1 + needs[ends[start]];
        }
        needs
    }

    /// Fills exactly `blocks` blocks of at most `cap`, each as close as possible to an equal share of the rest.
    fn fill(&self, cap: f64, blocks: usize) -> Vec<usize> {
        let needs = self.needs(cap);
        let mut block_of = Vec::with_capacity(self.len());
        for block in 0..blocks {
            let start = block_of.len();
            let others = blocks - block - 1;
            let share = self.sum(start, self.len()) / (others + 1) as f64;
            // Each of the other blocks needs an item, and together they need room for the rest.
            let last = self.reach(start, cap, start + 1).min(self.len() - others);
            let distance = |end: usize| (self.sum(start, end) - share).abs();
            let end = (start + 1..=last)
                .rev()
                .filter(|&end| needs[end] <= others)
                .min_by(|&left, &right| distance(left).total_cmp(&distance(right)))
                .unwrap_or(last);
            block_of.resize(end, block);
        }
        block_of
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::seed;

    use super::*;

    fn sizes(weights: &[f64], blocks: usize) -> Vec<usize> {
        let block_of = block_partition(weights, blocks);
        (0..blocks).map(|block| block_of.iter().filter(|&&own_block| own_block == block).count()).collect()
    }

    #[test]
    fn equal_items_are_spread_evenly() {
        assert_eq!(sizes(&[1.0; 12], 4), [3, 3, 3, 3]);
        assert_eq!(sizes(&[1.0; 10], 4), [3, 2, 3, 2]);
        assert_eq!(sizes(&[1.0; 2], 4), [1, 1, 0, 0]);
        assert_eq!(sizes(&[0.0; 4], 2).iter().sum::<usize>(), 4);
        assert!(block_partition(&[], 3).is_empty() && block_partition(&[1.0], 0).is_empty());
    }

    #[test]
    fn a_known_sequence() {
        assert_eq!(sizes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2), [4, 2]);
    }

    #[test]
    fn no_cut_has_a_smaller_largest_block() {
        for number in 0..2000 {
            let mut rng = seed::stream(0xB10C, number);
            let count = rng.random_range(1..=8);
            let weights: Vec<f64> = (0..count).map(|_| f64::from(rng.random_range(0..6))).collect();
            let blocks = rng.random_range(1..=5usize);
            let block_of = block_partition(&weights, blocks);
            assert!(block_of.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] <= pair[0] + 1));
            assert_eq!(block_of.first().zip(block_of.last()), Some((&0, &(blocks.min(count) - 1))));
            let largest = |block_of: &dyn Fn(usize) -> usize| {
                let mut sums = vec![0.0; count];
                (0..count).for_each(|index| sums[block_of(index)] += weights[index]);
                sums.into_iter().fold(0.0, f64::max)
            };
            let found = largest(&|index| block_of[index]);
            let least = (0..1u32 << (count - 1))
                .filter(|cuts| cuts.count_ones() < blocks as u32)
                .map(|cuts| largest(&|index| (cuts & ((1 << index) - 1)).count_ones() as usize))
                .fold(f64::INFINITY, f64::min);
            assert_eq!(found, least, "{number}: {weights:?} in {blocks}");
        }
    }
}
