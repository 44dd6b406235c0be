//! Checks of the delay matrix: square over all devices, figures in range.

use stagewright_core::document::{ClusterDocument, MatrixDocument};

use super::figure::amount;
use crate::error::CheckError;

/// Reads the matrix, if there is one. O(entries).
pub(super) fn read(document: &ClusterDocument) -> Result<Option<&MatrixDocument>, CheckError> {
    let Some(matrix) = &document.matrix else { return Ok(None) };
    let devices: u64 = document.kinds.iter().map(|kind| u64::from(kind.count)).sum();
    for (field, rows) in [("delay_s", &matrix.delay_s), ("seconds_per_byte", &matrix.seconds_per_byte)] {
        let is_square = rows.len() as u64 == devices && rows.iter().all(|row| row.len() as u64 == devices);
        if !is_square {
            return Err(CheckError::Matrix { field, devices });
        }
        for (from, row) in rows.iter().enumerate() {
            for (to, &figure) in row.iter().enumerate() {
                amount(figure, || format!("{field}[{from}][{to}] of the matrix"))?;
            }
        }
    }
    Ok(Some(matrix))
}
