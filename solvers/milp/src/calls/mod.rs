//! One sample through offloaded calls, as a mixed-integer program.
//!
//! The rule is that of [`stagewright_core::offload`]. For a block b (operators that always share a seat) and
//! a seat s, which is a call of an accelerator or a host, x_bs = 1 iff b has seat s; for an operator v, x_vs
//! is that of its block and h_v the sum over hosts. With times start_j, finish_j of calls and ready_v of
//! operators, and H the value of a plan:
//!
//! ```text
//! Σ_s x_bs = 1                         blocks of one colocation class are on one device; memory is that of devices
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
//! It takes a cycle of calls for a plan only if everything on the cycle takes no time, or less than HiGHS can
//! see. Such a plan is refused when it is evaluated; then the program is solved again with positions of
//! operators and calls in an order. Without them its bound is a bound all the same, and so is what it says on
//! feasibility.
//!
//! **What makes it tight.** Alone it is weak: any large constant lets the relaxation forget a time.
//!
//! - *Heads and tails* ([`reach`]). Along a path operators' times add up, whatever shares a call. With
//!   before_v and after_v the longest paths into and out of v at the fastest seats, ready_v ≥ before_v + Σ_s
//!   p_vs x_vs. That T ≥ ready_v + after_v is wrong in a call, which is done all at once; but if v is on a
//!   host, or v is in a call and a successor w is not, then all of w's path is behind ready_v: T ≥ ready_v +
//!   after_v h_v, and T ≥ ready_u + (p_w + after_w) (h_w + Σ_j e_uwj). Neither has a large constant.
//! - *Exclusion*. A seat at which before_v + p_vs + after_v > H is no seat of v.
//! - *Paths*. Let c_v be all that v adds to the time of its seat by itself: its own time, the outputs that
//!   leave its call, and those inputs that enter it, where a tensor counts for the first of its consumers
//!   alone, so that no path counts it twice. A path meets a call in one interval, the call takes at least Σ
//!   c_v over that interval, and what comes later on the path starts later; so π_v ≥ π_u + c_v and ready_v ≥
//!   π_v, which makes T at least the length of every path.
//! - *Order of names*. Calls and hosts of a plan are acyclic, so the devices of a pool can be named in an
//!   order in which their first calls can be made. Then no operator of a first call comes after one of a call
//!   named later. The relaxation has this, and convexity, as after_vj ≥ x_uj − x_vj, ≥ Σ_{later i} x_ui and ≥
//!   after_uj along edges, and x_vj + after_vj ≤ 1.
//! - *Pairs of calls*. A binary r_ij, 1 if an operator of j waits for one of i: start_j ≥ finish_i − H (1 −
//!   r_ij). Branching on it settles a large constant for all operators at once.
//!
//! A neighbourhood ([`scope`]) has the same rows for a few blocks and calls; the rest of the plan is
//! constants.

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
