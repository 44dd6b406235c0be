//! `bench`: tables of suites, resumption from journals, and convergence.

use std::fs::File;
use std::path::PathBuf;
use std::process::Output;
#[cfg(target_os = "linux")]
use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

#[cfg(target_os = "linux")]
use super::MOST;
use super::{chain, cluster, code, command, demo, folder, json, path, root, run, stderr, stdout};

#[test]
fn a_suite_becomes_a_table_with_ratios() {
    let suite = format!(
        "name = \"two\"\ninputs = [{model:?}]\nclusters = [{cluster:?}]\nsolvers = [\"dp\", \"one-device\"]\n\
         repeat = 2\n[baseline]\nfile = \"values.csv\"\nkey = \"input\"\ncolumns = {{ dp = \"best\" }}\n",
        model = demo("model.json"),
        cluster = demo("cluster.toml"),
    );
    let folder = folder(&[("suite.toml", &suite), ("values.csv", "# made up\ninput,best\nmodel,1.0\n")]);
    let csv = path(&folder, "table.csv");
    let output = run(&["bench", &path(&folder, "suite.toml"), "--out-csv", &csv]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("| model on cluster |").count(), 2, "{}", stdout(&output));
    let csv = std::fs::read_to_string(csv).expect("it was written");
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("it is CSV");
    assert_eq!((&rows[0][3], &rows[0][5]), ("dp", "optimal"));
    assert_eq!(rows[0][6], rows[0][12], "the ratio to 1 is the value");
    assert_eq!(&rows[1][12], "", "a solver without a column has no ratio");
}

/// A suite of two solvers on the demo model.
fn pair() -> tempfile::TempDir {
    let suite = format!(
        "name = \"pair\"\ninputs = [{:?}]\nclusters = [{:?}]\nsolvers = [\"dp\", \"one-device\"]\n",
        demo("model.json"),
        demo("cluster.toml"),
    );
    folder(&[("suite.toml", &suite)])
}

#[test]
fn a_suite_goes_on_from_its_journal() {
    let folder = pair();
    let (suite, journal) = (path(&folder, "suite.toml"), path(&folder, "journal.jsonl"));
    let first = run(&["bench", "-v", &suite, "--journal", &journal]);
    assert_eq!(code(&first), Some(0), "{}", stderr(&first));
    assert_eq!(stderr(&first).matches(" of 2: ").count(), 2);
    let second = run(&["bench", &suite, "--journal", &journal]);
    assert_eq!(stderr(&second), "", "nothing is run again");
    assert_eq!(stdout(&second), stdout(&first));
    // Only a case whose line was truncated by a kill runs again.
    let text = std::fs::read_to_string(&journal).expect("a journal");
    std::fs::write(&journal, &text[..text.len() - 20]).expect("room");
    for _ in 0..2 {
        let third = run(&["bench", "-v", &suite, "--journal", &journal]);
        assert_eq!(code(&third), Some(0), "{}", stderr(&third));
        assert!(!stderr(&third).contains("1 of 2"), "{}", stderr(&third));
    }
    assert_eq!(stderr(&run(&["bench", &suite, "--journal", &journal])), "");
    // Cases of another build run again.
    let text = std::fs::read_to_string(&journal).expect("a journal");
    let mut lines: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let digests: Vec<_> =
        lines[1..].iter_mut().map(|line| std::mem::replace(&mut line["case"][0], "other".into())).collect();
    assert!(digests.iter().all(|digest| digest.as_str() == digests[0].as_str()), "{digests:?}");
    let of_another: Vec<String> = lines.iter().map(serde_json::Value::to_string).collect();
    std::fs::write(&journal, of_another.join("\n") + "\n").expect("room");
    let output = run(&["bench", "-v", &suite, "--journal", &journal]);
    assert_eq!(stderr(&output).matches(" of 2: ").count(), 2, "{}", stderr(&output));
    // Cases with other settings are different cases.
    let text = std::fs::read_to_string(&suite).expect("a suite");
    std::fs::write(&suite, format!("{text}threads = 2\n")).expect("room");
    let fourth = run(&["bench", "-v", &suite, "--journal", &journal]);
    assert_eq!(stderr(&fourth).matches(" of 2: ").count(), 2);
    // A file that is not a journal is rejected and left unchanged.
    for other in ["no case\n", "{\"case\":[]", "{}"] {
        std::fs::write(&journal, other).expect("room");
        assert!(stderr(&run(&["bench", &suite, "--journal", &journal])).contains("error[B005]"));
        assert_eq!(std::fs::read_to_string(&journal).expect("a file"), other);
    }
    assert!(stderr(&run(&["bench", &suite, "--journal", "/dev/null"])).contains("error[B005]"));
}

