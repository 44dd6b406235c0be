//! The value of every ideal by calls made, with back-pointers.
//!
//! Two consecutive host segments are one longer segment, so each ideal has two rows: states that end with a call, which
//! both kinds of block can follow, and states that end on the hosts, which only a call can follow.

use stagewright_core::id;
use stagewright_core::ids::Keyed;

use super::costs::{Costs, PoolId};
use super::ideals::{IdealId, Ideals};

id! {
    /// The number of calls made on every pool, as encoded by [`Usage`].
    pub(super) Made;
}

/// One way to reach an ideal.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    value: f64,
    /// Previous ideal.
    from: IdealId,
    /// Pool of the call.
    pool: PoolId,
}

const NO_POOL: PoolId = PoolId(u32::MAX);
const UNREACHED: Cell = Cell { value: f64::INFINITY, from: IdealId(u32::MAX), pool: NO_POOL };

/// A block of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Block {
    pub(super) from: IdealId,
    pub(super) to: IdealId,
    /// Pool of the call; `None` for the hosts.
    pub(super) pool: Option<PoolId>,
}

/// Rows of all ideals: the settled rows, and the pending rows of each worker.
#[derive(Debug)]
pub(super) struct Table {
    settled: Settled,
    pending: Vec<Pending>,
}

/// Rows that are final.
#[derive(Debug)]
pub(super) struct Settled {
    /// Encoding of the numbers of calls made on the pools.
    usage: Usage,
    called: Rows,
    hosted: Rows,
}

/// Rows found so far by one worker.
#[derive(Debug)]
pub(super) struct Pending {
    called: Rows,
    hosted: Rows,
}

/// For each ideal that a block has reached, a row of cells, by calls made. The length of a row is the product of the
/// numbers of calls of the pools, 2¹⁶ for 16 single accelerators, so unreached rows are not allocated.
#[derive(Debug)]
struct Rows {
    width: usize,
    rows: Keyed<IdealId, Option<Box<[Cell]>>>,
}

impl Rows {
    fn new(width: usize, ideals: usize) -> Rows {
        Rows { width, rows: Keyed::filled(None, ideals) }
    }

    fn row(&self, ideal: IdealId) -> Option<&[Cell]> {
        self.rows[ideal].as_deref()
    }

    fn row_mut(&mut self, ideal: IdealId) -> &mut [Cell] {
        self.rows[ideal].get_or_insert_with(|| vec![UNREACHED; self.width].into())
    }

    fn cell(&self, ideal: IdealId, usage: usize) -> Cell {
        self.row(ideal).map_or(UNREACHED, |row| row[usage])
    }

    /// Merges another worker's row of an ideal. Among equal values, the cell from the first ideal is kept, no matter
    /// which thread found it.
    fn merge(&mut self, ideal: IdealId, other: &mut Rows) {
        let Some(theirs) = other.rows[ideal].take() else { return };
        match &mut self.rows[ideal] {
            none @ None => *none = Some(theirs),
            Some(ours) => {
                for (our, their) in ours.iter_mut().zip(&theirs) {
                    if (their.value, their.from) < (our.value, our.from) {
                        *our = *their;
                    }
                }
            }
        }
    }
}

/// Number of calls made on every pool, as one mixed-radix number.
#[derive(Debug, Clone)]
struct Usage {
    strides: Keyed<PoolId, usize>,
    limits: Keyed<PoolId, usize>,
    len: usize,
}

impl Usage {
    fn new(costs: &Costs) -> Option<Usage> {
        let limits: Keyed<_, _> = costs.pools.iter().map(|pool| pool.most as usize).collect();
        let mut strides = Keyed::default();
        let mut len = 1usize;
        for &limit in limits.iter() {
            strides.push(len);
            len = len.checked_mul(limit + 1)?;
        }
        Some(Usage { strides, limits, len })
    }

    fn has_room(&self, usage: usize, pool: PoolId) -> bool {
        usage / self.strides[pool] % (self.limits[pool] + 1) < self.limits[pool]
    }
}

impl Table {
    /// Empty rows for up to `limit` workers, as many as fit into `memory` bytes; `None` if not even one fits.
    pub(super) fn new(costs: &Costs, ideals: &Ideals, limit: usize, memory: Option<u64>) -> Option<Table> {
        let usage = Usage::new(costs)?;
        let cells = usage.len.checked_mul(ideals.count())?;
        let each = cells.checked_mul(2 * size_of::<Cell>())?.max(1) as u64;
        let fit = memory.unwrap_or(u64::MAX) / each;
        let workers = limit.min(usize::try_from(fit.checked_sub(1)?).unwrap_or(usize::MAX));
        if workers == 0 {
            return None;
        }
        let rows = || Rows::new(usage.len, ideals.count());
        let pending = (0..workers).map(|_| Pending { called: rows(), hosted: rows() }).collect();
        let mut settled = Settled { called: rows(), hosted: rows(), usage };
        settled.called.row_mut(IdealId(0))[0].value = 0.0;
        Some(Table { settled, pending })
    }

