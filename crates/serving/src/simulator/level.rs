//! A number that changes, and its mean over time.

/// A number with its integral over time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    value: u64,
    area: f64,
    since: f64,
    start: f64,
}

impl Level {
    /// The number now.
    pub(super) fn value(&self) -> u64 {
        self.value
    }

    /// Sets the number from a time on.
    pub(super) fn set(&mut self, value: u64, now: f64) {
        self.area += self.value as f64 * (now - self.since);
        (self.value, self.since) = (value, now);
    }

    /// Forgets what was before a time.
    pub(super) fn restart(&mut self, now: f64) {
        *self = Level { value: self.value, area: 0.0, since: now, start: now };
    }

    /// Mean from the start to a time; 0 if no time has passed.
    pub(super) fn mean(&self, now: f64) -> f64 {
        let area = self.area + self.value as f64 * (now - self.since);
        if now > self.start { area / (now - self.start) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn the_mean_weighs_values_by_their_time() {
        let mut level = Level::default();
        level.set(4, 1.0);
        level.set(1, 2.0);
        assert_eq!(level.mean(4.0), 6.0 / 4.0);
        level.restart(4.0);
        assert_eq!((level.mean(4.0), level.mean(5.0)), (0.0, 1.0));
    }
}
