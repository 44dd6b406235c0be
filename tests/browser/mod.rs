//! The report of a plan in a browser: content, usage and security.
//!
//! Needs Chromium; without it, these tests print that they were skipped.

#![allow(clippy::print_stdout, reason = "a skipped test says so, and the large page tells its time")]

mod chromium;
mod hostile;
mod looks;
mod pages;
mod size;
mod usage;
