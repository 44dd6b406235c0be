//! Brute force against rows, servers and bounds.
