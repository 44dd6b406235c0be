//! Columns of a Parquet file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use stagewright_formats::{At, InputError};

use crate::code::{Q004, Q005, Q006};

/// Bytes of the largest table that is read into memory.
const LARGEST_FILE: u64 = 1 << 30;

/// Rows of the largest table.
const MOST_ROWS: i64 = 50_000_000;

/// Start of the text that Git LFS leaves in place of a file that was not fetched.
const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// The requested columns of a table. A row without a value has a NaN or an empty text.
#[derive(Debug, Default)]
pub(super) struct Columns {
    rows: usize,
    numbers: BTreeMap<&'static str, Vec<f64>>,
    texts: BTreeMap<&'static str, Vec<String>>,
}

impl Columns {
    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Number in a row; NaN if the table lacks the column.
    pub(super) fn number(&self, column: &str, row: usize) -> f64 {
        self.numbers.get(column).map_or(f64::NAN, |values| values[row])
    }

    /// Text in a row; empty if the table lacks the column.
    pub(super) fn text(&self, column: &str, row: usize) -> &str {
        self.texts.get(column).map_or("", |values| values[row].as_str())
    }

    /// Whether the table has a column of numbers.
    pub(super) fn has(&self, column: &str) -> bool {
        self.numbers.contains_key(column)
    }
}

/// A column to read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Column {
    /// A number; the table must have it.
    Number(&'static str),
    /// A number that older tables lack.
    OptionalNumber(&'static str),
    /// A text; the table must have it.
    Text(&'static str),
    /// A text that older tables lack.
    OptionalText(&'static str),
}

/// Reads columns of a file. O(bytes).
///
/// # Errors
/// Q004 for a Git LFS pointer, Q005 for a file that cannot be read, Q006 for a missing column.
pub(super) fn read(path: &Path, columns: &[Column]) -> Result<Columns, InputError> {
    let label = path.display().to_string();
    let unreadable = |cause: String| {
        InputError::new(
            Q005,
            &label,
            At::Whole,
            format!("the table cannot be read: {cause}"),
            "install the package again: the file is incomplete or damaged",
        )
    };
    let size = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > LARGEST_FILE {
        return Err(unreadable(format!("{size} bytes are more than {LARGEST_FILE}")));
    }
    // A device file reports a size of 0 and may never end.
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(unreadable(format!("more than {LARGEST_FILE} bytes")));
    }
    if bytes.starts_with(LFS_POINTER) {
        return Err(InputError::new(
            Q004,
            &label,
            At::Whole,
            "the file is a Git LFS pointer, not a table",
            "run `git lfs pull` in the repository, or give the folder of the installed package",
        ));
    }
    // The Parquet reader panics on some damaged files; it holds nothing that outlives the call.
    let decoded = catch_unwind(AssertUnwindSafe(|| decode(bytes, columns)));
    decoded.unwrap_or(Err(Failure::Panic)).map_err(|error| match error {
        Failure::Panic => unreadable("it is damaged".into()),
        Failure::Parquet(error) => unreadable(error.to_string()),
        Failure::Rows(rows) => unreadable(format!("{rows} rows are more than {MOST_ROWS}")),
        Failure::Missing(column) => InputError::at_path(
            Q006,
            &label,
            column,
            format!("the table has no column `{column}`"),
            "give the folder of a version of aiconfigurator-core that this program reads, such as 0.12",
        ),
    })
}

enum Failure {
    Panic,
    Parquet(ParquetError),
    Rows(i64),
    Missing(&'static str),
}

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        Failure::Parquet(error)
    }
}

fn decode(bytes: Vec<u8>, columns: &[Column]) -> Result<Columns, Failure> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes))?;
    let rows = reader.metadata().file_metadata().num_rows();
    if !(0..=MOST_ROWS).contains(&rows) {
        return Err(Failure::Rows(rows));
    }
    let names: Vec<String> = reader
        .metadata()
        .file_metadata()
        .schema()
        .get_fields()
        .iter()
        .map(|field| field.name().to_owned())
        .collect();
    let mut table = Columns::default();
    let mut wanted = Vec::new();
    for &column in columns {
        let (Column::Number(name)
        | Column::OptionalNumber(name)
        | Column::Text(name)
        | Column::OptionalText(name)) = column;
        let Some(index) = names.iter().position(|own| own == name) else {
            match column {
                Column::Number(_) | Column::Text(_) => return Err(Failure::Missing(name)),
                Column::OptionalNumber(_) | Column::OptionalText(_) => continue,
            }
        };
        let is_number = matches!(column, Column::Number(_) | Column::OptionalNumber(_));
        match is_number {
            true => drop(table.numbers.insert(name, Vec::new())),
            false => drop(table.texts.insert(name, Vec::new())),
        }
        wanted.push((index, name, is_number));
    }
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let fields: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
        for &(index, name, is_number) in &wanted {
            let field = fields.get(index).copied().unwrap_or(&Field::Null);
            if is_number {
                if let Some(values) = table.numbers.get_mut(name) {
                    values.push(number(field));
                }
            } else if let Some(values) = table.texts.get_mut(name) {
                values.push(text(field));
            }
        }
        table.rows += 1;
    }
    Ok(table)
}

fn number(field: &Field) -> f64 {
    match *field {
        Field::Byte(value) => f64::from(value),
        Field::Short(value) => f64::from(value),
        Field::Int(value) => f64::from(value),
        Field::Long(value) => value as f64,
        Field::UByte(value) => f64::from(value),
        Field::UShort(value) => f64::from(value),
        Field::UInt(value) => f64::from(value),
        Field::ULong(value) => value as f64,
        Field::Float(value) => f64::from(value),
        Field::Double(value) => value,
        _ => f64::NAN,
    }
}

fn text(field: &Field) -> String {
    match field {
        Field::Str(value) => value.clone(),
        Field::Bytes(value) => value.as_utf8().unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}