    /// Number of workers with rows.
    pub(super) fn workers(&self) -> usize {
        self.pending.len()
    }

    /// Makes the rows of some ideals final.
    pub(super) fn settle(&mut self, ideals: impl Iterator<Item = IdealId> + Clone) {
        for pending in &mut self.pending {
            for ideal in ideals.clone() {
                self.settled.called.merge(ideal, &mut pending.called);
                self.settled.hosted.merge(ideal, &mut pending.hosted);
            }
        }
    }

    /// The final rows for reading, and the rows of each worker for writing.
    pub(super) fn split(&mut self) -> (&Settled, &mut [Pending]) {
        (&self.settled, &mut self.pending)
    }

    /// The blocks of the best plan, if its value is below `below`.
    pub(super) fn read(&self, below: f64) -> Option<Vec<Block>> {
        let Settled { usage, called, hosted } = &self.settled;
        let cell = |ideal: IdealId, used: usize, on_hosts: bool| {
            if on_hosts { hosted.cell(ideal, used) } else { called.cell(ideal, used) }
        };
        let last = IdealId::new(called.rows.len() - 1);
        let ends = (0..usage.len).flat_map(|used| [(used, false), (used, true)]);
        let (mut used, mut on_hosts) =
            ends.min_by(|a, b| cell(last, a.0, a.1).value.total_cmp(&cell(last, b.0, b.1).value))?;
        let mut ideal = last;
        if cell(ideal, used, on_hosts).value >= below {
            return None;
        }
        let mut blocks = Vec::new();
        while ideal != IdealId(0) {
            let Cell { from, pool, .. } = cell(ideal, used, on_hosts);
            let pool = (!on_hosts).then_some(pool);
            blocks.push(Block { from, to: ideal, pool });
            ideal = from;
            match pool {
                None => on_hosts = false,
                Some(pool) => {
                    used -= usage.strides[pool];
                    on_hosts = cell(ideal, used, true).value < cell(ideal, used, false).value;
                }
            }
        }
        blocks.reverse();
        Some(blocks)
    }
}

impl Settled {
    /// Number of cells of a row.
    pub(super) fn width(&self) -> usize {
        self.usage.len
    }

    /// Minimum value of an ideal, and minimum over the states that end with a call.
    pub(super) fn least(&self, ideal: IdealId) -> (f64, f64) {
        let least = |rows: &Rows| {
            let cells = rows.row(ideal).unwrap_or_default();
            cells.iter().map(|cell| cell.value).fold(f64::INFINITY, f64::min)
        };
        let called = least(&self.called);
        (called.min(least(&self.hosted)), called)
    }

    /// Fills `ways` with the states that one more call on a pool can follow: for each, the calls made including the new
    /// one, and the value before it.
    pub(super) fn before_call(&self, ideal: IdealId, pool: PoolId, below: f64, ways: &mut Vec<(Made, f64)>) {
        ways.clear();
        for used in 0..self.usage.len {
            let value = self.called.cell(ideal, used).value.min(self.hosted.cell(ideal, used).value);
            if value < below && self.usage.has_room(used, pool) {
                ways.push((Made::new(used + self.usage.strides[pool]), value));
            }
        }
    }

    /// Fills `ways` with the states that a host segment can follow: for each, the calls made, and the value before the
    /// segment.
    pub(super) fn before_hosts(&self, ideal: IdealId, below: f64, ways: &mut Vec<(Made, f64)>) {
        ways.clear();
        let cells = self.called.row(ideal).unwrap_or_default();
        let values = (0..).map(Made).zip(cells).map(|(made, cell)| (made, cell.value));
        ways.extend(values.filter(|&(_, value)| value < below));
    }
}

impl Pending {
    /// Records a call that leads from one ideal to another at a cost, after each of the states in `ways`.
    #[inline]
    pub(super) fn call(&mut self, from: IdealId, to: IdealId, pool: PoolId, cost: f64, ways: &[(Made, f64)]) {
        relax(self.called.row_mut(to), from, pool, cost, ways);
    }

    /// Records a host segment that leads from one ideal to another at a cost, after each of the states in `ways`.
    #[inline]
    pub(super) fn host(&mut self, from: IdealId, to: IdealId, cost: f64, ways: &[(Made, f64)]) {
        relax(self.hosted.row_mut(to), from, NO_POOL, cost, ways);
    }
}

#[inline]
fn relax(row: &mut [Cell], from: IdealId, pool: PoolId, cost: f64, ways: &[(Made, f64)]) {
    for &(made, before) in ways {
        let cell = &mut row[made.index()];
        if before + cost < cell.value {
            *cell = Cell { value: before + cost, from, pool };
        }
    }
}
