//! Times and memory of language models that engines such as vLLM, SGLang and TensorRT-LLM serve.
//!
//! A [`Model`] is the work of every layer of a structure. A [`Worker`] is a group of equal devices that holds some of the
//! layers: it gives the seconds of a step by closed forms, the bytes of weights and caches, and the largest batch that fits. A
//! [`Replica`] is one worker, or several as stages of a pipeline. [`aggregated()`] and [`disaggregated()`] estimate the time to
//! the first token (TTFT), the time between tokens (TPOT) and the rate of replicas under a load, and a [`Calibration`] corrects
//! them by measurements.
//!
//! ```
//! use stagewright_serving::{Device, Load, Model, Parallel, Replica, RequestClass, Worker, aggregated, engine};
//! use stagewright_structure::huggingface::{self, Reading};
//!
//! let config = br#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
//!     "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;
//! let structure = huggingface::read("config.json", config, None, &Reading::default())?;
//! let (model, device) = (Model::new("config.json", &structure)?, Device::named("--cluster", "h100")?);
//! let worker = Worker::new("--tp", &model, engine("--engine", "vllm")?, &device, Parallel::tensor(1))?;
//! // 16 GB of weights on 80 GiB leave room for some four hundred thousand tokens of 128 KiB.
//! assert!((300..500).contains(&worker.largest_batch(1024)));
//!
//! let (class, load) = (RequestClass::new(1024, 256), Load::steady(32.0));
//! let prediction = aggregated("--concurrency", &Replica::single(worker), &class, &load)?.ok_or("out of memory")?;
//! assert!(prediction.tpot > 5e-3 && prediction.tpot < 20e-3 && prediction.requests_per_s > 5.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | is |
//! | --- | --- |
//! | [`model`] | products, experts and mixers of every layer, by kinds of equal layers |
//! | [`Device`] | peaks, memory and links of a device of a cluster |
//! | [`Engine`] | constants of an engine, from `data/engines.toml` |
//! | [`Parallel`] | degrees of tensor, data and expert parallelism |
//! | [`Worker`] | seconds of a step, by layers, with or without tables of measured products; bytes |
//! | [`Replica`] | stages in a row |
//! | [`mod@aggregated`], [`mod@disaggregated`] | requests to TTFT, TPOT and rates |
//! | [`balance()`] | layers of the stages of a pipeline |
//! | [`fleet`] | the devices of a cluster, and what replicas of them offer within limits |
//! | [`check()`] | an independent check of a serving plan, and of the certificate of its bound |
//! | [`simulator`] | requests one by one through a fleet of replicas |
//! | [`mod@calibration`] | factors of a model, a system and an engine |
//! | [`mod@benchmark`] | results of benchmarks of running engines |
//!
//! `docs/serving-times.md` has the formulas with their errors; the example `judge` compares predictions with published
//! measurements and fits the constants.

pub mod aggregated;
mod balance;
pub mod benchmark;
pub mod calibration;
mod check;
mod device;
pub mod disaggregated;
mod engine;
pub mod fleet;
pub mod model;
mod parallel;
mod replica;
mod request;
pub mod simulator;
mod tail;
mod worker;

pub use aggregated::aggregated;
pub use balance::{Division, balance};
pub use benchmark::Benchmark;
pub use calibration::{Calibration, Factor};
pub use check::{Report, Verdict, Violation, check};
pub use device::{DEFAULT_LINK, Device};
pub use disaggregated::{Pools, disaggregated};
pub use engine::{Engine, MemoryOf, engine, engines};
pub use fleet::{Fleet, Offer, Problem, Terms};
pub use model::Model;
pub use parallel::Parallel;
pub use replica::Replica;
pub use request::{Load, MOST_TOKENS, Prediction, RequestClass};
pub use worker::{Speculation, Step, Worker};
