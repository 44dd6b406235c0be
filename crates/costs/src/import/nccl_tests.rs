//! Output of nccl-tests and rccl-tests: the tables that `all_reduce_perf` and its siblings print.
//!
//! ```text
//! # nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 …
//! #  Rank  0 Group  0 Pid  855 on host-0 device  0 [0xa4] NVIDIA A100-SXM4-80GB
//! #  Rank  1 Group  0 Pid  855 on host-0 device  1 [0xa9] NVIDIA A100-SXM4-80GB
//! #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
//! #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
//!      1048576        262144     float     sum      -1    30.12   34.81   34.81      0    29.95   35.01   35.01      0
//! ```
//!
//! Each row gives a size in bytes and mean times in microseconds, of which the out-of-place time is used. The size is
//! that of the whole tensor: the result of a concatenation, or the input of a divided sum. Rows of equal size with several types or
//! roots become one row with their median. `Rank` lines give the number of devices, their product name and their
//! servers; those of the first group count if the devices are in groups.
//!
//! The name of the program gives the transfer; versions since 2.17 print it, and logs of a launcher often contain it.
//! Without it, the ratio of the bandwidths of the largest row distinguishes most transfers, and options distinguish the
//! rest. `sendrecv_perf` measures the time in which each device sends to the next one and receives from the previous
//! one.
//!
//! Lines of other programs in between are skipped, as are the prefixes `[1,0]<stdout>:` of Open MPI. A file may have
//! several runs, one after the other.
//!
//! Source: `src/util.cu` and `doc/PERFORMANCE.md` of nccl-tests, and published output of versions up to 2.18.

use std::collections::BTreeSet;

use stagewright_core::document::{CostsDocument, TransferKind};
use stagewright_formats::{At, InputError, Result, text_of};

use super::Options;
use super::class::class;
use super::samples::{median, seconds};
use super::transfers::Transfers;
use crate::code::Q::*;

/// Programs and their transfers; `None` for those that a costs document has no table for.
const PROGRAMS: [(&str, Option<TransferKind>); 11] = [
    ("all_reduce_perf", Some(TransferKind::AllReduce)),
    ("all_gather_perf", Some(TransferKind::AllGather)),
    ("reduce_scatter_perf", Some(TransferKind::ReduceScatter)),
    ("alltoall_perf", Some(TransferKind::AllToAll)),
    ("broadcast_perf", Some(TransferKind::Broadcast)),
    ("sendrecv_perf", Some(TransferKind::Send)),
    ("alltoallv_perf", None),
    ("hypercube_perf", None),
    ("reduce_perf", None),
    ("gather_perf", None),
    ("scatter_perf", None),
];

/// Whether a text is output of nccl-tests: it has the head of a table.
pub(super) fn detect(text: &str) -> bool {
    text.lines().any(|line| Columns::of(without_prefix(line)).is_some())
}

/// Reads the output.
///
/// # Errors
/// If a row is incomplete or not a row of numbers (Q104, Q103), a result was wrong (Q111), there is no row (Q102),
/// the number of devices is unknown or 1 (Q105), or the transfer (Q106) or the device class (Q108) is unknown.
pub fn import(label: &str, bytes: &[u8], options: &Options) -> Result<CostsDocument> {
    let text = text_of(label, bytes)?;
    let mut costs = CostsDocument::new("");
    let mut run = Run::default();
    let mut has_rows = false;
    for (number, line) in text.lines().enumerate() {
        let content = without_prefix(line);
        let place = |column: usize| At::Line {
            line: u32::try_from(number + 1).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        };
        if let Some(program) = program(content) {
            // The end of a run names its program too, as does the command line before it.
            if !content.contains("concluded") {
                run.close(label, options, &mut costs)?;
                run = Run { program: Some(program), ..Run::default() };
            }
        }
        if content.starts_with("# nThread") && (run.columns.is_some() || !run.ranks.is_empty()) {
            run.close(label, options, &mut costs)?;
            run = Run::default();
        }
        if let Some(rank) = Rank::of(content) {
            run.ranks.push(rank);
        } else if let Some(columns) = Columns::of(content) {
            run.columns = Some(columns);
        } else if let Some(columns) = &run.columns
            && let Some(row) = columns.row(label, line, content, &place)?
        {
            has_rows = true;
            run.rows.push(row);
        }
    }
    run.close(label, options, &mut costs)?;
    if !has_rows {
        let message = "the table has no row";
        let help = "check that the test ran to its end; its rows begin with a size in bytes";
        return Err(InputError::new(Q102, label, At::Whole, message, help));
    }
    if costs.links.is_empty() {
        let message = "no row has a size and a time above 0";
        return Err(InputError::new(
            Q102,
            label,
            At::Whole,
            message,
            "measure larger sizes: -b 1M -e 1G -f 2",
        ));
    }
    Ok(costs)
}

