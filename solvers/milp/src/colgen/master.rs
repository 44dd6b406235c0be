//! The linear master problem: cover every unit with columns, within the available devices.
//!
//! ```text
//! min Σ_u a_u s_u     Σ_{columns S ∋ u} x_S + s_u ≥ 1   for every unit u              (price π_u ≥ 0)
//!                     Σ_{columns S of pool c} r_S x_S ≤ n_c   for every pool c         (price of a device)
//! ```
//!
//! with x, s ≥ 0, r_S the number of devices that a column takes and a_u the weight of leaving u uncovered.
//! The optimum is zero iff fractions of the columns cover everything. π_u ≤ a_u, so the weights bound the
//! prices.
//!
//! A split covers every unit exactly once. The master of a *partition* requires this: its rows are equations with a
//! surplus of equal weight, so −a_u ≤ π_u ≤ a_u. The partition is the tighter relaxation, because the load is not
//! monotone and a subset of a column need not fit; the prices of the cover converge sooner.
//!
//! No claim rests on the LP solver: its prices are only a proposal to [`super::pricing`].

use std::time::{Duration, Instant};

use highs::{ColProblem, HighsModelStatus, Model, Row, Sense};
use stagewright_core::contraction::UnitId;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;
use thiserror::Error;

/// Failure of the LP solver.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the LP solver returned {0}")]
pub struct LpError(pub String);

/// Required coverage of a unit by columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Columns cover the unit at least once.
    Cover,
    /// Columns cover the unit exactly once.
    Partition,
}

/// Solution of the master.
#[derive(Debug, Clone, PartialEq)]
pub struct Dual {
    /// Weight of the units that are uncovered or covered too often.
    pub uncovered: f64,
    /// Share of each column, in the order in which columns were added.
    pub shares: Vec<f64>,
    /// Price of each unit.
    pub units: Keyed<UnitId, f64>,
    /// Price of a device of each pool.
    pub devices: Vec<f64>,
}

/// The master over a growing set of columns.
pub struct Master {
    model: Option<Model>,
    /// Upper bound on the LP solver's clock, which keeps running across solves.
    spent: Duration,
    covers: Keyed<UnitId, Row>,
    pools: Vec<Row>,
    coverage: Coverage,
    /// Number of variables for slack and surplus, which precede the columns.
    slacks: usize,
}

impl Master {
    /// A master without columns: weights of the units, devices of each pool.
    ///
    /// # Errors
    /// If the LP solver rejects the problem.
    pub fn new(weights: &[f64], devices: &[u32], coverage: Coverage) -> Result<Master, LpError> {
        let mut problem = ColProblem::new();
        let row = |problem: &mut ColProblem| match coverage {
            Coverage::Cover => problem.add_row(1.0..),
            Coverage::Partition => problem.add_row(1.0..=1.0),
        };
        let covers: Keyed<UnitId, Row> = weights.iter().map(|_| row(&mut problem)).collect();
        let pools: Vec<Row> = devices.iter().map(|&count| problem.add_row(..=f64::from(count))).collect();
        for (&weight, &cover) in weights.iter().zip(covers.iter()) {
            problem.add_column(weight, 0.0.., [(cover, 1.0)]);
            if coverage == Coverage::Partition {
                problem.add_column(weight, 0.0.., [(cover, -1.0)]);
            }
        }
        let slacks = problem.num_cols();
        let mut model =
            problem.try_optimise(Sense::Minimise).map_err(|status| LpError(format!("{status:?}")))?;
        model.make_quiet();
        // Few columns are added between two solves, so the current basis is worth more than presolve.
        model.set_option("presolve", "off");
        // Adding columns keeps the basis feasible for the primal simplex.
        model.set_option("simplex_strategy", 4);
        model.set_option("threads", 1);
        model.set_option("parallel", "off");
        Ok(Master { model: Some(model), spent: Duration::ZERO, covers, pools, coverage, slacks })
    }

    /// Adds a column of some units that takes `replicas` devices of a pool.
    ///
    /// # Errors
    /// If the LP solver rejects the column.
    pub fn add(&mut self, units: &[UnitId], pool: usize, replicas: u32) -> Result<(), LpError> {
        let Some(model) = self.model.as_mut() else { return Ok(()) };
        let cover = units.iter().map(|&unit| (self.covers[unit], 1.0));
        let device = (self.pools[pool], f64::from(replicas));
        let added = model.try_add_column_with_integrality(0.0, 0.0.., cover.chain([device]), false);
        added.map(|_| ()).map_err(|status| LpError(format!("{status:?}")))
    }

    /// Solves from the last basis; `None` if time runs out.
    ///
    /// # Errors
    /// If the LP solver ends without an optimum.
    pub fn solve(&mut self, stop: &Stop) -> Result<Option<Dual>, LpError> {
        let mut model = self.model.take().ok_or_else(|| LpError("an error before".into()))?;
        if let Some(left) = stop.remaining() {
            model.set_option("time_limit", (self.spent + left).as_secs_f64());
        }
        let begin = Instant::now();
        let solved = model.try_solve().map_err(|status| LpError(format!("{status:?}")))?;
        self.spent += begin.elapsed();
        let status = solved.status();
        if status == HighsModelStatus::ReachedTimeLimit {
            return Ok(None);
        }
        if status != HighsModelStatus::Optimal {
            return Err(LpError(format!("{status:?}")));
        }
        let uncovered = solved.objective_value();
        let solution = solved.get_solution();
        let duals = solution.dual_rows();
        let least = if self.coverage == Coverage::Cover { 0.0 } else { f64::NEG_INFINITY };
        let dual = Dual {
            uncovered,
            shares: solution.columns()[self.slacks..].to_vec(),
            units: duals[..self.covers.len()].iter().map(|&price| price.max(least)).collect(),
            devices: duals[self.covers.len()..].iter().map(|&price| (-price).max(0.0)).collect(),
        };
        self.model = Some(solved.into());
        Ok(Some(dual))
    }
}
