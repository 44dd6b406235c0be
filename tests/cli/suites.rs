//! `bench`: tables of suites, resumption from journals, and convergence.

use std::fs::File;
use std::path::PathBuf;
#[cfg(unix)]
use std::process::Command;
use std::process::Output;
#[cfg(target_os = "linux")]
use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
    time::Duration,
};

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
    let first = run(&["bench", &suite, "--journal", &journal]);
    assert_eq!(code(&first), Some(0), "{}", stderr(&first));
    assert_eq!(stderr(&first).matches(" of 2: ").count(), 2);
    let second = run(&["bench", &suite, "--journal", &journal]);
    assert_eq!(stderr(&second), "", "nothing is run again");
    assert_eq!(stdout(&second), stdout(&first));
    // Only a case whose line was truncated by a kill runs again.
    let text = std::fs::read_to_string(&journal).expect("a journal");
    std::fs::write(&journal, &text[..text.len() - 20]).expect("room");
    for _ in 0..2 {
        let third = run(&["bench", &suite, "--journal", &journal]);
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
    let output = run(&["bench", &suite, "--journal", &journal]);
    assert_eq!(stderr(&output).matches(" of 2: ").count(), 2, "{}", stderr(&output));
    // Cases with other settings are different cases.
    let text = std::fs::read_to_string(&suite).expect("a suite");
    std::fs::write(&suite, format!("{text}threads = 2\n")).expect("room");
    let fourth = run(&["bench", &suite, "--journal", &journal]);
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
        ("repeat = -1\n", ":5\n"),
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
    std::fs::write(&file, whole).expect("room");
    for jobs in ["0", "513", "18446744073709551615"] {
        let refused = run(&["bench", &file, "--jobs", jobs]);
        assert!(stderr(&refused).starts_with("error[U001]") && stderr(&refused).contains("--> --jobs"));
    }
}

/// Runs the program until it says a line that begins so and then something is the case that depends on its process id,
/// and ends it by a signal that no child of it gets.
#[cfg(target_os = "linux")]
fn ended(arguments: &[&str], line: &str, mut is_so: impl FnMut(u32) -> bool) -> Output {
    let mut child =
        command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut story = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.lines().last().unwrap_or_default().starts_with(line) {
        assert_ne!(story.read_line(&mut said).expect("text"), 0, "{said}");
    }
    while !is_so(child.id()) {
        assert_eq!(child.try_wait().expect("a child"), None, "it waits for its end");
        std::thread::sleep(POLL);
    }
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("Linux has it").success());
    let mut output = child.wait_with_output().expect("a child");
    story.read_to_string(&mut said).expect("text");
    output.stderr = said.into_bytes();
    output
}

/// Interval at which a wait looks at what it waits for.
#[cfg(target_os = "linux")]
const POLL: Duration = Duration::from_millis(2);

