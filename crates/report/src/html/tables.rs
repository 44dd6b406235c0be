//! The tables that the parts of the data refer to.

use rustc_hash::FxHashMap;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Pass;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;

use super::figures::{Figures, Texts};

/// Tables under construction, and the indices that all parts use.
#[derive(Default)]
pub(super) struct Tables {
    /// Texts.
    pub(super) texts: Texts,
    /// Seconds.
    pub(super) seconds: Figures,
    /// Bytes.
    pub(super) bytes: Figures,
    /// Index of each device in use.
    pub(super) number_of: FxHashMap<DeviceId, u32>,
    /// Position of each operator in topological order.
    pub(super) place_of: Keyed<OpId, u32>,
}

/// Code of a pass in the data.
pub(super) fn pass_number(pass: Pass) -> u8 {
    match pass {
        Pass::Forward => 0,
        Pass::Backward => 1,
        Pass::Update => 2,
    }
}
