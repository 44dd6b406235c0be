//! Seconds of a transfer among devices of one class.
//!
//! Between measured sizes, the logarithm of the seconds is linear in the logarithm of the bytes, and between measured
//! numbers of devices in the logarithm of that number. Beyond them, the seconds follow from a latency and a bandwidth,
//! t = α + β · bytes, fitted by least squares of the relative error (Hockney 1994): α grows with the logarithm of the
//! number of devices, as in a tree, and β with the bytes that an optimal algorithm sends per device (Patarasuk and
//! Yuan, JPDC 2009).

use std::collections::BTreeMap;

use stagewright_core::document::{LinkDocument, TransferKind};

use crate::Source;

/// Measurements of a transfer, by number of devices.
#[derive(Debug)]
pub(crate) struct LinkTable {
    transfer: TransferKind,
    sizes: BTreeMap<u32, Curve>,
}

/// Measurements with one number of devices.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    /// Bytes and seconds, in the order of the bytes.
    pub(crate) rows: Vec<[f64; 2]>,
    latency: f64,
    seconds_per_byte: f64,
}

/// Rows in the order of their bytes, with the median of the seconds of equal bytes.
pub(crate) fn medians(mut rows: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    rows.sort_by(|left, right| left[0].total_cmp(&right[0]).then(left[1].total_cmp(&right[1])));
    rows.chunk_by(|left, right| left[0] == right[0])
        .map(|same| {
            let middle = same.len() / 2;
            let seconds = match same.len() % 2 {
                0 => same[middle - 1][1] / 2.0 + same[middle][1] / 2.0,
                _ => same[middle][1],
            };
            [same[0][0], seconds]
        })
        .collect()
}

/// Latency and bandwidth of the line through measured transfers, rows of bytes and seconds, by least squares of the
/// relative error. `None` without rows, and for bytes or seconds that are not positive and finite. O(n log n).
pub fn fitted_link(rows: &[[f64; 2]]) -> Option<LinkDocument> {
    let is_valid = rows.iter().flatten().all(|value| *value > 0.0 && value.is_finite());
    (is_valid && !rows.is_empty()).then(|| Curve::new(rows.to_vec()).link())
}

impl LinkTable {
    /// A table of rows by number of devices; numbers of devices without rows are left out.
    pub(crate) fn new(transfer: TransferKind, rows: BTreeMap<u32, Vec<[f64; 2]>>) -> LinkTable {
        let curves = rows.into_iter().filter(|(_, rows)| !rows.is_empty());
        LinkTable { transfer, sizes: curves.map(|(devices, rows)| (devices, Curve::new(rows))).collect() }
    }

    pub(crate) fn sizes(&self) -> &BTreeMap<u32, Curve> {
        &self.sizes
    }

    /// The table without the measurements with `devices` devices.
    pub(crate) fn without(&self, devices: u32) -> LinkTable {
        let mut sizes = self.sizes.clone();
        sizes.remove(&devices);
        LinkTable { transfer: self.transfer, sizes }
    }

    /// Seconds of a transfer; `None` without measurements, or for numbers out of range.
    pub(crate) fn seconds(&self, devices: u32, bytes: f64) -> Option<(f64, Source)> {
        if devices < 2 || !bytes.is_finite() || bytes < 0.0 {
            return None;
        }
        if let Some(curve) = self.sizes.get(&devices) {
            return Some(curve.seconds(bytes));
        }
        let below = self.sizes.range(..devices).next_back();
        let above = self.sizes.range(devices..).next();
        if let (Some((&fewer, below)), Some((&more, above))) = (below, above) {
            let [low, middle, high] = [fewer, devices, more].map(|devices| f64::from(devices).ln());
            let share = (middle - low) / (high - low);
            let (short, of_short) = below.seconds(bytes);
            let (long, of_long) = above.seconds(bytes);
            let seconds = (short.ln() * (1.0 - share) + long.ln() * share).exp();
            return Some((seconds, of_short.max(of_long).max(Source::Interpolated)));
        }
        let (&measured, curve) = below.or(above)?;
        let (seconds, _) = curve.seconds(bytes);
        let latency = curve.latency.min(seconds);
        let hops = f64::from(devices).ln() / f64::from(measured).ln();
        let traffic = self.traffic(devices) / self.traffic(measured);
        Some((latency * hops + (seconds - latency) * traffic, Source::Fitted))
    }