/// A line without the prefix of Open MPI's `--tag-output`.
fn without_prefix(line: &str) -> &str {
    let content = line.trim_start();
    match content.strip_prefix('[').and_then(|rest| rest.split_once("]<stdout>:")) {
        Some((process, rest)) if process.len() < 24 => rest.trim_start(),
        _ => content,
    }
}

/// The program that a line names, as a word or at the end of a path, by its index in [`PROGRAMS`].
fn program(content: &str) -> Option<usize> {
    let mut words =
        content.split(|character: char| character.is_whitespace() || character == '/' || character == '"');
    words.find_map(|word| {
        let word = word.strip_suffix("_mpi").unwrap_or(word);
        PROGRAMS.iter().position(|(name, _)| *name == word)
    })
}

/// A device.
struct Rank {
    group: String,
    host: String,
    product: String,
}

impl Rank {
    /// `#  Rank  0 Group  0 Pid  855 on host device  0 [0xa4] NVIDIA A100`, of older versions without the group.
    fn of(content: &str) -> Option<Rank> {
        let rest = content.strip_prefix('#')?.trim_start().strip_prefix("Rank")?;
        let (head, rest) = rest.split_once(" on ")?;
        let (host, rest) = rest.trim_start().split_once(" device ")?;
        let mut words = head.split_whitespace().skip_while(|word| *word != "Group").skip(1);
        let group = words.next().unwrap_or_default().to_owned();
        let product = rest.split_once(']').map_or("", |(_, product)| product.trim());
        Some(Rank { group, host: host.trim().to_owned(), product: product.to_owned() })
    }
}

/// Positions of the columns of a table, counted in words.
struct Columns {
    count: usize,
    redop: Option<usize>,
    root: Option<usize>,
    time: usize,
    algbw: usize,
    busbw: usize,
    wrong: Option<usize>,
}

impl Columns {
    /// The head of a table: the line that names the columns.
    fn of(content: &str) -> Option<Columns> {
        let names: Vec<&str> = content.strip_prefix('#')?.split_whitespace().collect();
        let place = |name: &str| names.iter().position(|other| *other == name);
        if names.first() != Some(&"size") || names.get(1) != Some(&"count") {
            return None;
        }
        let time = place("time")?;
        Some(Columns {
            count: names.len(),
            redop: place("redop"),
            root: place("root"),
            time,
            algbw: place("algbw")?,
            busbw: place("busbw")?,
            // The old field `error`, a difference, may have any value.
            wrong: place("#wrong").or_else(|| place("wrong")),
        })
    }

