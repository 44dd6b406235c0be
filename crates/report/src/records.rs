//! Tables as comma-separated values.

/// Returns rows of cells as comma-separated values, after a header with the names of the columns.
///
/// # Errors
/// If the writer fails, or a row has another number of cells than the header.
pub fn csv(
    columns: &[&str],
    rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>,
) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns)?;
    for row in rows {
        writer.write_record(row.into_iter().collect::<Vec<String>>())?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
