//! The cut-net model: which device every unit is on, as a mixed-integer program.
//!
//! With x_ud = 1 iff unit u is on device d, and for every net t and device d whose link it would take
//!
//! ```text
//! Σ_d x_ud = 1                 hi_td ≥ x_ud ≥ lo_td  for every pin u of t         (so hi − lo = 1 iff d cuts t)
//! load:    Σ_u p_ud x_ud + Σ_t x_td (hi_td − lo_td) ≤ T_d                          serial; else each sum by itself
//! memory:  Σ_u bytes_u x_ud ≤ capacity_d
//! T_d ≤ T                      minimise T
//! ```
//!
//! In a graph of version 2 the bytes are those that a device needs at least, with shared parameters held once, and rows of
//! [`cover`] say what else does not fit.
//!
//! This is compact, and its relaxation as strong as that of the edge-by-edge formulation of Tarnawski et al.
//! (NeurIPS 2020). [`model`] writes it down with good_lp, [`crate::run`] solves it on HiGHS itself, because
//! good_lp has neither the dual bound nor the status at a limit. [`symmetry`] tells identical devices apart,
//! [`infeasible`] says which units cannot be packed where there is no plan.

pub mod cover;
pub mod infeasible;
pub mod model;
pub mod symmetry;
