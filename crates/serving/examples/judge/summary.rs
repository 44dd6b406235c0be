//! Quantiles of errors.

/// Number of errors, median with sign, and median and 90th percentile without, in percent.
pub(crate) fn summary(errors: &[f64]) -> String {
    if errors.is_empty() {
        return "n 0".into();
    }
    let percent = |errors: Vec<f64>, share: f64| 100.0 * quantile(errors, share);
    let absolute = || errors.iter().map(|error| error.abs()).collect::<Vec<_>>();
    let (signed, median, high) =
        (percent(errors.to_vec(), 0.5), percent(absolute(), 0.5), percent(absolute(), 0.9));
    format!("n {}, signed {signed:+.1}%, median {median:.1}%, p90 {high:.1}%", errors.len())
}

/// A quantile, between neighbours in proportion; 0 of nothing.
pub(crate) fn quantile(mut errors: Vec<f64>, share: f64) -> f64 {
    errors.sort_by(f64::total_cmp);
    let position = share * errors.len().saturating_sub(1) as f64;
    let value = |index: f64| errors.get(index as usize).copied().unwrap_or(0.0);
    let (low, high) = (value(position.floor()), value(position.ceil()));
    low + (high - low) * position.fract()
}
