//! The fastest choices of a range of slots on one device: a multiple-choice knapsack by dynamic programming over units of bytes.

use crate::prices::Prices;
use crate::tensors::Choice;
use crate::unit::Unit;

/// Where a chain begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Start {
    /// Kind of the device.
    pub(crate) kind: usize,
    /// First slot.
    pub(crate) slot: usize,
    /// Whether the device is the first.
    pub(crate) is_first: bool,
    /// Width that no buffer exceeds.
    pub(crate) width: u64,
}

/// A range of slots with the seconds of its choices, of which none is better in both seconds and kept bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Edge {
    /// Slot after the last.
    pub(crate) end: usize,
    /// Seconds.
    pub(crate) seconds: f64,
    /// Units that are kept.
    pub(crate) units: usize,
    /// Bytes that are moved to the host, at most.
    pub(crate) moved: u64,
}

/// Ranges from a start to every end that fits, in time O(slots · units · choices). `with_slower` keeps choices that are
/// slower and leave less to the host.
pub(crate) fn edges(prices: &Prices<'_>, unit: Unit, start: Start, with_slower: bool) -> Vec<Edge> {
    let mut edges = Vec::new();
    walk(prices, unit, start, prices.model.slots(), |end, seconds, room| {
        if let Some(guests) = &prices.guests {
            let most = seconds.len().min(room.saturating_add(1));
            let least = |units: usize| seconds[units] - guests.earned(start.kind, room - units);
            let best = (0..most).map(|units| (units, least(units))).min_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((units, seconds)) = best.filter(|best| best.1.is_finite()) {
                edges.push(Edge {
                    end,
                    seconds: seconds + prices.rotary(Some(start.kind), start.slot..end),
                    units,
                    moved: 0,
                });
            }
            return;
        }
        let parts: usize = (start.slot..end).map(|slot| groups(prices, slot)).sum();
        let extra = prices.rotary(Some(start.kind), start.slot..end);
        let mut best = f64::INFINITY;
        for units in (0..seconds.len().min(room.saturating_add(1))).rev() {
            if seconds[units] < best {
                best = seconds[units];
                let moved = prices.movable(start.slot..end).saturating_sub(unit.least(units, parts));
                let edge = Edge { end, seconds: best + extra, units, moved };
                if !with_slower && edges.last().is_some_and(|last: &Edge| last.end == end) {
                    edges.pop();
                }
                edges.push(edge);
            }
        }
    });
    edges
}

fn groups(prices: &Prices<'_>, slot: usize) -> usize {
    prices.model.blocks.get(slot).map_or(0, |block| block.groups.len())
}

/// Visits every end in order, with the seconds by units kept and the units that fit.
fn walk(
    prices: &Prices<'_>,
    unit: Unit,
    start: Start,
    slots: usize,
    mut visit: impl FnMut(usize, &[f64], usize),
) {
    let mut seconds = vec![0.0];
    let mut width = 0;
    for slot in start.slot..slots {
        let Some(next) = extend(prices, unit, start, slot, &seconds, &mut width) else { return };
        seconds = next;
        let end = slot + 1;
        if let Some(room) = prices.room(start.kind, start.slot..end, start.is_first, width)
            && prices.model.is_loaded(start.slot..end)
        {
            visit(end, &seconds, usize::try_from(room / unit.bytes).unwrap_or(usize::MAX));
        }
    }
}

/// Seconds by units kept with one more slot; `None` if nothing fits any more. `width` grows to that of the buffer.
fn extend(
    prices: &Prices<'_>,
    unit: Unit,
    start: Start,
    slot: usize,
    seconds: &[f64],
    width: &mut u64,
) -> Option<Vec<f64>> {
    let choices = &prices.choices[start.kind][slot];
    let allowed = || choices.iter().filter(|choice| choice.width <= start.width);
    *width = allowed().map(|choice| choice.width).max()?.max(*width);
    let room = prices.room(start.kind, start.slot..slot + 1, start.is_first, *width)?;
    let room_units = usize::try_from(room / unit.bytes).unwrap_or(usize::MAX);
    let widest = allowed().map(|choice| unit.of(choice.bytes)).max()?;
    let length = seconds.len().saturating_add(widest).min(room_units.saturating_add(1));
    let mut next = vec![f64::INFINITY; length];
    for choice in allowed() {
        let taken = unit.of(choice.bytes);
        let Some(target) = next.get_mut(taken..) else { continue };
        for (target, before) in target.iter_mut().zip(seconds) {
            *target = target.min(before + choice.seconds);
        }
    }
    Some(next)
}

/// The choices of the slots of an edge, by the same program.
pub(crate) fn choices(prices: &Prices<'_>, unit: Unit, start: Start, edge: &Edge) -> Vec<Choice> {
    let mut steps = vec![vec![0.0]];
    let mut width = 0;
    for slot in start.slot..edge.end {
        let Some(next) = extend(prices, unit, start, slot, &steps[steps.len() - 1], &mut width) else {
            break;
        };
        steps.push(next);
    }
    let mut units = edge.units;
    let mut chosen = Vec::new();
    for slot in (start.slot..edge.end).rev() {
        let before = &steps[slot - start.slot];
        let after = |choice: &Choice| {
            let left = units.checked_sub(unit.of(choice.bytes))?;
            Some(before.get(left)? + choice.seconds)
        };
        let allowed = prices.choices[start.kind][slot].iter().filter(|choice| choice.width <= start.width);
        let best =
            allowed.filter_map(|choice| Some((after(choice)?, choice))).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, choice)) = best else { break };
        chosen.push(*choice);
        units -= unit.of(choice.bytes);
    }
    chosen.reverse();
    chosen
}
