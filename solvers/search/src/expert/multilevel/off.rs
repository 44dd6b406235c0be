//! Replacement for METIS in builds without it: every partition is an error.

use stagewright_core::contraction::UnitId;
use stagewright_core::ids::Keyed;

/// Cargo feature that this build lacks.
pub(in super::super) const MISSING_FEATURE: Option<&str> = Some("metis");

/// A graph that cannot be partitioned.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct WeightedGraph;

impl WeightedGraph {
    /// Takes node weights and edges (from, to, weight).
    pub(in super::super) fn new(
        _nodes: Keyed<UnitId, f64>,
        _edges: &[(UnitId, UnitId, f64)],
    ) -> WeightedGraph {
        WeightedGraph
    }

    /// # Errors
    /// Always.
    pub(in super::super) fn partition(
        &self,
        _parts: usize,
        _seed: u64,
    ) -> Result<Keyed<UnitId, usize>, String> {
        Err("this build has no METIS: build with the feature `metis`".into())
    }
}
