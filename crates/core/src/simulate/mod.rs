//! One step under dataflow execution: the discrete-event simulator behind the makespan.
//!
//! # The rules
//!
//! Every device runs one operator at a time and never interrupts it. An operator is *ready* when all its inputs
//! are on its device; ready operators wait in a queue ordered by a given priority, otherwise by the time they
//! became ready, ties by index. When an operator ends, its readers on the same device have its outputs
//! immediately, and each output is sent once to each other device with readers: that is a *transfer*, requested
//! now.
//!
//! A transfer needs *ports*: the sender's for outgoing tensors, the receiver's for incoming ones, and the
//! uplinks on its route. Each port carries one transfer at a time and has a queue, ordered by the time of the
//! request, then by index (tensor, then destination). A transfer starts when it is first in the queue of all
//! its ports and none of them carries another; it then holds all of them until it has arrived. So a transfer
//! that is first at one port and waits for another keeps both from those behind it. There is no deadlock: of
//! all waiting transfers, the one that is first in the common order of all queues is first in each of its own,
//! and waits only for running transfers.
//!
//! At one instant, everything that ends takes effect first. Then operators start, each the first of its queue,
//! then transfers, those of lower index first; but they start one by one, and an activity of zero duration
//! ends before anything else starts. So all operators that end at an instant have made their requests before
//! any transfer starts, unless a transfer of zero duration leads to them; and a ready operator does not wait
//! for a better one whose last input arrives in zero time.
//!
//! The makespan is the time of the last event. If devices share trained parameters, gradient synchronisation
//! follows: every device synchronises its own gradients one after the other, and the step ends when the last
//! device is done.
//!
//! # Memory
//!
//! Parameters and optimiser state are resident on their device; an operator's workspace is allocated while it
//! runs. A tensor occupies its producer's device from the producer's start, and each destination from the start
//! of the transfer there. It is freed on a device when the last reader there and the last transfer from there
//! have ended, or if it has neither, when its producer ends. Activations stashed for the backward pass are the
//! tensors that its operators read, so they need no rule of their own. The peak of a device is the most that it
//! holds at any moment, in the order of events: what ends at an instant is freed before what starts is
//! allocated, and an operator of zero duration still holds all its inputs and outputs together.
//!
//! # Configurations
//!
//! The engine is independent of graphs and clusters. It runs a [`Flow`]: operators with their seconds, copies
//! of tensors with their readers, transfers with their seconds and ports. [`Flow::from_placement`] builds the flow of a
//! placement. Two published simulators are other flows under other [`Rules`] for the order of events at one
//! instant: [`OutBus`] is Placeto's, [`ContentionFree`] is GiPH's. Both are reproduced down to the last start
//! time.
//!
//! # Implementation
//!
//! An agenda holds the pending events, one operator per device and one transfer per port: the next few sorted,
//! the rest in a heap. Ready operators wait in a queue per device, transfers in a queue per port; keys that
//! arrive in order are in a deque, the others in a heap. Indices and request numbers are packed into one word,
//! so that ordering is one comparison. All tables are flat and kept by the [`Simulator`] between runs. Events
//! allocate nothing, except that heaps and queues grow to their maximum length. The data of an operator is one
//! record, and a run prefetches its tables, because it would otherwise wait for memory as long as it computes.
//!
//! A run can pause between two events and resume from the saved state. A [`Rerun`] uses this for searches,
//! whose consecutive schedules differ little: it runs only the part that a change can affect.
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
