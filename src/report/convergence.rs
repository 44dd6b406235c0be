//! How value and bound came together while a solver worked.

/// The improvements of a solve, in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Convergence {
    values: Vec<Moment>,
    bounds: Vec<Moment>,
}

/// When something got better, and how good it was then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Seconds since the solve began.
    pub elapsed: f64,
    /// The value or the bound, in seconds.
    pub reached: f64,
}

impl Convergence {
    /// A placement was found. Kept if it is the best so far.
    ///
    /// ```
    /// use stagewright::report::convergence::Convergence;
    /// let mut convergence = Convergence::default();
    /// for (elapsed, value) in [(0.1, 4.0), (0.2, 5.0), (0.3, 3.0)] {
    ///     convergence.value(elapsed, value);
    /// }
    /// assert_eq!(convergence.values().len(), 2);
    /// ```
    pub fn value(&mut self, elapsed: f64, value: f64) {
        if value.is_finite() && self.values.last().is_none_or(|best| value < best.reached) {
            self.values.push(Moment { elapsed, reached: value });
        }
    }

    /// A bound was proved. Kept if it is the best so far.
    pub fn bound(&mut self, elapsed: f64, bound: f64) {
        if bound.is_finite() && self.bounds.last().is_none_or(|best| bound > best.reached) {
            self.bounds.push(Moment { elapsed, reached: bound });
        }
    }

    /// The values, each below the one before it.
    pub fn values(&self) -> &[Moment] {
        &self.values
    }

    /// The bounds, each above the one before it.
    pub fn bounds(&self) -> &[Moment] {
        &self.bounds
    }
}
