//! Free splits by integer programming on HiGHS: column generation over what one device can hold.

mod bnp;
pub mod colgen;

pub use bnp::Bnp;
