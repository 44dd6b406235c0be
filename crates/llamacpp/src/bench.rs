//! Output of `llama-bench`: the seconds that one's own machine takes.
//!
//! The tool of llama.cpp (`tools/llama-bench`, read at 0c1e57098) prints one test a row: JSON (`-o json`), a JSON object a line
//! (`-o jsonl`), CSV (`-o csv`) and, by default, a table in Markdown, which has the columns that differ from the defaults
//! alone. [`read`] finds out which of them a text is. Lines around a table, such as those of a log, are skipped.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;
use stagewright_formats::code::L;
use stagewright_formats::{At, InputError, Result};

/// A test of `llama-bench`.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Type of the model, such as `llama 8B Q4_K - Medium`.
    pub model: String,
    /// Bytes of all weights; a table in Markdown rounds them to three or four digits.
    pub size: f64,
    /// Number of weights, rounded in the same way.
    pub weights: f64,
    /// Backends of the build, such as `CUDA` or `Metal,BLAS`.
    pub backends: String,
    /// Devices in their order; empty if the tool chose all.
    pub devices: Vec<String>,
    /// Slots on devices, counted from the output; all if `None`.
    pub layers: Option<u64>,
    /// Layers, from the first, whose experts are on the host.
    pub expert_layers: u64,
    /// Threads of the processor, if the row says so.
    pub threads: Option<u64>,
    /// Tokens of a logical batch.
    pub batch: u64,
    /// Tokens of a micro-batch.
    pub micro_batch: u64,
    /// Type of cached keys.
    pub keys: String,
    /// Type of cached values.
    pub values: String,
    /// Shares of slots by device; empty if the tool chose them.
    pub shares: Vec<f64>,
    /// Overrides of tensors, `PATTERN=BUFFER` divided by semicolons; empty if there are none.
    pub overrides: String,
    /// How a model is divided among devices: `layer`, `row`, `tensor` or `none`.
    pub split_mode: String,
    /// Whether caches are on the device of their layer.
    pub cache_on_devices: bool,
    /// Tokens of the prompt; 0 in a test of decoding.
    pub prompt: u64,
    /// Tokens that were generated; 0 in a test of prompts.
    pub generated: u64,
    /// Tokens that the sequence had before.
    pub depth: u64,
    /// Tokens a second.
    pub speed: f64,
}

/// Reads the tests of a text. `label` is its name in errors.
///
/// # Errors
/// If the text is in none of the four notations, has no test, or a value is malformed (L011).
///
/// ```
/// let table = "| model | size | params | backend | ngl | test | t/s |\n\
///              | --- | ---: | ---: | --- | --: | ---: | ---: |\n\
///              | llama 7B Q4_0 | 3.56 GiB | 6.74 B | CUDA | 99 | tg128 @ d512 | 130.20 ± 0.31 |\n";
/// let runs = stagewright_llamacpp::bench::read("bench.md", table.as_bytes())?;
/// assert_eq!((runs[0].generated, runs[0].depth, runs[0].speed), (128, 512, 130.2));
/// # Ok::<(), stagewright_formats::InputError>(())
/// ```
pub fn read(label: &str, bytes: &[u8]) -> Result<Vec<Run>> {
    let wrong = |message: &str| {
        InputError::new(L::L011, label, At::Whole, message, "give what `llama-bench -o json` prints")
    };
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("the text is not UTF-8"))?;
    let records = match text.trim_start().chars().next() {
        Some('[') => json(label, text)?,
        Some('{') => json_lines(label, text)?,
        _ if text.lines().any(|line| is_header(&cells(line))) => markdown(label, text)?,
        _ if text.lines().any(is_csv_header) => csv(label, text)?,
        _ => return Err(wrong("the text is no output of `llama-bench`")),
    };
    match records.is_empty() {
        true => Err(wrong("the output has no test")),
        false => records.iter().map(Record::run).collect(),
    }
}

/// Values of a test by the names of JSON and CSV.
struct Record<'a> {
    label: &'a str,
    place: At,
    values: BTreeMap<String, String>,
}

fn json<'a>(label: &'a str, text: &str) -> Result<Vec<Record<'a>>> {
    let values: Vec<Value> = serde_json::from_str(text).map_err(|error| malformed(label, 0, &error))?;
    let place = |index: usize| At::Path(format!("[{index}]"));
    values.into_iter().enumerate().map(|(index, value)| object(label, place(index), value)).collect()
}

