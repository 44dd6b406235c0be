//! Comparisons as CSV: one line per model and contender, in SI units.

use super::{Comparison, Row};
use crate::records;

/// Columns of the CSV file for placements.
const PLACEMENTS: &str = "model,contender,status,breaks,split,value_s,bound_s,gap,seconds,memory_bytes,memory_share,\
                          communication_s,idle_share,speedup,interval_s,runs,best_s,\
                          best_known_s,samples_per_s,tokens_per_s,reason";

/// Columns of the CSV file for joint plans.
const JOINT: &str = "plan,value_s,bound_s,stages,tp,dp,ep,zero,microbatch,schedule,chunks,model,status,breaks,gap,seconds,\
                     memory_bytes,memory_share,speedup,best_known_s,samples_per_s,tokens_per_s,reason,cp,exchange,shards,\
                     offload";

/// Returns comparisons of plans of one kind as comma-separated values, with empty cells for missing values. Rows of joint plans
/// keep the order in which they entered.
///
/// # Errors
/// If the CSV writer fails.
pub fn csv(comparisons: &[Comparison]) -> Result<String, csv::Error> {
    let mut rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    let is_joint = rows.any(|row| row.degrees.is_some());
    let columns: Vec<&str> = if is_joint { JOINT } else { PLACEMENTS }.split(',').collect();
    let rows = comparisons.iter().flat_map(|comparison| {
        let rows: Vec<_> =
            if is_joint { comparison.as_entered().collect() } else { comparison.rows.iter().collect() };
        rows.into_iter().map(move |row| (comparison, row))
    });
    let columns = &columns;
    records::csv(
        columns,
        rows.map(|(comparison, row)| columns.iter().map(move |column| cell(comparison, row, column))),
    )
}

/// The value of a row in a column, empty if there is none.
fn cell(comparison: &Comparison, row: &Row, column: &str) -> String {
    fn shown<T: ToString>(value: Option<T>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let degrees = row.degrees.as_ref();
    match column {
        "model" => comparison.model.clone(),
        "contender" | "plan" => row.name.clone(),
        "status" => row.status.name().to_owned(),
        "breaks" => row.breaks.join(" "),
        "split" => shown(row.split.map(|split| split.name())),
        "value_s" => shown(row.value_s),
        "bound_s" => shown(row.bound_s),
        "gap" => shown(row.gap),
        "seconds" => shown(row.seconds),
        "memory_bytes" => shown(row.memory_bytes),
        "memory_share" => shown(row.memory_share),
        "communication_s" => shown(row.communication_s),
        "idle_share" => shown(row.idle_share),
        "speedup" => shown(row.speedup),
        "interval_s" => shown(row.interval_s),
        "runs" => row.runs.len().to_string(),
        "best_s" => shown(row.best_s()),
        "best_known_s" => shown(comparison.best_known_s),
        "samples_per_s" => shown(row.throughput.as_ref().and_then(|rate| rate.samples_per_s)),
        "tokens_per_s" => shown(row.throughput.as_ref().and_then(|rate| rate.tokens_per_s)),
        "reason" => row.reason.clone().unwrap_or_default(),
        "stages" => shown(degrees.map(|degrees| degrees.stages).filter(|&stages| stages > 0)),
        "tp" => degrees
            .map(|degrees| degrees.tensor.iter().map(u32::to_string).collect::<Vec<_>>().join("/"))
            .unwrap_or_default(),
        "dp" => shown(degrees.and_then(|degrees| degrees.data)),
        "cp" => shown(degrees.and_then(|degrees| degrees.context)),
        "exchange" => shown(degrees.and_then(|degrees| degrees.exchange).map(|exchange| exchange.name())),
        "shards" => shown(degrees.and_then(|degrees| degrees.shards)),
        "offload" => shown(degrees.and_then(|degrees| degrees.offload)),
        "ep" => shown(degrees.and_then(|degrees| degrees.expert)),
        "zero" => shown(degrees.and_then(|degrees| degrees.zero)),
        "microbatch" => shown(degrees.and_then(|degrees| degrees.microbatch)),
        "schedule" => shown(degrees.and_then(|degrees| degrees.schedule).map(|schedule| schedule.name())),
        "chunks" => shown(degrees.and_then(|degrees| degrees.chunks)),
        _ => String::new(),
    }
}
