//! The order that the contiguous split rule requires of operators.

use super::{Graph, OpId};
use crate::document::Pass;
use crate::ids::Keyed;

impl Graph {
    /// Pairs of operators of which the first must not be on a later stage than the second: producer and consumer of a
    /// forward tensor, and consumer and producer of a backward tensor. The latter pairs follow from the forward tensors
    /// if both classes have forward operators.
    pub(crate) fn stage_precedences(&self) -> impl Iterator<Item = (OpId, OpId)> {
        let mut has_forward = Keyed::filled(false, self.class_count());
        for op in self.operators().filter(|&op| self.is_forward(op)) {
            has_forward[self.class_of(op)] = true;
        }
        let pairs = self.tensors().flat_map(|tensor| {
            let producer = self.producer(tensor);
            self.consumers(tensor).iter().map(move |&consumer| (producer, consumer))
        });
        pairs.filter_map(move |(producer, consumer)| {
            match (self.operator(producer).pass, self.operator(consumer).pass) {
                (Pass::Forward, Pass::Forward) => Some((producer, consumer)),
                (Pass::Backward, Pass::Backward) => {
                    let implied =
                        has_forward[self.class_of(producer)] && has_forward[self.class_of(consumer)];
                    (!implied).then_some((consumer, producer))
                }
                _ => None,
            }
        })
    }
}
