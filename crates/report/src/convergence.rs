//! Convergence of a solve: the best value and the best bound over time.

use std::fmt::Write;

use stagewright_core::tolerance;

/// Improvements of value and bound during a solve, in order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Convergence {
    values: Vec<Moment>,
    bounds: Vec<Moment>,
    /// Number of simulations so far, if the solver counts them.
    simulations: Option<u64>,
}

/// An improvement of the value or of the bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Seconds since the start of the solve.
    pub elapsed: f64,
    /// Number of simulations until then, if the solver counts them.
    pub simulations: Option<u64>,
    /// New value or bound, in seconds.
    pub reached: f64,
}

impl Convergence {
    /// Records the value of a placement if it is the best so far.
    ///
    /// ```
    /// use stagewright_report::convergence::Convergence;
    /// let mut convergence = Convergence::default();
    /// for (elapsed, value) in [(0.1, 4.0), (0.2, 5.0), (0.3, 3.0)] {
    ///     convergence.value(elapsed, value);
    /// }
    /// assert_eq!(convergence.values().len(), 2);
    /// ```
    pub fn value(&mut self, elapsed: f64, value: f64) {
        if value.is_finite() && self.values.last().is_none_or(|best| value < best.reached) {
            self.values.push(self.moment(elapsed, value));
        }
    }

    /// Records a proved bound if it is the best so far.
    pub fn bound(&mut self, elapsed: f64, bound: f64) {
        if bound.is_finite() && self.bounds.last().is_none_or(|best| bound > best.reached) {
            self.bounds.push(self.moment(elapsed, bound));
        }
    }

    /// Appends the value and the bound of the solver's answer, which came after `seconds`, unless they equal the last ones
    /// recorded.
    #[must_use]
    pub fn with_answer(mut self, value: Option<f64>, bound: Option<f64>, seconds: f64) -> Convergence {
        // The number of simulations that led to the answer is unknown.
        self.simulations = None;
        let is_told = |moments: &[Moment], reached| {
            moments.last().is_some_and(|last| tolerance::same(last.reached, reached))
        };
        if let Some(value) = value.filter(|&value| !is_told(&self.values, value)) {
            self.value(seconds, value);
        }
        if let Some(bound) = bound.filter(|&bound| !is_told(&self.bounds, bound)) {
            self.bound(seconds, bound);
        }
        self
    }

    /// Sets the number of simulations so far, to which later improvements are attributed.
    pub fn simulations(&mut self, done: u64) {
        self.simulations = Some(done);
    }

    fn moment(&self, elapsed: f64, reached: f64) -> Moment {
        Moment { elapsed, simulations: self.simulations, reached }
    }

    /// Recorded values, strictly decreasing.
    pub fn values(&self) -> &[Moment] {
        &self.values
    }

    /// Recorded bounds, strictly increasing.
    pub fn bounds(&self) -> &[Moment] {
        &self.bounds
    }

    /// Returns all improvements in order of time as CSV: elapsed seconds, number of simulations, and the value or the
    /// bound in seconds.
    ///
    /// ```
    /// use stagewright_report::convergence::Convergence;
    /// let mut convergence = Convergence::default();
    /// convergence.bound(0.1, 2.0);
    /// convergence.simulations(8);
    /// convergence.value(0.25, 4.0);
    /// assert_eq!(convergence.csv(), "elapsed_s,simulations,value_s,bound_s\n0.1,,,2\n0.25,8,4,\n");
    /// ```
    pub fn csv(&self) -> String {
        let mut moments: Vec<(&Moment, bool)> = self.values.iter().map(|moment| (moment, true)).collect();
        moments.extend(self.bounds.iter().map(|moment| (moment, false)));
        moments.sort_by(|(left, _), (right, _)| left.elapsed.total_cmp(&right.elapsed));
        let mut text = String::from("elapsed_s,simulations,value_s,bound_s\n");
        for (moment, is_value) in moments {
            let simulations = moment.simulations.map(|count| count.to_string()).unwrap_or_default();
            let (elapsed, reached) = (moment.elapsed, moment.reached);
            // Writing to a string cannot fail.
            let _ = match is_value {
                true => writeln!(text, "{elapsed},{simulations},{reached},"),
                false => writeln!(text, "{elapsed},{simulations},,{reached}"),
            };
        }
        text
    }
}
