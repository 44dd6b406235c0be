//! Error codes of documents and of the formats of other programs.

mod document;
mod model;
mod name;
mod placement;
mod reference;
mod split;

pub use document::F::{self, *};
pub use model::M::{self, *};
pub use name::N::{self, *};
pub use placement::L::{self, *};
pub use reference::R::{self, *};
pub use split::S::{self, *};
