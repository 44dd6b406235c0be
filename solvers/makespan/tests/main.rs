//! List schedulers and search against published figures and exhaustive search.

mod guidance;
mod published;
mod search;