/// Whether a process has had a number of children, one after the other, so that all but the last are done.
#[cfg(target_os = "linux")]
fn children(count: usize) -> impl FnMut(u32) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    move |parent| {
        let processes = std::fs::read_dir("/proc").expect("Linux has it").filter_map(Result::ok);
        let of = |process: &std::fs::DirEntry| {
            let about = std::fs::read_to_string(process.path().join("stat")).ok()?;
            about.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        let own = processes.filter(|process| of(process) == Some(parent));
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
    let output = ended(&["bench", &suite, "--out-csv", &csv, "--plots", &plots], "2 of 2", children(1));
    assert_eq!(code(&output), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).ends_with("interrupted: 1 of 2 cases were run\n"), "{}", stderr(&output));
    assert!(stdout(&output).contains("Interrupted: 1 of 2 case(s) were run.\n"), "{}", stdout(&output));
    let rows = |csv: &str| -> Vec<[String; 3]> {
        let mut reader = csv::Reader::from_path(csv).expect("it was written");
        reader
            .records()
            .map(|row| row.map(|row| [3, 5, 15].map(|at| row[at].to_owned())).expect("CSV"))
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
    let arguments = ["bench", &suite, "--out-csv", &csv, "--journal", &journal];
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
    let output = ended(&["bench", &suite, "--out-csv", &csv], "1 of 1", children(1));
    assert_eq!((code(&output), stdout(&output)), (Some(5), String::new()), "{}", stderr(&output));
    assert!(!PathBuf::from(&csv).exists());
}

#[cfg(feature = "policy")]
#[test]
fn a_suite_runs_variants_and_tells_their_checkpoints_apart() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/data/policy/checkpoint.safetensors");
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
    let broken = run(&["bench", &file, "--journal", &journal]);
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
        let output = run(&["bench", &suite, "--journal", &journal]);
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
    let one = run(&["bench", &suite]);
    let two = run(&["bench", &suite, "--jobs", "2", "--plots", &plots]);
    assert_eq!(code(&two), Some(0), "{}", stderr(&two));
    assert_eq!(columns(&one), columns(&two));
    assert!(stdout(&two).contains("| dp | 1 | 1 | 1 | 1.0000 | 1.0000 |"), "{}", stdout(&two));
    for name in ["profile.svg", "means.svg"] {
        let text = std::fs::read_to_string(path(&folder, &format!("plots/{name}"))).expect("a plot");
        let drawing = roxmltree::Document::parse(&text).expect("XML");
        assert_eq!(drawing.root_element().tag_name().name(), "svg");
        assert!(text.contains("one-device") && text.contains("pair"), "{name} names what it shows");
    }
    assert_eq!(code(&run(&["bench", &suite, "--jobs", "0"])), Some(2));
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
fn rows_of(file: &str) -> Vec<[String; 8]> {
    let mut reader = csv::Reader::from_path(file).expect("it was written");
    let rows = reader.records().map(|row| row.expect("it is CSV"));
    rows.map(|row| [0, 3, 4, 5, 6, 7, 8, 15].map(|at| row[at].to_owned())).collect()
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
    let at = |name: &str| path(&folder, name);
    let (suite, whole, merged) = (at("suite.toml"), at("whole.csv"), at("merged.csv"));
    assert_eq!(code(&run(&["bench", &suite, "--out-csv", &whole])), Some(0));
    let journals = ["one", "two", "three"].map(at);
    for (shard, journal) in ["1/3", "2/3", "3/3"].iter().zip(&journals) {
        let output = run(&["bench", &suite, "--shard", shard, "--journal", journal]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    }
    let [one, two, three] = &journals;
    let all = at("all");
    let merge = ["bench", "merge", &suite, one, two, three, two, "--journal", &all, "--out-csv", &merged];
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
    let part = run(&["bench", "merge", &suite, one, three, "--journal", &at("part"), "--out-csv", &merged]);
    assert_eq!(code(&part), Some(4), "{}", stderr(&part));
    assert!(stdout(&part).contains("Partial: 7 of 10 case(s) were run.\n"), "{}", stdout(&part));
    assert_eq!(stdout(&part).matches("| not run |").count(), 3);
    assert_eq!(rows_of(&merged).iter().filter(|row| row[3] == "not run").count(), 3);
}

#[test]
fn journals_of_other_suites_and_builds_are_not_merged() {
    let folder = ten();
    let at = |name: &str| path(&folder, name);
    let (suite, journal, out) = (at("suite.toml"), at("journal"), at("out"));
    assert_eq!(code(&run(&["bench", &suite, "--shard", "2/5", "--journal", &journal])), Some(0));
    let text = std::fs::read_to_string(&journal).expect("a journal");
    let digest = {
        let line: serde_json::Value =
            serde_json::from_str(text.lines().nth(1).expect("a row")).expect("a row is JSON");
        line["case"][0].as_str().expect("a digest").to_owned()
    };
    std::fs::write(at("build"), text.replace(&digest, "other")).expect("room");
    std::fs::write(at("none"), "no journal\n").expect("room");
    let other = std::fs::read_to_string(&suite).expect("a suite") + "repeat = 2\n";
    std::fs::write(at("other.toml"), other).expect("room");
    for (suite, journal, said) in [
        (&suite, at("build"), "error[B008]: another build of the program wrote the journal"),
        (&at("other.toml"), journal.clone(), "error[B008]: the journal is of another suite"),
        (&suite, at("none"), "error[B005]"),
    ] {
        let output = run(&["bench", "merge", suite, &journal, "--journal", &out]);
        assert_eq!(code(&output), Some(2));
        assert!(stderr(&output).starts_with(said), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("--> {journal}\n")), "{}", stderr(&output));
        assert!(!PathBuf::from(&out).exists(), "nothing is written");
    }
    for shard in ["0/2", "3/2", "half"] {
        let output = run(&["bench", &suite, "--shard", shard]);
        assert!(stderr(&output).starts_with("error[U001]"), "{}", stderr(&output));
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
    let at = |name: &str| path(&folder, name);
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
    std::fs::write(at("mine.json"), claims.to_string()).expect("room");
    let devices: Vec<serde_json::Value> = dp["devices"].as_array().expect("devices").clone();
    let operators: Vec<&serde_json::Value> =
        devices.iter().flat_map(|device| device["ops"].as_array().expect("operators")).collect();
    std::fs::create_dir(at("plans")).expect("room");
    let on_one = serde_json::json!({"devices": [{"name": devices[0]["name"], "ops": operators}]});
    std::fs::write(at("plans/model.json"), on_one.to_string()).expect("room");
    let (file, table, journal) = (at("suite.toml"), at("table.csv"), at("journal"));
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
        &format!("one={}", at("plans/model.json")),
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
    std::fs::write(at("mine.json"), on_one.to_string()).expect("room");
    let again = run(&["bench", &file, "--out-csv", &table, "--journal", &journal]);
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

/// The example of `docs/solvers.md`; `None` without Python.
#[cfg(unix)]
fn example() -> Option<String> {
    if Command::new("python3").arg("--version").output().is_err() {
        // Written directly, so that it shows although the output of tests is captured.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"skipped: there is no python3\n");
        return None;
    }
    let page = std::fs::read_to_string(root().join("docs/solvers.md")).expect("the page is there");
    let example = page.split("```python\n").nth(1).and_then(|text| text.split("```").next());
    Some(example.expect("the page has an example").to_owned())
}

#[cfg(unix)]
#[test]
fn a_solver_in_another_language_takes_part() {
    let Some(example) = example() else { return };
    let commands = [
        ("mine", "[\"python3\", \"mine.py\"]"),
        ("fails", "[\"sh\", \"-c\", \"echo out of luck >&2; exit 3\"]"),
        ("wrong", "[\"sh\", \"-c\", \"echo []\"]"),
        ("absent", "[\"no-such-program\"]"),
        ("heavy", "[\"python3\", \"heavy.py\"]"),
    ];
    let names: Vec<String> = commands.iter().map(|(name, _)| format!("\"exec:{name}\"")).collect();
    let tables: String = commands
        .iter()
        .map(|(name, command)| format!("[[exec]]\nname = \"{name}\"\ncommand = {command}\n"))
        .collect();
    let suite = |names: &str, tables: &str| {
        format!(
            "name = \"exec\"\ninputs = [\"model.json\"]\nclusters = [\"cluster.toml\"]\n\
             objectives = [{{ split = \"free\" }}]\nsolvers = [\"local\", {names}]\ntime_limit = \"10m\"\n{tables}"
        )
    };
    let text = suite(&names.join(", "), &tables);
    let heavy = "import shutil, sys\nshutil.copy(sys.argv[1], \"seen.json\")\nprint([0, 0, 0, 0])\n";
    let (model, cluster) = (chain(4), cluster(2));
    let folder = folder(&[
        ("suite.toml", &text),
        ("mine.py", &example),
        ("heavy.py", heavy),
        ("model.json", &model),
        ("cluster.toml", &cluster),
    ]);
    let at = |name: &str| path(&folder, name);
    let (file, table, journal) = (at("suite.toml"), at("table.csv"), at("journal"));
    let output = run(&["bench", &file, "--allow-exec", "--out-csv", &table, "--journal", &journal]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let rows = rows_of(&table);
    let status = |name: &str| &rows.iter().find(|row| row[1] == format!("exec:{name}")).expect("a row")[3];
    assert_eq!(status("fails"), "exit code 3: out of luck");
    assert!(status("wrong").starts_with("its plan cannot be read: "), "{rows:?}");
    assert!(status("absent").starts_with("cannot start `no-such-program`: "), "{rows:?}");
    assert_eq!(status("heavy"), "its plan is infeasible: memory");
    assert!(["feasible", "optimal"].contains(&status("mine").as_str()), "{rows:?}");
    let own = rows.iter().find(|row| row[1] == "exec:mine").expect("a row")[4].parse::<f64>();
    assert!(own.expect("a value") >= rows[0][4].parse::<f64>().expect("a value") * (1.0 - 1e-9));
    let schema = std::fs::read_to_string(root().join("data/schema/problem.schema.json")).expect("a schema");
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
    let seen = std::fs::read_to_string(at("seen.json")).expect("it runs in the folder of the suite");
    let seen: serde_json::Value = serde_json::from_str(&seen).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    assert!(validator.is_valid(&seen), "{seen}");
    assert_eq!(seen["devices"], serde_json::json!(["acc0", "acc1"]));
    assert_eq!((&seen["objective"]["split"], &seen["seed"]), (&"free".into(), &0.into()));
    let limit = seen["time_limit_s"].as_f64().expect("a limit");
    assert!(limit > 0.0 && limit <= 600.0, "{limit}");
    // What failed in another program may succeed now; nothing else is run again.
    let again = stderr(&run(&["bench", &file, "--allow-exec", "--journal", &journal]));
    let failed = ["exec:fails", "exec:wrong", "exec:absent", "exec:heavy"];
    assert!(again.lines().zip(failed).all(|(line, solver)| line.contains(solver)), "{again}");
    assert_eq!(again.lines().count(), failed.len());
    std::fs::write(at("mine.py"), example + "\n").expect("room");
    let again = run(&["bench", &file, "--allow-exec", "--journal", &journal]);
    assert_eq!(
        stderr(&again).matches("exec:mine").count(),
        1,
        "another script is another case: {}",
        stderr(&again)
    );
    // The same commands beside solvers on the command line.
    let compared = run(&[
        "compare",
        &at("model.json"),
        "--cluster",
        &at("cluster.toml"),
        "--split",
        "free",
        "--json",
        "--solvers",
        &format!("local,exec:python3 {},exec:no-such-program", at("mine.py")),
    ]);
    assert_eq!(code(&compared), Some(0), "{}", stderr(&compared));
    let reasons: Vec<bool> = json(&compared)["models"][0]["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["reason"].is_null())
        .collect();
    assert_eq!(reasons, [true, true, false]);
    let bound =
        run(&["bound", &at("model.json"), "--cluster", &at("cluster.toml"), "--solver", "exec:touch"]);
    assert!(stderr(&bound).starts_with("error[U004]: a solver in another program proves no bound"));
    for (names, tables) in [
        ("\"exec:mine\"", ""),
        ("", "[[exec]]\nname = \"mine\"\ncommand = [\"x\"]\n"),
        ("\"exec:mine\"", "[[exec]]\nname = \"mine\"\ncommand = []\n"),
    ] {
        std::fs::write(&file, suite(names, tables)).expect("room");
        assert!(stderr(&run(&["bench", &file])).starts_with("error[B002]"), "{names} {tables}");
    }
    assert!(stderr(&run(&["plan", &at("model.json"), "--solver", "exec: "])).starts_with("error[U001]"));
}

/// Whether a process with this word among its arguments runs.
#[cfg(target_os = "linux")]
fn runs(word: &str) -> bool {
    command_lines().any(|line| line.split('\0').any(|argument| argument == word))
}

/// Whether a process runs whose arguments contain a text.
#[cfg(target_os = "linux")]
fn is_mentioned(text: &str) -> bool {
    command_lines().any(|line| line.contains(text))
}

/// Arguments of all processes, with a null character after each.
#[cfg(target_os = "linux")]
fn command_lines() -> impl Iterator<Item = String> {
    let processes = std::fs::read_dir("/proc").expect("Linux has it").filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// A suite of one command in Bash, which identifies its processes by a word.
#[cfg(target_os = "linux")]
fn of_command(script: &str, limit: &str) -> String {
    format!(
        "name = \"slow\"\ninputs = [{:?}]\nclusters = [{:?}]\nsolvers = [\"exec:slow\"]\ntime_limit = \"{limit}\"\n\
         [[exec]]\nname = \"slow\"\ncommand = [\"bash\", \"-c\", {script:?}]\n",
        demo("model.json"),
        demo("cluster.toml"),
    )
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_ends_with_its_limit_and_its_children_with_it() {
    // The number of seconds identifies the processes of this test.
    let seconds = "98765.25";
    let folder =
        folder(&[("limited.toml", &of_command(&format!("sleep {seconds} & sleep {seconds}"), "100ms"))]);
    let table = path(&folder, "table.csv");
    let output = run(&["bench", &path(&folder, "limited.toml"), "--allow-exec", "--out-csv", &table]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(rows_of(&table)[0][3], "no plan within the time limit and 5 s");
    assert!(!runs(seconds), "its child is killed as well");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_a_command_and_its_children() {
    let seconds = "98765.75";
    let folder =
        folder(&[("ended.toml", &of_command(&format!("sleep {seconds} & sleep {seconds}"), "none"))]);
    let output = ended(&["bench", &path(&folder, "ended.toml"), "--allow-exec"], "1 of 1", |_| runs(seconds));
    assert_eq!(code(&output), Some(5), "{}", stderr(&output));
    assert!(!runs(seconds), "an interrupt ends it");
}

/// Ways to leave the process group, to lose the parent, to ignore signals and to keep or close the pipes.
#[cfg(target_os = "linux")]
const ESCAPES: [&str; 5] = [
    "setsid bash -c 'trap \"\" TERM INT HUP; while :; do sleep SECONDS; done' >/dev/null 2>&1 &",
    "setsid bash -c 'trap \"\" TERM INT HUP; sleep SECONDS; sleep SECONDS' &",
    "(setsid bash -c '(sleep SECONDS; :) & (sleep SECONDS; :) &' &)",
    "(setsid sleep SECONDS <&- >&- 2>&- &)",
    "exec >&- 2>&-; for number in 1 2 3; do (setsid setsid sleep SECONDS &) & done",
];

#[cfg(target_os = "linux")]
#[test]
fn nothing_that_a_command_started_survives_it() {
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let late = "no plan within the time limit and 5 s";
    for (number, (end, limit, said)) in [
        ("exit 3", "none", "exit code 3"),
        ("exec sleep 98764", "100ms", late),
        ("trap '' TERM INT HUP; while :; do sleep 98764; done", "100ms", late),
    ]
    .into_iter()
    .enumerate()
    {
        let seconds = |way: usize| format!("9876{number}.{way}");
        let escape = |(way, escape): (usize, &str)| {
            // Only what runs can be left behind. The pattern does not match itself.
            let is_there = format!("until grep -qs '[9]876{number}.{way}' /proc/[0-9]*/cmdline; do :; done");
            format!("{}\n{is_there}\n", escape.replace("SECONDS", &seconds(way)))
        };
        let script = ESCAPES.into_iter().enumerate().map(escape).collect::<String>() + end;
        let folder = folder(&[("escape.sh", &script)]);
        let solver = format!("exec:bash {}", path(&folder, "escape.sh"));
        let arguments =
            ["plan", &model, "--cluster", &cluster, "--solver", &solver, "--time-limit", limit, "--json"];
        assert_eq!(json(&run(&arguments))["reason"], said, "{script}");
        let left: Vec<usize> = (0..ESCAPES.len()).filter(|&way| is_mentioned(&seconds(way))).collect();
        assert!(left.is_empty(), "{left:?}: {script}");
    }
}

#[cfg(unix)]
#[test]
fn a_flood_of_a_command_is_read_as_it_comes() {
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let flood = |bytes: usize, to: &str, end: &str| {
        let script = format!("head -c {bytes} /dev/zero | tr '\\0' x {to}\n{end}\n");
        let folder = folder(&[("flood.sh", &script)]);
        let solver = format!("exec:bash {}", path(&folder, "flood.sh"));
        let output = run(&[
            "plan",
            &model,
            "--cluster",
            &cluster,
            "--solver",
            &solver,
            "--time-limit",
            "10m",
            "--json",
        ]);
        assert!(output.stdout.len() < 100_000 && output.stderr.len() < 10_000, "{bytes} bytes {to}");
        json(&output)["reason"].as_str().expect("a reason").to_owned()
    };
    let is_short = |reason: &str, start: &str| {
        assert!(reason.starts_with(start) && reason.chars().count() <= 201, "{reason}");
    };
    is_short(&flood(100_000_000, ">&2", "exit 4"), "exit code 4: xxx");
    is_short(&flood(16_000_000, ">&2", "echo >&2; echo the cause >&2; exit 4"), "exit code 4: the cause");
    is_short(&flood(16_000_000, "", ""), "its plan cannot be read: ");
    is_short(&flood(100_000_000, "", ""), "it wrote more than 64 MiB");
    // A flood does not end by itself; a reader that stops listening ends it.
    is_short(&flood(1, "", "exec yes"), "it wrote more than 64 MiB");
}

#[cfg(target_os = "linux")]
#[test]
fn a_flood_does_not_keep_a_signal_waiting() {
    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let seconds = "98763.5";
    let folder = folder(&[("flood.sh", &format!("trap '' TERM INT HUP\nyes >&2 &\nsleep {seconds}\n"))]);
    let solver = format!("exec:bash {}", path(&folder, "flood.sh"));
    let arguments =
        ["plan", &model, "--cluster", &cluster, "--solver", &solver, "--time-limit", "none", "--json"];
    let output = ended(&arguments, "", |_| runs(seconds));
    assert_eq!(json(&output)["reason"], "interrupted");
    assert!(!runs(seconds));
}

#[test]
fn a_suite_with_commands_runs_only_where_that_is_allowed() {
    let suite = "name = \"x\"\ninputs = [\"model.json\"]\nclusters = [\"cluster.toml\"]\nsolvers = [\"dp\", \"exec:mine\"]\n\
                 [[exec]]\nname = \"mine\"\ncommand = [\"touch\", \"it ran\"]\n";
    let (model, cluster) = (chain(4), cluster(2));
    let folder = folder(&[("suite.toml", suite), ("model.json", &model), ("cluster.toml", &cluster)]);
    let (file, journal) = (path(&folder, "suite.toml"), path(&folder, "journal"));
    let mark = folder.path().join("it ran");
    for more in [&[][..], &["--shard", "1/2"], &["--jobs", "2"], &["--journal", &journal]] {
        let refused = run(&[&["bench", &file], more].concat());
        assert_eq!(code(&refused), Some(2), "{more:?}");
        let said = stderr(&refused);
        assert!(said.starts_with("error[B009]: the suite runs commands: touch 'it ran'"), "{said}");
        assert!(said.contains("--allow-exec"), "{said}");
        assert!(!mark.exists(), "{more:?}");
    }
    assert_eq!(code(&run(&["bench", &file, "--allow-exec"])), Some(0));
    assert!(mark.exists());
}
