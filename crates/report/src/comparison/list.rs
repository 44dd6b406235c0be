//! Comparisons as CSV: one line per model and contender, in SI units.

use super::Comparison;

/// Columns of the CSV file.
const HEADER: &str = "model,contender,status,breaks,split,value_s,bound_s,gap,seconds,memory_bytes,memory_share,\
                      communication_s,idle_share,speedup";

/// Returns comparisons as comma-separated values, with empty cells for missing values.
///
/// # Errors
/// If the CSV writer fails.
pub fn csv(comparisons: &[Comparison]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER.split(','))?;
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for comparison in comparisons {
        for row in &comparison.rows {
            writer.write_record([
                comparison.model.clone(),
                row.name.clone(),
                row.status.name().to_owned(),
                row.breaks.join(" "),
                row.split.map(|split| split.name().to_owned()).unwrap_or_default(),
                number(row.value_s),
                number(row.bound_s),
                number(row.gap),
                number(row.seconds),
                number(row.memory_bytes),
                number(row.memory_share),
                number(row.communication_s),
                number(row.idle_share),
                number(row.speedup),
            ])?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
