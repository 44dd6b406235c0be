//! Column generation for free splits: exact pricing of the sets that one device can hold.
//!
//! Fix a threshold T. A *column* of a pool is a set of units that one device of the pool can hold with a load of at
//! most T. A free split of value T covers every unit with columns, at most n_c of pool c. For any prices π ≥ 0 on the
//! units, let β_c be an upper bound on the price π(S) of every column S of pool c. Then
//!
//! ```text
//! Σ_u π_u > Σ_c n_c β_c   implies   no free split has a value of T or less:
//! ```
//!
//! the sets of a split cover each unit exactly once, so their prices add up to Σ π, and no device of pool c holds more
//! than β_c. If a stage may take several devices, β_c bounds the price of a column per device that it takes. The prices
//! come from the linear relaxation of the cover ([`master`]), and β from a dynamic program over an order of the units
//! ([`pricing`] on [`states`]); [`generation`] alternates between the two until the threshold is decided.
//!
//! If the relaxation has a cover but no split exists, [`tree`] branches: its nodes have [`rules`] that restrict the
//! columns, [`branch`] chooses the next rules, and [`node`] relaxes the partition under them. [`dive`] descends
//! straight to a plan.
//!
//! Literature: Gilmore and Gomory, "A linear programming approach to the cutting-stock problem" (Operations
//! Research, 1961); Lübbecke and Desrosiers, "Selected topics in column generation" (Operations Research,
//! 2005); Pessoa, Sadykov, Uchoa and Vanderbeck on smoothing ("Automation and combination of
//! linear-programming based stabilization techniques in column generation", INFORMS Journal on Computing,
//! 2018).

pub mod ascent;
pub mod branch;
pub mod cuts;
pub mod dive;
pub mod generation;
pub mod kind;
pub mod master;
pub mod node;
pub mod order;
pub mod preparation;
pub mod pricing;
pub mod rules;
pub mod states;
pub mod tree;
