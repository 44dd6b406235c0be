//! Measured costs: import from tables, profiles and traces; look-up with interpolation; application to a model.

pub mod import;
