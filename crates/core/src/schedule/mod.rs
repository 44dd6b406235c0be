//! Pipeline schedules: the tasks of every device of a pipeline, for every microbatch, and the time that they take.
//!
//! # The rules
//!
//! An iteration trains on a batch of m microbatches. Stage i of p runs the forward pass F of each microbatch in
//! `forward` seconds and its backward pass B in `backward` seconds. If the backward pass is split, B computes only the
//! gradient of the inputs, and the gradient W of the weights takes another `weight` seconds at any later time. F of
//! stage i waits for F of stage i − 1, B of stage i for its own F and for B of stage i + 1, and W for its own B. A
//! device runs one task at a time, in an order fixed by the schedule. Under DualPipeV, a forward pass, the backward
//! pass of the other stage that runs beside it and the W of that pass send their results together, at their end.
//! Nothing else determines when a task starts, so the time of an iteration is the longest path through these
//! dependencies and orders.
//!
//! | schedule | tasks of a device in order | published |
//! | --- | --- | --- |
//! | GPipe | F of all microbatches, then B of all | Huang et al., NeurIPS 2019 |
//! | 1F1B | p − 1 − i times F, then F and B alternately, then B | PipeDream-flush: Narayanan et al., ICML 2021 |
//! | interleaved 1F1B | 1F1B over v stages per device, virtual stage k on device k mod p | Narayanan et al., SC 2021 |
//! | zero-bubble | F, B of p − 1 − i microbatches earlier, W of p − 1 earlier | ZB-H1: Qi et al., ICLR 2024 |
//! | zero-bubble-2p | F, B of 2 (p − 1 − i) microbatches earlier, W of 2 (p − 1) earlier | ZB-H2: Qi et al., ICLR 2024 |
//! | DualPipeV | stages i and 2 p − 1 − i on device i: F of one, then B and W of the other, alternately | DeepSeek-V3: Liu et al., 2024; cut in half: Qi et al., 2025 |
//!
//! Under zero-bubble-2p no iteration waits for another: a device begins the next one when it has updated its own
//! parameters, since the optimizer validates its steps afterwards. With s_i the start of the first pass of device i, e_i
//! the end of its last and u_i its update, all tasks may be repeated every max (e_i − s_i + u_i) seconds without a
//! device doing two things at once, and this is the time of an iteration.
//!
//! # The bubble
//!
//! The *bubble* is the idle share of the devices' time during an iteration: 1 − (total busy time) / (devices ·
//! iteration). For equal stages it is (p − 1) / (m + p − 1) under GPipe and 1F1B, (p − 1) / (v m + p − 1) under
//! interleaved 1F1B, and 0 under zero-bubble-2p if F, B and W take the same time and m ≥ 2 p − 1; under DualPipeV a
//! device is idle for 2 (p − 1) F if F, B and W take the same time. (The paper on interleaved 1F1B divides the idle
//! time by the busy time instead: (p − 1) / (v m).)
//!
//! # Two implementations
//!
//! [`iteration`] and [`chunked`] compute only the time, in O(stages · microbatches) or by a closed form, for use in
//! searches. [`Pipeline::run`] builds a [`Flow`](crate::simulate::Flow) of all tasks and runs it on the makespan
//! engine, which also gives the timeline, the critical path and the memory over time.

mod error;
mod iteration;
mod modulo;
mod order;
mod pipeline;

pub use error::ScheduleError;
pub use iteration::{StageTimes, bubble, chunked, iteration, updated};
pub(crate) use modulo::Modulo;
pub use order::{Task, Work, orders};
pub use pipeline::{Pipeline, Run, Stage};
