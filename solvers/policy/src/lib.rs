//! A graph neural network that steers the search on graphs too large for the exact methods.
//!
//! The network never has the last word: what it proposes is decoded by exact methods, improved by local search, and
//! scored by the cost model that every solver shares.
//!
//! 1. [`rows`] is the one sparse operation of the network, the segment sum, on a processor and on a GPU.

pub mod rows;
