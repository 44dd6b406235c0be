//! The program and the library as their users meet them.

mod agreement;
mod browser;
mod certificates;
mod cli;
mod clusters;
mod compare;
mod demo;
mod expert;
mod explain;
mod export;
mod formats;
mod importers;
mod latency;
mod makespan;
mod malformed;
mod models;
mod readme;
mod reference;
mod regression;
mod reports;
mod schema;
mod simulate;
mod terminal;
mod train;
mod train_data;
mod workloads;
