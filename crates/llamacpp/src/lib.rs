//! A language model under llama.cpp on one machine: where its tensors go, what memory that takes, and how fast it runs.
//!
//! A GGUF file has n blocks, and llama.cpp divides n + 1 *slots*, the last being the output, among the host and the
//! devices in their order. A command line says how: a [`Setting`] is what it says of placement and memory, and can be read
//! from the line and written as one. [`mod@place`] follows the rules by which llama.cpp puts every tensor of a
//! [`Structure`](stagewright_structure::Structure) somewhere, [`memory`] adds up the bytes on each device and in RAM, and
//! [`speed`] estimates seconds for a token and for a prompt.
//!
//! | module | is | checked against |
//! | --- | --- | --- |
//! | [`setting`] | options of the command line | itself, written and read back |
//! | [`mod@place`] | tensors to devices, exactly | `llama-fit-params` of llama.cpp 0c1e57098, 480 random models and settings |
//! | [`memory`] | bytes; weights and caches exactly, buffers bounded | the same, to its rounding of 1 MiB |
//! | [`speed`] | seconds, by a fitted formula | published measurements |
//! | [`constants`] | speeds of devices and of the host | published measurements |
//! | [`Machine`] | devices and RAM of a cluster | the built-in clusters |
//! | [`mod@bench`], [`calibrate()`] | speeds of one's own machine, by `llama-bench` | its outputs |
//!
//! Only `--split-mode layer` is followed, where a tensor is on one device. Options whose effect is not followed are
//! refused, never ignored.
//!
//! # The real tool as an oracle
//!
//! llama.cpp needs no GPU to say what it would place where. A build with `GGML_RPC=ON` has `ggml-rpc-server`, each of which
//! is a device, and `llama-fit-params`, which reads a header without weights:
//!
//! ```text
//! ggml-rpc-server -H 127.0.0.1 -p 50052 -t 1 &
//! ggml-rpc-server -H 127.0.0.1 -p 50053 -t 1 &
//! llama-fit-params -m MODEL.gguf --rpc 127.0.0.1:50052,127.0.0.1:50053 --no-repack -np 1 -fitp on SETTING
//! ```
//!
//! prints a line for each device and one for the host: name, and MiB of weights, cache and compute buffers. The setting has
//! devices named `RPC0` and `RPC1`, whose buffer types are `RPC0[127.0.0.1:50052]` and `RPC0[127.0.0.1:50053]`, because each
//! server counts its own devices. `make test-runtimes` builds the tool and asks it about every case of the tests.

pub mod bench;
mod calibrate;
mod class;
pub mod constants;
mod device;
mod goal;
mod machine;
pub mod memory;
pub mod place;
pub mod setting;
pub mod speed;

pub use calibrate::{LARGEST_FACTOR, SMALLEST_PART, calibrate};
pub use class::Class;
pub use device::{Device, DeviceId, Host, Location};
pub use goal::Goal;
pub use machine::{Machine, SYSTEM_BYTES, server_address};
pub use place::{Placement, place};
pub use setting::{Override, Setting};
