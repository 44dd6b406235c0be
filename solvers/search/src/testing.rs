//! What the tests of several modules need.

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{CLUSTER_SCHEMA, ClusterDocument, KindDocument};

/// Some devices `acc` of the class `acc`, without links: tensors have seconds of their own.
pub(crate) fn devices(count: u32, memory_bytes: Option<f64>) -> Cluster {
    let kind = KindDocument {
        reserve_bytes: None,
        name: "acc".into(),
        class: "acc".into(),
        count,
        host: false,
        memory_bytes,
        link: None,
        group: None,
    };
    let document = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![kind],
        groups: Vec::new(),
        matrix: None,
    };
    Cluster::from_document(document).expect("a valid cluster")
}
