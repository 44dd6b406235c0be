//! One step under dataflow execution: the discrete-event simulator behind the makespan.
//!
//! # The rules
//!
//! Every device runs one operator at a time and never interrupts it. An operator is *ready* when all that it
//! reads is on its device; ready operators wait in a queue ordered by a given priority, else by the time they
//! became ready, ties by index. When an operator ends, those that read its outputs on the same device have
//! them at once, and each output goes once to each other device with readers of it: that is a *transfer*,
//! requested now.
//!
//! A transfer needs *ports*: its sender's for what leaves, its receiver's for what comes in, and the uplinks
//! on its way. Each port carries one transfer at a time and has a line, in which transfers stand by the time
//! of their request, then by index (tensor, then destination). A transfer starts when it is first in line at
//! all its ports and none of them carries another, and then holds them all until it has arrived. So a
//! transfer that is first in line at one port and waits for another keeps both from those behind it. Nothing
//! ever waits for itself: of all waiting transfers, the one that is first in the common order of all lines is
//! first in each of its own, and waits for running transfers alone.
//!
//! At one instant, all that ends takes effect first. Then operators start, each as the first of its queue,
//! then transfers, those of lower index first; but one by one, and whatever takes no time ends before
//! anything else starts. So all operators that end at a time have made their requests before any transfer
//! starts, unless a transfer that itself takes no time leads to them; and an operator that is ready does not
//! wait for a better one whose last input takes no time to come.
//!
//! The makespan is the time of the last event. Where devices share trained parameters, synchronising their gradients comes
//! after it: every device synchronises its own one after the other, and the step ends with the last of them.
//!
//! # Memory
//!
//! Parameters and optimiser state are always on their device, and an operator's workspace while it runs. A
//! tensor occupies its producer's device from the producer's start, and each destination from the start of
//! the transfer there; it is freed on a device when the last reader there and the last transfer from there
//! have ended, and where it has neither, when its producer ends. Activations stashed for the backward pass
//! are the tensors that its operators read, so they count by themselves. The peak of a device is the most
//! that it holds at any moment, in the order in which things happen: what ends at an instant is freed before
//! what starts takes its bytes, and an operator without duration still holds all it reads and makes at once.
//!
//! # Configurations
//!
//! The engine knows no graph and no cluster. It runs a [`Flow`]: operators with their seconds, copies of
//! tensors with their readers, transfers with their seconds and ports. [`Flow::of`] makes the flow of a
//! placement. Two published simulators are other flows under other [`Rules`] for what happens first at one
//! instant: [`OutBus`] is that of Placeto, [`ContentionFree`] that of GiPH. Both are reproduced to the last
//! start time.
//!
//! # How it runs
//!
//! An agenda holds the events to come, one operator a device and one transfer a port: the few next ones sorted,
//! the rest in a heap. Ready operators stand in a queue per device and transfers in one per port, in a line as
//! far as they come in order and else in a heap. Indices and request numbers are packed into one word, so that
//! an order is a comparison. All tables are flat and kept by the [`Simulator`] between runs; none grows with an
//! event, but heaps and queues to the longest that they ever are. What is read of an operator is one record,
//! and a run reads its tables a little ahead of itself, for it would else wait for memory as long as it works.
//!
//! A run can pause between two events, and go on from the state that it has paused in. A [`Rerun`] uses this
//! for searches, whose schedules differ little from one to the next: it runs only what a change can be felt
//! in.
//!
//! # Literature
//!
//! - Addanki, Bojja Venkatakrishnan, Gupta, Mao, Alizadeh, "Learning Generalizable Device Placement
//!   Algorithms for Distributed Machine Learning", NeurIPS 2019 (Placeto): the simulator with an outgoing
//!   bus.
//! - Hu et al., "GiPH: Generalizable Placement Learning for Adaptive Heterogeneous Computing", MLSys 2023:
//!   the one without contention.
//! - Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
//!   computing", IEEE TPDS 2002: HEFT, whose upward rank is the usual priority.

mod agenda;
mod ahead;
mod batch;
mod builder;
mod clock;
mod contention_free;
mod engine;
mod error;
mod film;
mod flow;
mod line;
mod out_bus;
mod ports;
mod queue;
mod rerun;
mod room;
mod rules;
mod state;
mod template;
mod timeline;

pub use batch::{Outcome, simulate_all};
pub use builder::FlowBuilder;
pub use contention_free::ContentionFree;
pub use engine::Simulator;
pub use error::FlowError;
pub use flow::{Flow, Operator};
pub use out_bus::OutBus;
pub use ports::{Fabric, Ports, Route};
pub use rerun::{Change, Rerun};
pub use rules::{Instant, Rules, Ties};
pub use template::Template;
pub use timeline::{Activity, Cause, Span, Step, Timeline};
