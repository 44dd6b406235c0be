//! List schedulers and search against published figures and exhaustive search.

mod exact;
mod guidance;
mod published;
mod search;
