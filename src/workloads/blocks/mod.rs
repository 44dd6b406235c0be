//! Blocks that several families are built of.

pub(crate) mod image;
pub(crate) mod recurrent;
pub(crate) mod transformer;
