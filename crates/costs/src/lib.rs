//! Measured costs: import from tables, profiles and traces; look-up with interpolation; application to a model.
//!
//! Measurements are documents `stagewright.costs/1`. [`Costs`] looks kernels, operators and transfers up in them,
//! [`apply`] writes the results into a model and a cluster, and [`accuracy`](Costs::accuracy) estimates the error of
//! seconds that were not measured. [`training`] reads seconds of whole iterations from logs of training.

mod accuracy;
mod apply;
mod check;
pub mod code;
mod costs;
pub mod fit;
mod grid;
pub mod import;
mod links;
mod table;
mod tiles;
pub mod training;
mod unmeasured;

pub use accuracy::{Accuracy, AccuracyOptions, LinkAccuracy, Summary};
pub use apply::{Coverage, apply};
pub use costs::{Costs, Estimate, Source, TableSummary};
pub use links::fitted_link;
pub use unmeasured::Unmeasured;
