//! `bench`: tables of suites, resumption from journals, and convergence.

use std::fs::File;
use std::path::PathBuf;
use std::process::Output;
#[cfg(unix)]
use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{chain, cluster, code, command, demo, folder, path, root, run, stderr, stdout};

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

/// Runs a suite until it says a line that begins so, and a while longer, and ends it by a signal that no child of it gets.
#[cfg(unix)]
fn ended(arguments: &[&str], line: &str, longer: Duration) -> (Output, Duration) {
    let mut child =
        command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut story = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.lines().last().is_some_and(|last| last.starts_with(line)) {
        assert_ne!(story.read_line(&mut said).expect("text"), 0, "{said}");
    }
    std::thread::sleep(longer);
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("a system of this kind has it").success());
    let began = Instant::now();
    let mut output = child.wait_with_output().expect("a child");
    story.read_to_string(&mut said).expect("text");
    output.stderr = said.into_bytes();
    (output, began.elapsed())
}

#[cfg(unix)]
const SOON: Duration = Duration::from_secs(20);

#[cfg(unix)]
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
    let (output, took) =
        ended(&["bench", &suite, "--out-csv", &csv, "--plots", &plots], "2 of 2", Duration::from_secs(1));
    assert!(took < SOON, "{took:?}");
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

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_repeats_of_a_case_and_keeps_those_that_were_made() {
    let folder = pair();
    let (suite, csv, journal) =
        (path(&folder, "suite.toml"), path(&folder, "table.csv"), path(&folder, "journal"));
    let text = std::fs::read_to_string(&suite).expect("a suite") + "repeat = 1000000\n";
    std::fs::write(&suite, text).expect("room");
    let arguments = ["bench", &suite, "--out-csv", &csv, "--journal", &journal];
    let (output, took) = ended(&arguments, "1 of 2", Duration::from_secs(4));
    assert!(took < SOON, "{took:?}");
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

#[cfg(unix)]
#[test]
fn an_interrupt_before_anything_was_run_has_no_table() {
    let folder = pair();
    let (suite, csv) = (path(&folder, "suite.toml"), path(&folder, "table.csv"));
    let text =
        std::fs::read_to_string(&suite).expect("a suite").replace("\"dp\", \"one-device\"", "\"annealing\"");
    std::fs::write(&suite, text + "objectives = [{ objective = \"makespan\" }]\ntime_limit = \"10m\"\n")
        .expect("room");
    let (output, took) = ended(&["bench", &suite, "--out-csv", &csv], "1 of 1", Duration::from_secs(1));
    assert!(took < SOON, "{took:?}");
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