    /// The row on a line; `None` if the line does not begin with a number.
    fn row(
        &self,
        label: &str,
        line: &str,
        content: &str,
        place: &dyn Fn(usize) -> At,
    ) -> Result<Option<Row>> {
        let words: Vec<&str> = content.split_whitespace().collect();
        let Some(bytes) = words.first().and_then(|word| word.parse::<u64>().ok()) else { return Ok(None) };
        let column = |word: &str| {
            let offset = (word.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
            place(1 + line.get(..offset).unwrap_or_default().chars().count())
        };
        let fault = |place: At, message: String| {
            let help = "a row has a size, a time and bandwidths in the columns that the head of the table names: check \
                        that the output is whole, and that no other program wrote into the line";
            InputError::new(Q104, label, place, message, help)
        };
        if words.len() < self.count {
            let message = format!("the row has {} columns, the table {}", words.len(), self.count);
            return Err(fault(place(1 + line.trim_end().chars().count()), message));
        }
        let number = |place: usize| {
            let word = words[place];
            let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| fault(column(word), format!("`{word}` is no number")))
        };
        let micros = number(self.time)?;
        let measured = seconds(label, String::new, micros).map_err(|mut error| {
            error.place.at = column(words[self.time]);
            error
        })?;
        if let Some(wrong) = self.wrong {
            let word = words[wrong];
            if word != "N/A" && number(wrong)? != 0.0 {
                let message = format!("the test found {word} wrong results of {bytes} bytes");
                let help = "a time of wrong results is no measurement: check the devices and their links, then measure again";
                return Err(InputError::new(Q111, label, column(word), message, help));
            }
        }
        Ok(Some(Row {
            bytes,
            seconds: measured,
            sums: self.redop.map(|place| words[place] != "none"),
            has_root: self.root.is_some_and(|place| words[place] != "-1"),
            algorithm: number(self.algbw)?,
            bus: number(self.busbw)?,
        }))
    }
}

/// A size and its time.
struct Row {
    bytes: u64,
    seconds: f64,
    /// Whether the operation adds up data, if the table says so.
    sums: Option<bool>,
    has_root: bool,
    algorithm: f64,
    bus: f64,
}

/// A run of a program.
#[derive(Default)]
struct Run {
    program: Option<usize>,
    ranks: Vec<Rank>,
    columns: Option<Columns>,
    rows: Vec<Row>,
}

