//! The report of a plan in a browser: what it shows, how it is used, and what it must never do.
//!
//! Needs Chromium; without one these tests say that they were skipped.

#![allow(clippy::print_stdout, reason = "a skipped test says so, and the large page tells its time")]

mod chromium;
mod hostile;
mod looks;
mod pages;
mod size;
mod usage;