fn json_lines<'a>(label: &'a str, text: &str) -> Result<Vec<Record<'a>>> {
    let lines = text.lines().zip(1_u32..).filter(|(line, _)| !line.trim().is_empty());
    let read = |(line, number): (&str, u32)| {
        let value = serde_json::from_str(line).map_err(|error| malformed(label, number - 1, &error))?;
        object(label, At::Line { line: number, column: 1 }, value)
    };
    lines.map(read).collect()
}

fn malformed(label: &str, lines_before: u32, error: &serde_json::Error) -> InputError {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let place =
        At::Line { line: lines_before.saturating_add(number(error.line())), column: number(error.column()) };
    let help = "give the whole output of `llama-bench -o json`, without lines of its log";
    InputError::new(L::L011, label, place, format!("malformed JSON: {error}"), help)
}

fn object(label: &str, place: At, value: Value) -> Result<Record<'_>> {
    let Value::Object(fields) = value else {
        let help = "give the output of `llama-bench -o json` as it is";
        return Err(InputError::new(L::L011, label, place, "a test is no object", help));
    };
    let text = |value: Value| match value {
        Value::String(text) => text,
        Value::Bool(value) => u8::from(value).to_string(),
        other => other.to_string(),
    };
    let values = fields.into_iter().map(|(name, value)| (name, text(value))).collect();
    Ok(Record { label, place, values })
}

fn is_csv_header(line: &str) -> bool {
    line.split(',').any(|name| name.trim().trim_matches('"') == "avg_ts")
}

fn csv<'a>(label: &'a str, text: &str) -> Result<Vec<Record<'a>>> {
    let before = text.lines().take_while(|line| !is_csv_header(line)).count();
    let start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
    let mut reader = csv::Reader::from_reader(&text.as_bytes()[start..]);
    let line = |position: Option<&csv::Position>| {
        let line = position.map_or(1, csv::Position::line).saturating_add(before as u64);
        At::Line { line: u32::try_from(line).unwrap_or(u32::MAX), column: 1 }
    };
    let wrong = |error: &csv::Error| {
        let help = "give what `llama-bench -o csv` prints, with its first line";
        InputError::new(L::L011, label, line(error.position()), format!("malformed CSV: {error}"), help)
    };
    let names = reader.headers().map_err(|error| wrong(&error))?.clone();
    let mut records = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| wrong(&error))?;
        let values = names.iter().zip(&row).map(|(name, value)| (name.into(), value.into())).collect();
        records.push(Record { label, place: line(row.position()), values });
    }
    Ok(records)
}

/// Cells of a line of a table; none if it is no line of one.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inner.map_or_else(Vec::new, |line| line.split('|').map(str::trim).collect())
}

fn is_header(cells: &[&str]) -> bool {
    cells.contains(&"test") && cells.contains(&"t/s")
}

/// Columns of Markdown, and their names in JSON. Others have the same name.
const COLUMNS: [(&str, &str); 12] = [
    ("model", "model_type"),
    ("size", "model_size"),
    ("params", "model_n_params"),
    ("backend", "backends"),
    ("ngl", "n_gpu_layers"),
    ("threads", "n_threads"),
    ("sm", "split_mode"),
    ("nkvo", "no_kv_offload"),
    ("dev", "devices"),
    ("ts", "tensor_split"),
    ("ot", "tensor_buft_overrides"),
    ("t/s", "avg_ts"),
];

fn markdown<'a>(label: &'a str, text: &str) -> Result<Vec<Record<'a>>> {
    let mut names: Vec<&str> = Vec::new();
    let mut records = Vec::new();
    for (line, number) in text.lines().zip(1_u32..) {
        let cells = cells(line);
        let is_rule = cells.iter().all(|cell| cell.chars().all(|symbol| "-: ".contains(symbol)));
        if is_header(&cells) {
            let full = |cell: &str| COLUMNS.iter().find(|(short, _)| *short == cell).map(|&(_, full)| full);
            names = cells.iter().map(|cell| full(cell).unwrap_or(cell)).collect();
        } else if !names.is_empty() && !is_rule {
            let place = At::Line { line: number, column: 1 };
            if cells.len() != names.len() {
                let message = format!("{} cells under {} columns", cells.len(), names.len());
                let help = "give `llama-bench -o json`, whose values may hold any sign";
                return Err(InputError::new(L::L011, label, place, message, help));
            }
            let values =
                names.iter().zip(&cells).map(|(name, cell)| ((*name).into(), (*cell).into())).collect();
            records.push(Record { label, place, values });
        }
    }
    Ok(records)
}

