//! A shard of a suite: every `count`-th case, so that every shard has both long and short inputs.

use stagewright::code::U001;

use crate::error::{CliError, Result};

/// One of several parts of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shard {
    /// Number of the shard, from 1.
    number: usize,
    count: usize,
}

impl Shard {
    /// Parses `I/N`.
    pub(super) fn parse(text: &str) -> Result<Shard> {
        let parts = text.split_once('/').and_then(|(number, count)| {
            Some(Shard { number: number.parse().ok()?, count: count.parse().ok()? })
        });
        parts.filter(|shard| (1..=shard.count).contains(&shard.number)).ok_or_else(|| {
            CliError::new(U001, format!("`{text}` is not a shard"))
                .at("--shard")
                .help("write I/N with I from 1 to N: 1/4 to 4/4 are the shards of four machines")
        })
    }

    /// Whether the shard contains the case at an index.
    pub(super) fn has(self, at: usize) -> bool {
        at % self.count == self.number - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_divide_the_cases() {
        let shards: Vec<Shard> =
            (1..=3).map(|number| Shard::parse(&format!("{number}/3")).expect("a shard")).collect();
        for at in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(at)).count(), 1, "{at}");
        }
        assert!(shards[0].has(0) && shards[2].has(5));
        for wrong in ["0/3", "4/3", "1", "1/0", "/", "-1/3", "1/3/3", "a/b"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
    }
}
