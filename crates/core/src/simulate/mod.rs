//! One step under dataflow execution: the discrete-event simulator behind the makespan.
//!
//! # The rules
//!
//! Every device runs one operator at a time and never interrupts it. An operator is *ready* when all its inputs are on
//! its device. Ready operators wait in a queue ordered by a given priority, otherwise by the time at which they became
//! ready, with ties broken by index. When an operator ends, its outputs are immediately available to readers on the
//! same device, and each output is sent once to each other device with readers. Each of these sends is a *transfer*,
//! requested when the operator ends.
//!
//! A transfer needs *ports*: the sender's for outgoing tensors, the receiver's for incoming ones, and the uplinks on
//! its route. Each port carries one transfer at a time and has a queue, ordered by the time of the request, then by
//! index (tensor, then destination). A transfer starts when it is first in the queues of all its ports and none of them
//! carries another transfer; it then holds all of them until it has arrived. So a transfer that is first at one port
//! and waits for another port blocks the transfers behind it at both. There is no deadlock: of all waiting transfers,
//! the one that is first in the common order of all queues is first in each of its own queues, and waits only for
//! running transfers.
//!
//! At one instant, everything that ends takes effect first. Then operators start, each the first in its queue, then
//! transfers, those of lower index first. They start one at a time, and an activity of zero duration ends before
//! anything else starts. So all operators that end at an instant have made their requests before any transfer starts,
//! unless a transfer of zero duration leads to them; and a ready operator does not wait for one of higher priority
//! whose last input arrives in zero time.
//!
//! The makespan is the time of the last event. If devices share trained parameters, gradient synchronisation follows:
//! every device synchronises its gradients one after another, and the step ends when the last device is done.
//!
//! # Memory
//!
//! Parameters and optimiser state are resident on their device; an operator's workspace is allocated while it runs. A
//! tensor occupies its producer's device from the producer's start, and each destination from the start of the transfer
//! to that destination. A device frees a tensor when the last reader on the device and the last transfer from the
//! device have ended, or, if there are neither, when the producer ends. Activations stashed for the backward pass are
//! the tensors that backward operators read, so they need no rule of their own. The peak of a device is the most that
//! it holds at any moment, in the order of events: what ends at an instant is freed before what starts is allocated,
//! and an operator of zero duration still holds all its inputs and outputs together.
//!
//! # Configurations
//!
//! The engine is independent of graphs and clusters. It runs a [`Flow`]: operators with their seconds, copies of
//! tensors with their readers, transfers with their seconds and ports. [`Flow::from_placement`] builds the flow of a
//! placement. Two published simulators are expressed as flows under other [`Rules`] for the order of events at one
//! instant: [`OutBus`] is Placeto's, [`ContentionFree`] is GiPH's. Both are reproduced down to the start time of every
//! operator.
//!
//! # Implementation
//!
//! An agenda holds the pending events, at most one per device and one per port: the next few sorted, the rest in a
//! heap. Ready operators wait in a queue per device, transfers in a queue per port; keys that arrive in order are in a
//! deque, the others in a heap. Indices and request numbers are packed into one word, so that ordering takes one
//! comparison. All tables are flat, and the [`Simulator`] keeps them between runs. Events allocate nothing, except that
//! heaps and queues grow to their maximum length. The data of an operator is one record, and a run prefetches its
//! tables, because it would otherwise spend as long waiting for memory as computing.
//!
//! A run can pause between two events and resume from the saved state. [`Rerun`] uses this for searches, whose
//! consecutive schedules differ little: it runs only the part that a change can affect.
//!
//! # Literature
//!
//! - Addanki, Bojja Venkatakrishnan, Gupta, Mao, Alizadeh, "Learning Generalizable Device Placement
//!   Algorithms for Distributed Machine Learning", NeurIPS 2019 (Placeto): the simulator with an outgoing
//!   bus.
//! - Hu et al., "GiPH: Generalizable Placement Learning for Adaptive Heterogeneous Computing", MLSys 2023: the
//!   simulator without contention.
//! - Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
//!   computing", IEEE TPDS 2002: HEFT, whose upward rank is the usual priority.

mod agenda;
mod batch;
mod builder;
mod clock;
mod contention_free;
mod engine;
mod error;
mod flow;
mod line;
mod out_bus;
mod ports;
mod prefetch;
mod queue;
mod rerun;
mod room;
mod rules;
mod snapshots;
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
pub use timeline::{Activity, Cause, CriticalStep, Span, Timeline};
