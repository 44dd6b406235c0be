//! A simulation of requests, event by event, to compare with the formulas and for what they leave out.
//!
//! A router sends each request to the replica with the fewest requests for its rate in the plan, so that requests stay equally
//! long everywhere, and closed loops do not drift as they would under round robin. Replicas admit requests as far as the batch
//! and the memory of a rank allow; a sequence reserves memory for all its tokens. In every step all sequences of a microbatch
//! decode, and prompts are read beside them, up to `chunk` tokens from the head of the queue. A pipeline of p stages has p
//! microbatches that go through the stages in turn. Ranks take their steps together, each as long as if all had the tokens of
//! the slowest. Caches of prompts go over links, of which every rank has one, to replicas that decode.
//!
//! Constants of engines outside of steps are those of the formulas of [`aggregated`](mod@crate::aggregated) and
//! [`disaggregated`](mod@crate::disaggregated):
//!
//! - `wait_s` passes before a prompt is queued, and a sequence holds its memory in it.
//! - `wait_steps` counts what the simulation makes a request wait for anyway: half a step if a stage was busy when its prompt came
//!   to the queue, and each step in which its prompt was read beside decoding. For the rest, the sequence takes part in further
//!   steps before its first token. With prompts apart, all but the last of these steps pass before the request asks for a
//!   place in the batch that decodes.
//! - Prompts lengthen steps of decoding by `prompt_share` of their time, and end the rest of it later.
//! - Steps of replicas that only decode take `decode_share`. `handoff_s` follows the transfer. The first token is that of the
//!   replica which decodes, as for the formulas.
//! - `burst` is none: the simulation has the bursts themselves.
//!
//! Left out are preemption, limits on memory of replicas for prompts, and prefixes other than the shared one of the class.
//!
//! Sources: continuous batching is that of Orca (Yu et al. 2022), chunked prefill that of Sarathi-Serve (Agrawal et al. 2024),
//! prompts apart from decoding that of `DistServe` (Zhong et al. 2024).

mod arrivals;
mod batch;
mod calendar;
mod distribution;
mod fleet;
mod level;
mod machine;
mod microbatch;
mod outcome;
mod pace;
mod ranks;
mod router;
mod run;
mod server;
mod single;
mod steps;
mod world;

pub use arrivals::{Arrivals, MOST_REQUESTS, TracedRequest};
pub use distribution::Summary;
pub use fleet::{Fleet, Group, MOST_BATCHES, Traffic};
pub use outcome::{ClassOutcome, GroupOutcome, Outcome};
pub use run::{Settings, simulate};
pub use single::{Waits, exponential, single_server};
