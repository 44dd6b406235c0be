//! Replicas that run already in place of equal ones, which matters where weights have no price.

use stagewright_serving::Problem;

use crate::column::Column;
use crate::space::Space;

/// Numbers of replicas by column in which as many as possible run already.
pub(crate) fn exchanged(problem: &Problem, space: &Space, mut counts: Vec<u64>) -> Vec<u64> {
    let columns = &space.columns;
    for (index, running) in columns.iter().enumerate().filter(|(_, column)| column.kept.is_some()) {
        let is_same = |column: &Column| {
            column.kept.is_none()
                && (column.role, column.class, column.batch) == (running.role, running.class, running.batch)
                && (&column.shape, column.offer) == (&running.shape, running.offer)
                && column.stages(problem) == running.stages(problem)
        };
        for (other, column) in columns.iter().enumerate() {
            if counts[other] > 0 && is_same(column) {
                let own = columns.iter().zip(&counts).filter(|(column, _)| column.size == running.size);
                let taken: u64 = own.map(|(_, count)| count).sum();
                let moved = counts[other].min(space.sizes[running.size].most.saturating_sub(taken));
                counts[other] -= moved;
                counts[index] += moved;
            }
        }
    }
    counts
}
