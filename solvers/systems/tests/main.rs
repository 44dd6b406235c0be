//! The learned systems on small problems.

mod support;
mod systems;
