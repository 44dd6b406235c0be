//! Units in which searches count bytes.
//!
//! If the greatest common divisor of all projections is large enough, as it is where they have the same shape in several
//! encodings, units are exact; else sizes are rounded up, so that plans still fit.

use crate::model::Model;

/// Limit of the units of a device.
const MOST_UNITS: u64 = 1 << 16;

/// Unit of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    pub(crate) bytes: u64,
    /// Whether all projections are whole units.
    pub(crate) is_exact: bool,
}

impl Unit {
    /// A unit for projections on devices of at most `memory` bytes.
    pub(crate) fn new(model: &Model<'_>, memory: u64) -> Unit {
        let groups = model.blocks.iter().flat_map(|block| &block.groups);
        let (divisor, total) = groups.fold((0, 0_u64), |(divisor, total), group| {
            (greatest_common_divisor(divisor, group.bytes), total.saturating_add(group.bytes))
        });
        let least = memory.min(total).div_ceil(MOST_UNITS).max(1);
        match divisor {
            0 => Unit { bytes: 1, is_exact: true },
            divisor if divisor >= least => Unit { bytes: divisor, is_exact: true },
            _ => Unit { bytes: least, is_exact: false },
        }
    }

    /// Units that hold some bytes.
    pub(crate) fn of(self, bytes: u64) -> usize {
        usize::try_from(bytes.div_ceil(self.bytes)).unwrap_or(usize::MAX)
    }

    /// Bytes of units, of which `parts` may have been rounded up, at least.
    pub(crate) fn least(self, units: usize, parts: usize) -> u64 {
        let lost = if self.is_exact { 0 } else { parts as u64 };
        (units as u64).saturating_sub(lost).saturating_mul(self.bytes)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