#[test]
fn the_table_of_a_paper_has_its_provenance_and_a_date_that_was_valid_before_the_sweep() {
    let folder = pair();
    let (suite, journal, table) =
        (path(&folder, "suite.toml"), path(&folder, "journal.jsonl"), path(&folder, "table.tex"));
    let words = ["bench", &suite, "--journal", &journal, "--out-latex", &table];
    let dated =
        |date: &str| command(&words).env("SOURCE_DATE_EPOCH", date).output().expect("the program starts");
    let refused = dated("today");
    assert_eq!(code(&refused), Some(2));
    assert!(stderr(&refused).starts_with("error[U001]"), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--> SOURCE_DATE_EPOCH\n"), "{}", stderr(&refused));
    assert!(!std::path::Path::new(&journal).exists() && !std::path::Path::new(&table).exists());
    let made = dated("86400");
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let text = std::fs::read_to_string(&table).expect("a table");
    for line in
        ["% Needs \\usepackage{booktabs}.", "% 1970-01-02T00:00:00Z", "    \\toprule", "\\end{tabular}"]
    {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    assert!(text.contains(" --out-latex ") && text.contains("solver & cases & with a plan"), "{text}");
}

#[test]
fn a_journal_that_another_bench_writes_is_refused() {
    let folder = pair();
    let (suite, journal) = (path(&folder, "suite.toml"), path(&folder, "journal.jsonl"));
    let other = File::create(&journal).expect("a file");
    other.lock().expect("a lock");
    let refused = run(&["bench", &suite, "--journal", &journal]);
    assert_eq!(code(&refused), Some(2));
    assert!(stderr(&refused).starts_with("error[B006]"), "{}", stderr(&refused));
    assert!(stderr(&refused).contains(&format!("--> {journal}\n")), "{}", stderr(&refused));
    drop(other);
    assert_eq!(code(&run(&["bench", &suite, "--journal", &journal])), Some(0));
}

#[test]
fn counts_of_a_suite_have_a_range_and_a_place() {
    let folder = pair();
    let file = path(&folder, "suite.toml");
    let whole = std::fs::read_to_string(&file).expect("a suite");
    let seeds =
        format!("seeds = {:?}\nobjectives = {:?}\n", [0; 1000], [(); 1000].map(|()| "{}")).replace('"', "");
    for (more, place) in [
        ("repeat = 9223372036854775807\n", ": repeat\n"),
        ("repeat = 0\n", ": repeat\n"),
        ("repeat = -1\n", ":5:10\n"),
        ("threads = 513\n", ": threads\n"),
        (&seeds, "suite.toml\n"),
    ] {
        std::fs::write(&file, format!("{whole}{more}")).expect("room");
        let refused = run(&["bench", &file]);
        let said = stderr(&refused);
        assert_eq!(code(&refused), Some(2), "{said}");
        assert!(
            said.starts_with("error[B002]")
                && said.contains(&format!("{file}{}", place.replace("suite.toml", ""))),
            "{said}"
        );
    }
}

/// A suite written by someone else must not overwrite a file.
#[test]
fn objectives_of_a_suite_take_only_options_of_objectives() {
    let folder = pair();
    let (file, kept) = (path(&folder, "suite.toml"), path(&folder, "kept"));
    std::fs::write(&kept, "mine").expect("room");
    let whole = std::fs::read_to_string(&file).expect("a suite");
    for option in ["dot", "out", "start", "memory-limit", "objective=makespan --out"] {
        let text = format!("{whole}objectives = [{{}}, {{ {option:?} = {kept:?} }}]\n");
        std::fs::write(&file, text).expect("room");
        let refused = run(&["bench", &file]);
        let said = stderr(&refused);
        assert_eq!(code(&refused), Some(2), "{option}: {said}");
        assert!(said.starts_with("error[B002]") && said.contains("max_replicas"), "{option}: {said}");
        assert_eq!(std::fs::read_to_string(&kept).expect("it is there"), "mine");
    }
    for objective in ["\"max-replicas\" = 1", "split = \"free\"", "robust = \"10%\""] {
        std::fs::write(&file, format!("{whole}objectives = [{{ {objective} }}]\n")).expect("room");
        assert_eq!(code(&run(&["bench", &file])), Some(0), "{objective}");
    }
}

/// Runs the program until it prints a line with this start and then a condition on its process id holds, and ends it
/// by a signal that none of its children receives.
#[cfg(target_os = "linux")]
pub(super) fn ended(arguments: &[&str], line: &str, mut is_so: impl FnMut(u32) -> bool) -> Output {
    let mut child =
        command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut story = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.lines().last().unwrap_or_default().starts_with(line) {
        assert_ne!(story.read_line(&mut said).expect("text"), 0, "{said}");
    }
    let began = Instant::now();
    while !is_so(child.id()) {
        assert_eq!(child.try_wait().expect("a child"), None, "it waits for its end");
        if began.elapsed() >= MOST {
            child.kill().and_then(|()| child.wait()).expect("it can be ended");
            panic!("{arguments:?}: {said}");
        }
        std::thread::sleep(POLL);
    }
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("Linux has it").success());
    let mut output = child.wait_with_output().expect("a child");
    story.read_to_string(&mut said).expect("text");
    output.stderr = said.into_bytes();
    output
}

/// Polling interval of a wait.
#[cfg(target_os = "linux")]
const POLL: Duration = Duration::from_millis(2);

/// Whether a process has had a number of successive children, so that all but the last have ended.
#[cfg(target_os = "linux")]
fn children(count: usize) -> impl FnMut(u32) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    move |parent| {
        let processes = std::fs::read_dir("/proc").expect("Linux has it").filter_map(Result::ok);
        let parent_of = |process: &std::fs::DirEntry| {
            let about = std::fs::read_to_string(process.path().join("stat")).ok()?;
            about.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        let own = processes.filter(|process| parent_of(process) == Some(parent));
        seen.extend(own.map(|process| process.file_name()));
        seen.len() >= count
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_the_run_that_is_under_way_and_the_table_is_partial() {
    let folder = pair();
    let (suite, csv, plots) =
        (path(&folder, "suite.toml"), path(&folder, "table.csv"), path(&folder, "plots"));
    let long = "objectives = [{ objective = \"makespan\" }]\ntime_limit = \"10m\"\n";
    let text = std::fs::read_to_string(&suite)
        .expect("a suite")
        .replace("\"dp\", \"one-device\"", "\"heft\", \"annealing\"");
    std::fs::write(&suite, text + long).expect("room");
    let output = ended(&["bench", "-v", &suite, "--out-csv", &csv, "--plots", &plots], "2 of 2", children(1));
    assert_eq!(code(&output), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted: 1 of 2 cases were run\n"), "{}", stderr(&output));
    assert!(stdout(&output).contains("Interrupted: 1 of 2 case(s) were run.\n"), "{}", stdout(&output));
    let rows = |csv: &str| -> Vec<[String; 3]> {
        let mut reader = csv::Reader::from_path(csv).expect("it was written");
        reader
            .records()
            .map(|row| row.map(|row| [3, 5, 15].map(|column| row[column].to_owned())).expect("CSV"))
            .collect()
    };
    assert_eq!(rows(&csv), [["heft", "feasible", "1"], ["annealing", "not run", "0"]]);
    let plot = std::fs::read_to_string(path(&folder, "plots/profile.svg")).expect("a plot");
    assert!(plot.contains("(interrupted)"), "a plot says it as well");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_the_repeats_of_a_case_and_keeps_those_that_were_made() {
    let folder = pair();
    let (suite, csv, journal) =
        (path(&folder, "suite.toml"), path(&folder, "table.csv"), path(&folder, "journal"));
    let text = std::fs::read_to_string(&suite).expect("a suite") + "repeat = 1000000\n";
    std::fs::write(&suite, text).expect("room");
    let arguments = ["bench", "-v", &suite, "--out-csv", &csv, "--journal", &journal];
    let output = ended(&arguments, "1 of 2", children(2));
    assert_eq!(code(&output), Some(4), "{}", stderr(&output));
    assert!(
        stdout(&output)
            .contains("Interrupted: 1 of 2 case(s) were run, 1 of them fewer than 1000000 times.\n")
    );
    let mut reader = csv::Reader::from_path(&csv).expect("it was written");
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("it is CSV");
    assert_eq!((&rows[0][5], &rows[1][5]), ("optimal", "not run"));
    let runs: u32 = rows[0][15].parse().expect("a count");
    assert!((1..1_000_000).contains(&runs), "{runs}");
    let kept = std::fs::read_to_string(&journal).expect("a journal");
    assert_eq!(kept.lines().count(), 1, "what was cut off is run again: {kept}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_before_anything_was_run_has_no_table() {
    let folder = pair();
    let (suite, csv) = (path(&folder, "suite.toml"), path(&folder, "table.csv"));
    let text =
        std::fs::read_to_string(&suite).expect("a suite").replace("\"dp\", \"one-device\"", "\"annealing\"");
    std::fs::write(&suite, text + "objectives = [{ objective = \"makespan\" }]\ntime_limit = \"10m\"\n")
        .expect("room");
    let output = ended(&["bench", "-v", &suite, "--out-csv", &csv], "1 of 1", children(1));
    assert_eq!((code(&output), stdout(&output)), (Some(5), String::new()), "{}", stderr(&output));
    assert!(!PathBuf::from(&csv).exists());
}

#[cfg(feature = "policy")]
#[test]
fn a_suite_runs_variants_and_tells_their_checkpoints_apart() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/policy/checkpoint.safetensors");
    let suite = |variant: &str| {
        format!(
            "name = \"v\"\ninputs = [{:?}]\nclusters = [{:?}]\nobjectives = [{{ objective = \"makespan\" }}]\n\
             solvers = [\"policy-network\", \"mine\"]\ntime_limit = \"200ms\"\n[[variants]]\n{variant}",
            demo("model.json"),
            demo("cluster.toml"),
        )
    };
    let whole =
        suite("name = \"mine\"\nsolver = \"policy\"\ncheckpoint = \"c.safetensors\"\nfinetune = \"300ms\"\n");
    let folder = folder(&[("suite.toml", &whole)]);
    std::fs::copy(shipped, path(&folder, "c.safetensors")).expect("room");
    let (file, journal) = (path(&folder, "suite.toml"), path(&folder, "journal.jsonl"));
    let first = run(&["bench", &file, "--journal", &journal]);
    assert_eq!(code(&first), Some(0), "{}", stderr(&first));
    let row = |output: &Output| {
        let text = stdout(output);
        text.lines().find(|line| line.contains("| mine |")).expect("a row").to_owned()
    };
    assert!(row(&first).contains("| feasible |") || row(&first).contains("| optimal |"), "{}", row(&first));
    assert_eq!(stderr(&run(&["bench", &file, "--journal", &journal])), "", "nothing is run again");
    // Another checkpoint of the same name is another case; the error of an invalid checkpoint is in its row.
    std::fs::write(path(&folder, "c.safetensors"), "no checkpoint").expect("room");
    let broken = run(&["bench", "-v", &file, "--journal", &journal]);
    assert_eq!(stderr(&broken).matches(" of 2: ").count(), 1, "{}", stderr(&broken));
    assert!(row(&broken).contains("K001"), "{}", row(&broken));
    for (variant, code) in [
        ("name = \"dp\"\nsolver = \"policy\"\n", "B002"),
        ("name = \"mine\"\nsolver = \"oracle\"\n", "B002"),
        ("name = \"mine\"\nsolver = \"gdp\"\nfinetune = \"1s\"\n", "B002"),
        ("name = \"mine\"\nsolver = \"gdp\"\nzero_shot = true\n", "B002"),
        ("name = \"other\"\nsolver = \"policy\"\n", "B002"),
        ("name = \"mine\"\nsolver = \"policy\"\ncheckpoint = \"absent\"\n", "B001"),
    ] {
        std::fs::write(&file, suite(variant)).expect("room");
        let refused = run(&["bench", &file]);
        assert!(stderr(&refused).contains(code), "{variant}: {}", stderr(&refused));
    }
}

#[test]
fn a_suite_tells_how_solvers_converge() {
    let suite = format!(
        "name = \"c\"\ninputs = [{:?}]\nclusters = [{:?}]\nobjectives = [{{ objective = \"makespan\", simulations = 400 }}]\n\
         solvers = [\"annealing\"]\n[convergence]\nseconds = [1e9]\nsimulations = [0, 1000]\nreaches = [\"annealing\"]\n",
        demo("model.json"),
        demo("cluster.toml"),
    );
    let folder = folder(&[("suite.toml", &suite)]);
    let (file, journal) = (path(&folder, "suite.toml"), path(&folder, "journal.jsonl"));
    let first = run(&["bench", &file, "--journal", &journal]);
    assert_eq!(code(&first), Some(0), "{}", stderr(&first));
    let text = stdout(&first);
    assert!(text.contains("| solver | 1000000000 s | 0 simulations | 1000 simulations |"), "{text}");
    // The last plan found is the best, and there is none before the first simulation.
    assert!(text.contains("| annealing | 1.0000 |  | 1.0000 |"), "{text}");
    assert!(text.contains("## Reaching annealing"), "{text}");
    let plots = path(&folder, "plots");
    let again = run(&["bench", &file, "--journal", &journal, "--plots", &plots]);
    for name in ["convergence.svg", "convergence-simulations.svg"] {
        let drawing = std::fs::read_to_string(path(&folder, &format!("plots/{name}"))).expect("a plot");
        assert!(roxmltree::Document::parse(&drawing).is_ok() && drawing.contains("annealing"), "{name}");
    }
    assert_eq!((stdout(&again), stderr(&again)), (text, String::new()), "the journal keeps it");
    std::fs::write(&file, suite.replace("reaches = [\"annealing\"]", "reaches = [\"dp\"]")).expect("room");
    assert!(stderr(&run(&["bench", &file])).contains("error[B002]"));
}

#[test]
fn a_changed_model_and_a_mended_one_are_run_again() {
    let suite = "name = \"m\"\ninputs = [\"m.json\"]\nclusters = [\"c.toml\"]\nsolvers = [\"one-device\"]\n";
    let folder = folder(&[("suite.toml", suite), ("m.json", &chain(1)), ("c.toml", &cluster(1))]);
    let (suite, journal) = (path(&folder, "suite.toml"), path(&folder, "journal.jsonl"));
    let value = |length: Option<usize>| {
        let text = length.map_or_else(|| "no model".into(), chain);
        std::fs::write(path(&folder, "m.json"), text).expect("room");
        let output = run(&["bench", "-v", &suite, "--journal", &journal]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        let text = stdout(&output);
        let row = text.lines().find(|line| line.starts_with("| m on c")).expect("a row");
        row.split(" | ").nth(5).map(str::trim).unwrap_or_default().to_owned()
    };
    assert_eq!(value(Some(1)), "1.0000 s");
    assert_eq!(value(Some(2)), "2.0000 s");
    assert_eq!(value(None), "");
    assert_eq!(value(Some(1)), "1.0000 s");
}

#[test]
fn jobs_change_nothing_but_times_and_plots_are_drawings() {
    let folder = pair();
    let (suite, plots) = (path(&folder, "suite.toml"), path(&folder, "plots"));
    let columns = |output: &Output| -> Vec<String> {
        let cells = |line: &str| line.split(" | ").take(8).collect::<Vec<_>>().join(" | ");
        stdout(output).lines().filter(|line| line.starts_with("| model")).map(cells).collect()
    };
    let first = run(&["bench", &suite]);
    let two = run(&["bench", &suite, "--jobs", "2", "--plots", &plots]);
    assert_eq!(code(&two), Some(0), "{}", stderr(&two));
    assert_eq!(columns(&first), columns(&two));
    assert!(stdout(&two).contains("| dp | 1 | 1 | 1 | 1.0000 | 1.0000 |"), "{}", stdout(&two));
    for name in ["profile.svg", "means.svg"] {
        let text = std::fs::read_to_string(path(&folder, &format!("plots/{name}"))).expect("a plot");
        let drawing = roxmltree::Document::parse(&text).expect("XML");
        assert_eq!(drawing.root_element().tag_name().name(), "svg");
        assert!(text.contains("one-device") && text.contains("pair"), "{name} names what it shows");
    }
}

#[test]
fn a_suite_of_absent_reference_inputs_is_skipped() {
    let suite: PathBuf = root().join("data/suites/reference-throughput.toml");
    let output = command(&["bench", &suite.display().to_string()])
        .env_remove("STAGEWRIGHT_SHARED")
        .output()
        .expect("the program starts");
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("skipped"), "{}", stderr(&output));
}

/// The columns of a CSV table that do not depend on time: input, solver, seed, status, value, bound, gap and runs.
pub(super) fn rows_of(file: &str) -> Vec<[String; 8]> {
    let mut reader = csv::Reader::from_path(file).expect("it was written");
    let rows = reader.records().map(|row| row.expect("it is CSV"));
    rows.map(|row| [0, 3, 4, 5, 6, 7, 8, 15].map(|column| row[column].to_owned())).collect()
}

/// Ten cases on the demo model.
fn ten() -> tempfile::TempDir {
    let suite = format!(
        "name = \"ten\"\ninputs = [{:?}]\nclusters = [{:?}]\nsolvers = [\"dp\", \"one-device\"]\nseeds = [0, 1, 2, 3, 4]\n",
        demo("model.json"),
        demo("cluster.toml"),
    );
    folder(&[("suite.toml", &suite)])
}

#[test]
fn shards_merged_are_the_whole_run() {
    let folder = ten();
    let in_folder = |name: &str| path(&folder, name);
    let (suite, whole, merged) = (in_folder("suite.toml"), in_folder("whole.csv"), in_folder("merged.csv"));
    assert_eq!(code(&run(&["bench", &suite, "--out-csv", &whole])), Some(0));
    let journals = ["one", "two", "three"].map(in_folder);
    for (shard, journal) in ["1/3", "2/3", "3/3"].iter().zip(&journals) {
        let output = run(&["bench", &suite, "--shard", shard, "--journal", journal]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    }
    let [first, two, three] = &journals;
    let all = in_folder("all");
    let merge = ["bench", "merge", &suite, first, two, three, two, "--journal", &all, "--out-csv", &merged];
    let output = run(&merge);
    assert_eq!((code(&output), stderr(&output)), (Some(0), String::new()));
    assert_eq!(rows_of(&merged), rows_of(&whole));
    assert_eq!(rows_of(&merged).len(), 10);
    let lines = std::fs::read_to_string(&all).expect("a journal").lines().count();
    assert_eq!(lines, 11, "a header, and every row once");
    assert_eq!(code(&run(&merge)), Some(0));
    assert_eq!(std::fs::read_to_string(&all).expect("a journal").lines().count(), 11);
    assert_eq!(stderr(&run(&["bench", &suite, "--journal", &all])), "", "nothing is left to run");
    // Without a shard, its cases are not run.
    let part =
        run(&["bench", "merge", &suite, first, three, "--journal", &in_folder("part"), "--out-csv", &merged]);
    assert_eq!(code(&part), Some(4), "{}", stderr(&part));
    assert!(stdout(&part).contains("Partial: 7 of 10 case(s) were run.\n"), "{}", stdout(&part));
    assert_eq!(stdout(&part).matches("| not run |").count(), 3);
    assert_eq!(rows_of(&merged).iter().filter(|row| row[3] == "not run").count(), 3);
}

#[test]
fn journals_of_other_suites_and_builds_are_not_merged() {
    let folder = ten();
    let in_folder = |name: &str| path(&folder, name);
    let (suite, journal, out) = (in_folder("suite.toml"), in_folder("journal"), in_folder("out"));
    assert_eq!(code(&run(&["bench", &suite, "--shard", "2/5", "--journal", &journal])), Some(0));
    let text = std::fs::read_to_string(&journal).expect("a journal");
    let digest = {
        let line: serde_json::Value =
            serde_json::from_str(text.lines().nth(1).expect("a row")).expect("a row is JSON");
        line["case"][0].as_str().expect("a digest").to_owned()
    };
    std::fs::write(in_folder("build"), text.replace(&digest, "other")).expect("room");
    std::fs::write(in_folder("none"), "no journal\n").expect("room");
    let other = std::fs::read_to_string(&suite).expect("a suite") + "repeat = 2\n";
    std::fs::write(in_folder("other.toml"), other).expect("room");
    for (suite, journal, said) in [
        (&suite, in_folder("build"), "error[B008]: another build of the program wrote the journal"),
        (&in_folder("other.toml"), journal.clone(), "error[B008]: the journal is of another suite"),
        (&suite, in_folder("none"), "error[B005]"),
    ] {
        let output = run(&["bench", "merge", suite, &journal, "--journal", &out]);
        assert_eq!(code(&output), Some(2));
        assert!(stderr(&output).starts_with(said), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("--> {journal}\n")), "{}", stderr(&output));
        assert!(!PathBuf::from(&out).exists(), "nothing is written");
    }
}

#[test]
fn plans_take_part_in_a_suite() {
    let suite = format!(
        "name = \"plans\"\ninputs = [{:?}]\nclusters = [{:?}]\nsolvers = [\"dp\"]\n\
         plans = [\"mine=mine.json\", \"all-on-one=plans/{{}}.json\", \"broken=broken.json\"]\n",
        demo("model.json"),
        demo("cluster.toml"),
    );
    let folder = folder(&[("suite.toml", &suite), ("broken.json", "{\"nobody\": \"gpu0\"}")]);
    let in_folder = |name: &str| path(&folder, name);
    // The placement of another plan as a bare list, and a native plan that claims too much.
    let dp = json(&run(&[
        "plan",
        &demo("model.json"),
        "--cluster",
        &demo("cluster.toml"),
        "--json",
        "--solver",
        "dp",
    ]));
    let mut claims = dp.clone();
    claims["objective"]["value_s"] = 1e-9.into();
    std::fs::write(in_folder("mine.json"), claims.to_string()).expect("room");
    let devices: Vec<serde_json::Value> = dp["devices"].as_array().expect("devices").clone();
    let operators: Vec<&serde_json::Value> =
        devices.iter().flat_map(|device| device["ops"].as_array().expect("operators")).collect();
    std::fs::create_dir(in_folder("plans")).expect("room");
    let on_one = serde_json::json!({"devices": [{"name": devices[0]["name"], "ops": operators}]});
    std::fs::write(in_folder("plans/model.json"), on_one.to_string()).expect("room");
    let (file, table, journal) = (in_folder("suite.toml"), in_folder("table.csv"), in_folder("journal"));
    let output = run(&["bench", &file, "--out-csv", &table, "--journal", &journal]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let rows = rows_of(&table);
    let row = |name: &str| rows.iter().find(|row| row[1] == name).expect("a row");
    let value = |name: &str| row(name)[4].parse::<f64>().expect("a value");
    assert_eq!(row("mine")[3], "given");
    assert!((value("mine") / value("dp") - 1.0).abs() < 1e-9, "not what it claims: {rows:?}");
    let compared = run(&[
        "compare",
        &demo("model.json"),
        "--cluster",
        &demo("cluster.toml"),
        "--solvers",
        "none",
        "--json",
        "--plan",
        &format!("one={}", in_folder("plans/model.json")),
    ]);
    let compared = &json(&compared)["models"][0]["rows"];
    assert_eq!(compared.as_array().map(Vec::len), Some(1), "{compared}");
    let status = &row("all-on-one")[3];
    match compared[0]["breaks"].as_array() {
        Some(breaks) => assert_eq!(*status, breaks[0].as_str().expect("a name")),
        None => assert_eq!(
            (status.as_str(), compared[0]["value_s"].as_f64()),
            ("given", Some(value("all-on-one")))
        ),
    }
    assert_eq!((row("broken")[3].as_str(), row("broken")[4].as_str()), ("placement", ""));
    // Another content of the file is another case.
    std::fs::write(in_folder("mine.json"), on_one.to_string()).expect("room");
    let again = run(&["bench", "-v", &file, "--out-csv", &table, "--journal", &journal]);
    assert_eq!(stderr(&again).matches(" of 4: ").count(), 1, "mine alone: {}", stderr(&again));
    assert_eq!(rows_of(&table)[1][4], rows_of(&table)[2][4]);
    for (plans, code) in
        [("dp=mine.json", "B002"), ("absent.json", ""), ("other:x=mine.json", "U001"), ("x=", "U001")]
    {
        std::fs::write(&file, suite.replace("mine=mine.json", plans)).expect("room");
        let output = run(&["bench", &file, "--out-csv", &table]);
        match code {
            "" => assert!(rows_of(&table)[1][3].starts_with("error[I001]"), "{:?}", rows_of(&table)),
            _ => assert!(stderr(&output).contains(code), "{plans}: {}", stderr(&output)),
        }
    }
}

/// A workload with a cluster, another with options of its own, problems of a recipe, and a file.
#[test]
fn workloads_and_problems_are_inputs_of_a_suite() {
    let recipe = std::fs::read_to_string(root().join("data/policy/held-out-small.toml")).expect("a recipe");
    let suite = "name = \"made\"\ninputs = [\"file.json\"]\nsolvers = [\"one-device\", \"heft\"]\n\
                 objectives = [{ objective = \"makespan\" }]\nworkloads_of = \"other.toml\"\n\
                 every_workload = { precision = \"fp16\" }\n\
                 problems = [{ recipe = \"recipe.toml\", count = 2 }]\n\
                 [[workloads]]\nname = \"step\"\nmodel = \"vgg\"\nvariant = \"11\"\nbatch = 4\ntraining = true\n\
                 cluster = \"2xv100:fp32@nvlink\"\n\
                 [[workloads]]\nname = \"cut\"\nmodel = \"bert\"\nlayers = 1\ncluster = \"mine\"\ntraining = false\n";
    let other = "name = \"other\"\nworkloads = [{ name = \"vit\", model = \"vit\", cluster = \"4xt4\", layers = 1 }]\n";
    let folder = folder(&[
        ("suite.toml", suite),
        ("other.toml", other),
        ("recipe.toml", &recipe),
        ("mine", &std::fs::read_to_string(demo("cluster.toml")).expect("a cluster")),
    ]);
    let in_folder = |name: &str| path(&folder, name);
    let (file, table, journal) = (in_folder("suite.toml"), in_folder("table.csv"), in_folder("journal"));
    let graph = in_folder("graph.json");
    let vgg =
        ["workload", "vgg", "--variant=11", "--batch=4", "--training", "--precision=fp16", "--out", &graph];
    assert_eq!(code(&run(&vgg)), Some(0));
    let converted = run(&["convert", &graph, &in_folder("file.json"), "--cluster", "2xv100:fp32@nvlink"]);
    assert_eq!(code(&converted), Some(0), "{}", stderr(&converted));
    let bench = || {
        let output = run(&["bench", "-v", &file, "--out-csv", &table, "--journal", &journal]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        stderr(&output).matches(" of 12: ").count()
    };
    assert_eq!(bench(), 12);
    let rows = rows_of(&table);
    let names: Vec<&str> = rows.iter().step_by(2).map(|row| row[0].as_str()).collect();
    assert_eq!((&names[..4], names.len()), (&["file", "vit", "step", "cut"][..], 6));
    assert!(names[4].ends_with("-0") && names[5].ends_with("-1"), "numbers of problems: {names:?}");
    assert!(rows.iter().all(|row| row[3] == "feasible" || row[3] == "optimal"), "{rows:?}");
    assert_eq!(rows[0][4..7], rows[4][4..7], "the workload is what `workload` and `convert` make");
    assert_eq!(bench(), 0, "nothing is run again");
    // What a graph is made from is in the key: its own options, those of all, its cluster, and the recipe.
    let change = |file: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(in_folder(file)).expect("a file");
        assert!(text.contains(from), "{text}");
        std::fs::write(in_folder(file), text.replace(from, to)).expect("room");
        bench()
    };
    assert_eq!(change("suite.toml", "batch = 4", "batch = 2"), 2);
    assert_eq!(change("suite.toml", "precision = \"fp16\"", "precision = \"bf16\""), 4);
    assert_eq!(change("mine", "65e12", "60e12"), 2);
    assert_eq!(change("recipe.toml", "seed = ", "seed = 1"), 4);
    assert_eq!(change("other.toml", "layers = 1", "layers = 2"), 2);
}

#[test]
fn workloads_of_a_suite_without_a_graph_are_refused() {
    let folder = pair();
    let file = path(&folder, "suite.toml");
    let whole = std::fs::read_to_string(&file).expect("a suite");
    let workload = |more: &str| format!("[[workloads]]\nname = \"w\"\n{more}\n");
    let vgg = |more: &str| workload(&format!("model = \"vgg\"\n{more}"));
    let sibling = "[[variants]]\nname = \"mine\"\nsolver = \"dp\"\nsibling = \"1s\"\n";
    let mine = whole.replace("\"dp\"", "\"mine\"");
    for (text, code, place, said) in [
        (workload("model = \"vg\""), "B002", ": workloads.w", "unknown workload family `vg`"),
        (vgg("variant = \"12\""), "B002", ": workloads.w", "has no variant `12`"),
        (vgg("layers = 3"), "B002", ": workloads.w", "has no size `layers`"),
        (vgg("batch = 0"), "B002", ": workloads.w", "batch is 0"),
        (vgg("batch = true"), "B002", ": workloads.w", "--batch"),
        (vgg("training = 1"), "B002", ": workloads.w", "--training"),
        (vgg("precision = \"fp1\""), "B002", ": workloads.w", "fp1"),
        (vgg("optimizer = \"sgd\""), "B002", ": workloads.w", "--training"),
        (vgg("out = \"file\""), "B002", ": workloads.w", "`out` is not an option of a workload"),
        (vgg("sibling = { batch = 0 }"), "B002", ": workloads.w", "batch is 0"),
        (vgg("cluster = \"3xnothing\""), "B001", ": workloads.w", "nothing"),
        (vgg("") + &vgg(""), "B002", ": workloads.w", "defined twice"),
        (workload(""), "B002", ":5:1", "missing field `model`"),
        ("problems = [{ recipe = \"absent\", count = 1 }]\n".into(), "B001", ": problems", "`absent`"),
        ("problems = [{ recipe = \"suite.toml\", count = 1 }]\n".into(), "D001", ":1", "unknown field"),
        ("problems = [{ recipe = \"suite.toml\", count = 0 }]\n".into(), "B002", ": problems", "count is 0"),
        ("workloads_of = \"absent.toml\"\n".into(), "I001", "absent.toml", "no"),
        (sibling.into(), "B002", "suite.toml", "`mine` starts from siblings, and `model` has none"),
    ] {
        let suite = if text == sibling { &mine } else { &whole };
        std::fs::write(&file, format!("{suite}{text}")).expect("room");
        let refused = run(&["bench", &file]);
        let story = stderr(&refused);
        assert_eq!(super::code(&refused), Some(2), "{text}: {story}");
        assert!(story.starts_with(&format!("error[{code}")), "{text}: {story}");
        assert!(story.contains(&format!("{place}\n")) && story.contains(said), "{text}: {story}");
    }
}