    /// Latency and bandwidth among the fewest measured devices; `None` without measurements.
    pub(crate) fn link(&self) -> Option<LinkDocument> {
        self.sizes.values().next().map(Curve::link)
    }

    /// Bytes that a device sends, per byte of the tensor.
    fn traffic(&self, devices: u32) -> f64 {
        let others = 1.0 - 1.0 / f64::from(devices);
        match self.transfer {
            TransferKind::AllReduce => 2.0 * others,
            TransferKind::AllGather | TransferKind::ReduceScatter | TransferKind::AllToAll => others,
            TransferKind::Send | TransferKind::Broadcast => 1.0,
        }
    }
}

impl Curve {
    fn new(rows: Vec<[f64; 2]>) -> Curve {
        let rows = medians(rows);
        // Sums of x², x·y and y² with x = 1 / t and y = bytes / t: minimises Σ (α·x + β·y − 1)².
        let (mut xx, mut xy, mut yy, mut x1, mut y1) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &[bytes, seconds] in &rows {
            let (x, y) = (1.0 / seconds, bytes / seconds);
            xx += x * x;
            xy += x * y;
            yy += y * y;
            x1 += x;
            y1 += y;
        }
        let determinant = xx * yy - xy * xy;
        let [mut latency, mut seconds_per_byte] =
            [(x1 * yy - y1 * xy) / determinant, (y1 * xx - x1 * xy) / determinant];
        if !(latency.is_finite() && latency >= 0.0 && rows.len() > 1) {
            latency = 0.0;
            seconds_per_byte = y1 / yy;
        }
        if !(seconds_per_byte.is_finite() && seconds_per_byte > 0.0) {
            latency = x1 / xx;
            // All sizes take equally long: the largest size bounds the seconds per byte.
            seconds_per_byte = rows.last().map_or(f64::MIN_POSITIVE, |row| 1e-6 * row[1] / row[0]);
        }
        Curve { rows, latency, seconds_per_byte }
    }

    pub(crate) fn seconds(&self, bytes: f64) -> (f64, Source) {
        let index = self.rows.partition_point(|row| row[0] < bytes);
        let Some(&[upper, long]) = self.rows.get(index) else {
            let [largest, seconds] = self.rows[index - 1];
            return (seconds + (bytes - largest) * self.seconds_per_byte, Source::Fitted);
        };
        if upper == bytes {
            return (long, Source::Measured);
        }
        if index == 0 {
            // At most as long as the smallest measured transfer, and at least half as long: without a latency, the fit
            // would be far too low.
            let shorter = self.latency + bytes * self.seconds_per_byte;
            return (shorter.min(long).max(long / 2.0), Source::Fitted);
        }
        let [lower, short] = self.rows[index - 1];
        let share = (bytes / lower).ln() / (upper / lower).ln();
        ((short.ln() * (1.0 - share) + long.ln() * share).exp(), Source::Interpolated)
    }

    fn link(&self) -> LinkDocument {
        LinkDocument { latency_s: self.latency, bandwidth: 1.0 / self.seconds_per_byte }
    }

    /// The curve without a row; `None` if no row remains.
    pub(crate) fn without(&self, index: usize) -> Option<Curve> {
        let mut rows = self.rows.clone();
        rows.remove(index);
        (!rows.is_empty()).then(|| Curve::new(rows))
    }