impl Record<'_> {
    fn wrong(&self, field: &str, message: &str) -> InputError {
        let place = match &self.place {
            At::Path(path) => At::Path(format!("{path}.{field}")),
            line => line.clone(),
        };
        let help = "give the output of `llama-bench` as it is";
        InputError::new(L::L011, self.label, place, format!("`{field}` {message}"), help)
    }

    fn text(&self, field: &str, default: &str) -> String {
        self.values.get(field).map_or(default, String::as_str).trim().into()
    }

    /// A value, or the default of the tool if the row has no such column.
    fn value<T: FromStr>(&self, field: &str, default: T) -> Result<T> {
        let Some(text) = self.values.get(field) else { return Ok(default) };
        text.trim().parse().map_err(|_| self.wrong(field, &format!("is no number of its kind: `{text}`")))
    }

    /// A number with a unit, as a table in Markdown rounds it, or without.
    fn scaled(&self, field: &str) -> Result<f64> {
        let text = self.values.get(field).ok_or_else(|| self.wrong(field, "is missing"))?;
        let (digits, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let scale = match unit.trim() {
            "" => Some(1.0),
            "MiB" => Some(f64::from(1 << 20)),
            "GiB" => Some(f64::from(1 << 30)),
            "M" => Some(1e6),
            "B" => Some(1e9),
            _ => None,
        };
        let number = digits.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let (Some(number), Some(scale)) = (number, scale) else {
            return Err(self.wrong(field, &format!("is no size: `{text}`")));
        };
        Ok(number * scale)
    }

    /// Tokens of the prompt, generated ones, and earlier ones.
    fn tokens(&self) -> Result<[u64; 3]> {
        let Some(test) = self.values.get("test") else {
            return Ok([self.value("n_prompt", 0)?, self.value("n_gen", 0)?, self.value("n_depth", 0)?]);
        };
        let mut tokens = [0; 3];
        let (kinds, depth) = test.split_once('@').unwrap_or((test, ""));
        let depth = (!depth.is_empty()).then_some(depth);
        for part in kinds.split('+').chain(depth) {
            let known = ["pp", "tg", "d"].iter().position(|kind| part.trim().starts_with(kind));
            let number = |kind: usize| part.trim().trim_start_matches(["pp", "tg", "d"][kind]).parse().ok();
            let (Some(kind), Some(number)) = (known, known.and_then(number)) else {
                return Err(self.wrong("test", &format!("is no test: `{test}`")));
            };
            tokens[kind] = number;
        }
        Ok(tokens)
    }

    fn run(&self) -> Result<Run> {
        let [prompt, generated, depth] = self.tokens()?;
        let speed = self.values.get("avg_ts").ok_or_else(|| self.wrong("avg_ts", "is missing"))?;
        let mean = speed.split('±').next().unwrap_or_default().trim();
        let speed = mean.parse::<f64>().ok().filter(|speed| speed.is_finite() && *speed > 0.0);
        let speed = speed.ok_or_else(|| self.wrong("avg_ts", &format!("is no speed: `{mean}`")))?;
        let list = |text: String, none: &str| match text.as_str() {
            "" => Vec::new(),
            text if text == none => Vec::new(),
            text => text.split('/').map(str::to_owned).collect(),
        };
        let shares = list(self.text("tensor_split", ""), "0.00").into_iter();
        let share = |share: String| share.parse().map_err(|_| self.wrong("tensor_split", "has no numbers"));
        let none = |text: String| if text == "none" { String::new() } else { text };
        Ok(Run {
            model: self.text("model_type", ""),
            size: self.scaled("model_size")?,
            weights: self.scaled("model_n_params")?,
            backends: self.text("backends", ""),
            devices: list(self.text("devices", ""), "auto"),
            layers: u64::try_from(self.value("n_gpu_layers", -1_i64)?).ok(),
            expert_layers: self.value("n_cpu_moe", 0)?,
            threads: self.values.get("n_threads").map(|_| self.value("n_threads", 0)).transpose()?,
            batch: self.value("n_batch", 2048)?,
            micro_batch: self.value("n_ubatch", 512)?,
            keys: self.text("type_k", "f16"),
            values: self.text("type_v", "f16"),
            shares: shares.map(share).collect::<Result<_>>()?,
            overrides: none(self.text("tensor_buft_overrides", "")),
            split_mode: self.text("split_mode", "layer"),
            cache_on_devices: self.value("no_kv_offload", 0_u8)? == 0,
            prompt,
            generated,
            depth,
            speed,
        })
    }
}