impl Run {
    /// Adds the table of the run, if it has rows.
    fn close(&self, label: &str, options: &Options, costs: &mut CostsDocument) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let group = self.ranks.first().map_or("", |rank| rank.group.as_str());
        let ranks: Vec<&Rank> = self.ranks.iter().filter(|rank| rank.group == group).collect();
        let devices = match options.devices {
            Some(devices) if ranks.is_empty() => devices,
            _ => u32::try_from(ranks.len()).unwrap_or(u32::MAX),
        };
        if devices < 2 {
            let (message, help) = if ranks.is_empty() {
                (
                    "the output does not say how many devices took part",
                    "keep its lines `# Rank …`, or give --devices NUMBER",
                )
            } else {
                (
                    "one device took part, and nothing was sent",
                    "run the test on at least two devices: -g 2, or mpirun -np 2",
                )
            };
            return Err(InputError::new(Q105, label, At::Whole, message, help));
        }
        let transfer = self.transfer(label, options)?;
        let product = ranks.first().map(|rank| rank.product.as_str());
        let class = class(label, options, product)?;
        let hosts: BTreeSet<&str> = ranks.iter().map(|rank| rank.host.as_str()).collect();
        let mut transfers = Transfers::default();
        for row in &self.rows {
            // Sending always involves two devices, however many are listed.
            let devices = if transfer == TransferKind::Send { 2 } else { devices };
            transfers.add(transfer, devices, hosts.len() > 1, row.bytes, row.seconds);
        }
        let source = match self.program {
            Some(program) => format!("{} of nccl-tests", PROGRAMS[program].0),
            None => "nccl-tests".to_owned(),
        };
        let source = match product.unwrap_or_default() {
            "" => source,
            product => format!("{source}, {product}"),
        };
        costs.links.extend(transfers.tables(&class, &source, median));
        Ok(())
    }

    /// The transfer that the run measured.
    fn transfer(&self, label: &str, options: &Options) -> Result<TransferKind> {
        let unknown = |message: String| {
            let help = "give --transfer NAME: send, all-reduce, all-gather, reduce-scatter, all-to-all or broadcast, \
                        which are the tests that can be imported";
            Err(InputError::new(Q106, label, At::Whole, message, help))
        };
        if let Some(transfer) = options.transfer {
            return Ok(transfer);
        }
        if let Some(program) = self.program {
            let (name, transfer) = PROGRAMS[program];
            return match transfer {
                Some(transfer) => Ok(transfer),
                None => unknown(format!("the output is of {name}, for which there is no table")),
            };
        }
        let Some(row) = self.rows.iter().max_by_key(|row| row.bytes) else {
            return unknown("the output does not say which test it is of".to_owned());
        };
        // Bus bandwidth divided by algorithm bandwidth, for n devices: 2 (n − 1) / n, (n − 1) / n or 1.
        let is_whole = row.algorithm > 0.0 && row.bus / row.algorithm > 0.995;
        match (row.sums, row.has_root, is_whole) {
            (Some(true), false, true) => Ok(TransferKind::AllReduce),
            (Some(true), false, false) if row.algorithm > 0.0 => Ok(TransferKind::ReduceScatter),
            (Some(false), true, true) => Ok(TransferKind::Broadcast),
            (Some(false), false, true) => Ok(TransferKind::Send),
            _ => unknown("the output does not say which test it is of".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "\
# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid     43 on worker-0 device  0 [0x0f] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid     44 on worker-0 device  1 [0x15] NVIDIA A100-SXM4-40GB
#  Rank  2 Group  0 Pid     43 on worker-1 device  0 [0x0f] NVIDIA A100-SXM4-40GB
#  Rank  3 Group  0 Pid     44 on worker-1 device  1 [0x15] NVIDIA A100-SXM4-40GB
NCCL version 2.20.5+cuda12.4
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
";
    const TAIL: &str = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 103.965 \n#\n";

    fn row(bytes: u64, redop: &str, root: i32, micros: &str, bandwidths: [f64; 2]) -> String {
        let [algorithm, bus] = bandwidths;
        format!(
            "{bytes:12}  {:12}  {:>8}  {redop:>6}  {root:6}  {micros:>7}  {algorithm:6.2}  {bus:6.2}       0  {micros:>7}  {algorithm:6.2}  {bus:6.2}    N/A\n",
            bytes / 4,
            "float"
        )
    }

    fn read(text: &str) -> Result<CostsDocument> {
        import("nccl.txt", text.as_bytes(), &Options::default())
    }

    #[test]
    fn a_table_is_read_with_devices_servers_and_product() {
        let rows = row(1024, "sum", -1, "631.1", [53.17, 79.75])
            + &row(1_073_741_824, "sum", -1, "1.2e+07", [88.20, 132.3]);
        let costs =
            read(&format!("{HEAD}{rows}host:855:866 [2] NCCL INFO Destroy COMPLETE\n{TAIL}")).unwrap();
        let [table] = &costs.links[..] else { panic!("{:?}", costs.links) };
        assert_eq!(
            (table.transfer, table.devices, table.between_servers),
            (TransferKind::AllReduce, 4, true)
        );
        assert_eq!(table.class, "a100-sxm4-40gb");
        assert_eq!(table.rows, [[1024.0, 631.1e-6], [1_073_741_824.0, 12.0]]);
    }

    #[test]
    fn ratios_of_bandwidths_tell_transfers_apart() {
        for (redop, root, ratio, transfer) in [
            ("sum", -1, 1.5, Some(TransferKind::AllReduce)),
            ("sum", -1, 0.75, Some(TransferKind::ReduceScatter)),
            ("none", 0, 1.0, Some(TransferKind::Broadcast)),
            ("none", -1, 1.0, Some(TransferKind::Send)),
            ("none", -1, 0.75, None),
            ("sum", 0, 1.0, None),
        ] {
            let text = HEAD.to_owned() + &row(1 << 20, redop, root, "10", [20.0, 20.0 * ratio]);
            match (read(&text), transfer) {
                (Ok(costs), Some(transfer)) => {
                    assert_eq!(costs.links[0].transfer, transfer);
                    assert_eq!(costs.links[0].devices, if transfer == TransferKind::Send { 2 } else { 4 });
                }
                (Err(error), None) => assert_eq!(error.code, "Q106"),
                (outcome, _) => panic!("{redop} {root} {ratio}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn the_name_of_the_program_decides() {
        let rows = row(1 << 20, "none", -1, "10", [20.0, 15.0]);
        for line in [
            "# Collective test starting: all_gather_perf\n",
            "+ mpirun -np 4 ./build/all_gather_perf -b 8 -e 8G\n",
            "# Collective test starting: all_gather_perf_mpi\n",
        ] {
            let costs =
                read(&format!("{line}{HEAD}{rows}# Collective test concluded: all_gather_perf\n")).unwrap();
            assert_eq!(costs.links[0].transfer, TransferKind::AllGather, "{line}");
            assert!(
                costs.links[0].source.starts_with("all_gather_perf of nccl-tests"),
                "{}",
                costs.links[0].source
            );
        }
        let error = read(&format!("# Collective test starting: reduce_perf\n{HEAD}{rows}")).unwrap_err();
        assert_eq!(error.code, "Q106");
    }

    #[test]
    fn runs_one_after_the_other_are_tables_of_their_own() {
        let first = HEAD.to_owned() + &row(1 << 20, "sum", -1, "10", [20.0, 30.0]) + TAIL;
        let second = HEAD.to_owned() + &row(1 << 20, "sum", -1, "10", [20.0, 15.0]) + TAIL;
        let costs = read(&(first + &second)).unwrap();
        let kinds: Vec<TransferKind> = costs.links.iter().map(|table| table.transfer).collect();
        assert_eq!(kinds, [TransferKind::AllReduce, TransferKind::ReduceScatter]);
    }

    #[test]
    fn output_of_open_mpi_with_tags_is_read() {
        let text = HEAD.to_owned()
            + &row(1 << 20, "sum", -1, "10", [20.0, 30.0])
            + &row(0, "sum", -1, "10", [0.0, 0.0]);
        let tagged: String = text.lines().map(|line| format!("[1,0]<stdout>:{line}\n")).collect();
        assert_eq!(read(&tagged).unwrap(), read(&text).unwrap());
        assert_eq!(read(&text).unwrap().links[0].rows.len(), 1);
    }

    #[test]
    fn a_table_without_ranks_takes_options() {
        let text: String =
            HEAD.lines().filter(|line| !line.contains("Rank")).map(|line| format!("{line}\n")).collect();
        let text = text + &row(1 << 20, "none", -1, "10", [20.0, 15.0]);
        assert_eq!(read(&text).unwrap_err().code, "Q105");
        let options = Options {
            class: Some("h100".into()),
            devices: Some(8),
            transfer: Some(TransferKind::AllToAll),
            ..Options::default()
        };
        let costs = import("nccl.txt", text.as_bytes(), &options).unwrap();
        let table = &costs.links[0];
        assert_eq!((table.transfer, table.devices, &*table.class), (TransferKind::AllToAll, 8, "h100"));
    }

    #[test]
    fn faults_are_located() {
        let good = row(1 << 20, "sum", -1, "10", [20.0, 30.0]);
        let cut = &good[..70];
        for (rows, code, place) in [
            ("", "Q102", ""),
            (cut, "Q104", "14:70"),
            (&good.replace("     10 ", "      x "), "Q104", "14:61"),
            (&good.replace("     10 ", "    -10 "), "Q103", "14:59"),
            (&good.replacen("       0  ", "       7  ", 1), "Q111", "14:85"),
        ] {
            let text = format!("{HEAD}{}{rows}", if rows.is_empty() { "" } else { &*good });
            let error = read(&text).unwrap_err();
            assert_eq!((error.code.name, error.place.at.to_string().as_str()), (code, place), "{error}");
        }
    }
}