    /// Seconds by the fitted latency and bandwidth alone.
    pub(crate) fn fitted(&self, bytes: f64) -> f64 {
        self.latency + bytes * self.seconds_per_byte
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(rows: &[(u32, &[[f64; 2]])]) -> LinkTable {
        let rows = rows.iter().map(|&(devices, rows)| (devices, rows.to_vec())).collect();
        LinkTable::new(TransferKind::AllReduce, rows)
    }

    fn line(bytes: f64) -> [f64; 2] {
        [bytes, 1e-5 + bytes / 1e11]
    }

    #[test]
    fn measured_bytes_are_exact_and_bytes_between_them_lie_between() {
        let table = table(&[(2, &[[1e3, 1e-5], [1e5, 1e-4]])]);
        assert_eq!(table.seconds(2, 1e3), Some((1e-5, Source::Measured)));
        let (seconds, source) = table.seconds(2, 1e4).unwrap();
        assert!((seconds / 10f64.powf(-4.5) - 1.0).abs() < 1e-9 && source == Source::Interpolated);
    }

    #[test]
    fn latency_and_bandwidth_of_a_line_are_found_and_used_beyond_it() {
        let rows: Vec<[f64; 2]> = (0..20).map(|i| line(100.0 * 4f64.powi(i))).collect();
        let table = table(&[(2, &rows)]);
        let LinkDocument { latency_s, bandwidth } = table.link().unwrap();
        assert!((latency_s / 1e-5 - 1.0).abs() < 1e-6 && (bandwidth / 1e11 - 1.0).abs() < 1e-6);
        let (seconds, source) = table.seconds(2, 1e16).unwrap();
        assert!((seconds / 1e5 - 1.0).abs() < 1e-3 && source == Source::Fitted);
        assert!((table.seconds(2, 0.0).unwrap().0 / 1e-5 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_link_is_fitted_to_rows_and_not_to_none() {
        let rows: Vec<[f64; 2]> = [1e2, 1e4, 1e6].map(line).to_vec();
        let LinkDocument { latency_s, bandwidth } = fitted_link(&rows).unwrap();
        assert!((latency_s / 1e-5 - 1.0).abs() < 1e-6 && (bandwidth / 1e11 - 1.0).abs() < 1e-6);
        let wrong: [&[[f64; 2]]; 4] = [&[], &[[0.0, 1e-5]], &[[1e3, 0.0]], &[[1e3, f64::NAN]]];
        for rows in wrong {
            assert_eq!(fitted_link(rows), None, "{rows:?}");
        }
    }

    #[test]
    fn numbers_of_devices_between_measured_ones_are_interpolated_and_others_follow_the_traffic() {
        let table = table(&[(2, &[[1e9, 1.0], [2e9, 2.0]]), (8, &[[1e9, 4.0], [2e9, 8.0]])]);
        assert_eq!(table.seconds(4, 1e9).unwrap().1, Source::Interpolated);
        assert!((table.seconds(4, 1e9).unwrap().0 - 2.0).abs() < 1e-9);
        let (seconds, source) = table.seconds(1000, 1e9).unwrap();
        assert!(source == Source::Fitted && seconds > 4.0 && seconds < 8.0, "{seconds}");
        assert_eq!(table.seconds(1, 1e9), None);
        assert_eq!(table.seconds(4, f64::NAN), None);
    }

    proptest! {
        #[test]
        fn seconds_are_finite_and_positive(
            rows in prop::collection::vec((1.0..1e15_f64, 1e-12..1e15_f64), 1..20),
            devices in 2_u32..u32::MAX,
            bytes in 0.0..1e15_f64,
        ) {
            let rows: Vec<[f64; 2]> = rows.into_iter().map(|(bytes, seconds)| [bytes, seconds]).collect();
            for size in [bytes, rows[0][0], 0.0] {
                let (seconds, _) = table(&[(8, &rows)]).seconds(devices, size).unwrap();
                prop_assert!(seconds.is_finite() && seconds > 0.0, "{seconds}");
            }
        }
    }
}
