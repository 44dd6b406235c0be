//! The cut-net model: assignment of units to devices as a mixed-integer program.
//!
//! With x_ud = 1 iff unit u is on device d, and for every net t and device d whose link it would take
//!
//! ```text
//! Σ_d x_ud = 1                 hi_td ≥ x_ud ≥ lo_td  for every pin u of t         (so hi − lo = 1 iff d cuts t)
//! load:    Σ_u p_ud x_ud + Σ_t x_td (hi_td − lo_td) ≤ T_d                          serial; else each separately
//! memory:  Σ_u bytes_u x_ud ≤ capacity_d
//! T_d ≤ T                      minimise T
//! ```
//!
//! In a graph of version 2 the bytes are a lower bound on the memory of a device, with shared parameters held once;
//! rows of [`cover`] exclude the other sets that do not fit.
//!
//! The model is compact, and its relaxation is as strong as the edge-by-edge formulation of Tarnawski et al. (NeurIPS
//! 2020). [`model`] builds it with good_lp; [`crate::run`] solves it on HiGHS directly, because good_lp exposes neither
//! the dual bound nor the status at a limit. [`symmetry`] breaks the symmetry of identical devices; if there is no
//! plan, [`infeasible`] finds units that cannot be packed.

pub mod cover;
pub mod infeasible;
pub mod model;
pub mod symmetry;
