//! Latency of one sample through offloaded calls, as a mixed-integer program.
//!
//! The rules are in [`stagewright_core::call_timing`]. For a block b (operators that always share a seat) and a seat s
//! (a call of an accelerator, or a host), x_bs = 1 iff b has seat s; for an operator v, x_vs is the x of its block and
//! h_v the sum of x_vs over hosts. With times start_j and finish_j of calls and ready_v of operators, and H the value
//! of a plan:
//!
//! ```text
//! Σ_s x_bs = 1                         blocks of one colocation class are on one device; memory is per device
//! e_uvj ≥ x_vj − x_uj                  the edge (u, v) enters call j
//! in_tj ≥ e_uvj                        over the consumers v of tensor t with producer u
//! out_tj ≥ x_uj − x_vj
//! finish_j = start_j + Σ_v p_v x_vj + Σ_t x_t (in_tj + out_tj)
//! start_j ≥ ready_u − H (1 − in_tj)    start_j ≥ finish_i for the call i before j on the same accelerator
//! ready_v ≥ finish_j − (H − before_v − p_v) (1 − x_vj)
//! ready_v ≥ ready_u + p_v h_v + Σ_j p_v e_uvj
//! T ≥ finish_j, ready_v                minimise T
//! ```
//!
//! The program admits a cycle of calls only if everything on the cycle takes no time, or less than HiGHS can resolve.
//! Evaluation rejects such a plan; the program is then solved again with positions of operators and calls in an order.
//! The bound and the proof of infeasibility of the first program remain valid.
//!
//! **Strengthening.** Without further rows the relaxation is weak: any large constant lets it ignore a time.
//!
//! - *Heads and tails* ([`reach`]). Along a path the times of operators add up, no matter which of them share a
//!   call. With before_v and after_v the longest paths into and out of v at the fastest seats, ready_v ≥ before_v +
//!   Σ_s p_vs x_vs. T ≥ ready_v + after_v is invalid within a call, whose operators all finish together; but if v
//!   is on a host, or v is in a call and a successor w is not, then all of w's path comes after ready_v: T ≥
//!   ready_v + after_v h_v, and T ≥ ready_u + (p_w + after_w) (h_w + Σ_j e_uwj). Neither has a large constant.
//! - *Exclusion*. A seat s with before_v + p_vs + after_v > H is removed from the domain of v.
//! - *Paths*. Let c_v be the time that v alone adds to its seat: its own time, the outputs that leave its call, and the
//!   inputs that enter it, where a tensor counts only for its first consumer, so that no path counts it twice. A path
//!   meets a call in one interval, the call takes at least Σ c_v over that interval, and the rest of the path starts
//!   later; so π_v ≥ π_u + c_v and ready_v ≥ π_v, which makes T at least the length of every path.
//! - *Symmetry breaking*. Calls and hosts of a plan are acyclic, so the devices of a pool can be numbered in an
//!   order in which their first calls can be made. Then no operator of a first call comes after an operator of a
//!   call with a higher number. The relaxation expresses this, and convexity, along edges, as after_vj ≥ x_uj −
//!   x_vj, ≥ Σ_{later i} x_ui and ≥ after_uj, and x_vj + after_vj ≤ 1.
//! - *Pairs of calls*. A binary r_ij, 1 if an operator of j waits for one of i: start_j ≥ finish_i − H (1 − r_ij).
//!   Branching on it fixes a large constant for all operators together.
//!
//! A neighbourhood ([`scope`]) has these rows for a few blocks and calls; the rest of the plan is constant.

pub(crate) mod exact;
pub(crate) mod lns;
pub mod model;
mod neighbourhood;
pub mod nodes;
pub mod reach;
pub mod scope;
pub mod seats;
mod tighten;
mod times;
mod transfers;
mod writer;
