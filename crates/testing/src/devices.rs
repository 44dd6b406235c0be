//! Fixtures shared by the tests of several modules.

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{CLUSTER_SCHEMA, ClusterDocument, KindDocument};

/// A cluster of `count` devices of kind and class `acc`, without links: tensors carry their own seconds.
pub fn devices(count: u32, memory_bytes: Option<f64>) -> Cluster {
    let kind = KindDocument {
        reserve_bytes: None,
        name: "acc".into(),
        class: "acc".into(),
        count,
        host: false,
        memory_bytes,
        link: None,
        group: None,
        server: None,
        ram: None,
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
