//! Building blocks shared by several families.

pub(crate) mod image;
pub(crate) mod recurrent;
pub(crate) mod transformer;
