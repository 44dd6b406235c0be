//! Solvers in other programs: their place in suites and comparisons, and the end of everything that they start.

#[cfg(unix)]
use std::process::{Command, Stdio};

#[cfg(target_os = "linux")]
use super::suites::ended;
#[cfg(unix)]
use super::suites::rows_of;
use super::{chain, cluster, code, command, folder, path, run, stderr};
#[cfg(unix)]
use super::{demo, json, root};

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
    let in_folder = |name: &str| path(&folder, name);
    let (file, table, journal) = (in_folder("suite.toml"), in_folder("table.csv"), in_folder("journal"));
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
    let seen = std::fs::read_to_string(in_folder("seen.json")).expect("it runs in the folder of the suite");
    let seen: serde_json::Value = serde_json::from_str(&seen).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    assert!(validator.is_valid(&seen), "{seen}");
    assert_eq!(seen["devices"], serde_json::json!(["acc0", "acc1"]));
    assert_eq!((&seen["objective"]["split"], &seen["seed"]), (&"free".into(), &0.into()));
    let limit = seen["time_limit_s"].as_f64().expect("a limit");
    assert!(limit > 0.0 && limit <= 600.0, "{limit}");
    // Cases that failed in another program may succeed now; no others are run again.
    let again = stderr(&run(&["bench", "-v", &file, "--allow-exec", "--journal", &journal]));
    let failed = ["exec:fails", "exec:wrong", "exec:absent", "exec:heavy"];
    assert!(again.lines().zip(failed).all(|(line, solver)| line.contains(solver)), "{again}");
    assert_eq!(again.lines().filter(|line| line.contains("exec:")).count(), failed.len());
    std::fs::write(in_folder("mine.py"), example + "\n").expect("room");
    let again = run(&["bench", "-v", &file, "--allow-exec", "--journal", &journal]);
    assert_eq!(
        stderr(&again).matches("exec:mine").count(),
        1,
        "another script is another case: {}",
        stderr(&again)
    );
    // The same commands beside solvers on the command line.
    let compared = run(&[
        "compare",
        &in_folder("model.json"),
        "--cluster",
        &in_folder("cluster.toml"),
        "--split",
        "free",
        "--json",
        "--solvers",
        &format!("local,exec:python3 {},exec:no-such-program", in_folder("mine.py")),
    ]);
    assert_eq!(code(&compared), Some(0), "{}", stderr(&compared));
    let reasons: Vec<bool> = json(&compared)["models"][0]["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["reason"].is_null())
        .collect();
    assert_eq!(reasons, [true, true, false]);
    let bound = run(&[
        "bound",
        &in_folder("model.json"),
        "--cluster",
        &in_folder("cluster.toml"),
        "--solver",
        "exec:touch",
    ]);
    assert!(stderr(&bound).starts_with("error[U004]: a solver in another program proves no bound"));
    for (names, tables) in [
        ("\"exec:mine\"", ""),
        ("", "[[exec]]\nname = \"mine\"\ncommand = [\"x\"]\n"),
        ("\"exec:mine\"", "[[exec]]\nname = \"mine\"\ncommand = []\n"),
    ] {
        std::fs::write(&file, suite(names, tables)).expect("room");
        assert!(stderr(&run(&["bench", &file])).starts_with("error[B002]"), "{names} {tables}");
    }
    assert!(
        stderr(&run(&["plan", &in_folder("model.json"), "--solver", "exec: "])).starts_with("error[U001]")
    );
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

/// A number of seconds that identifies the processes of a test, also where another test run has the same tests.
#[cfg(target_os = "linux")]
fn marked(seconds: &str) -> String {
    format!("{seconds}{:010}", std::process::id())
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
    let seconds = &marked("98765.25");
    let folder =
        folder(&[("limited.toml", &of_command(&format!("sleep {seconds} & sleep {seconds}"), "100ms"))]);
    let table = path(&folder, "table.csv");
    let output = run(&["bench", &path(&folder, "limited.toml"), "--allow-exec", "--out-csv", &table]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(rows_of(&table)[0][3], "no plan within the time limit and 5 s");
    assert!(!runs(seconds), "its child is killed as well");
}

/// A solve handles an interrupt itself; nothing before it does.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_program_before_its_inputs_are_read() {
    use std::os::unix::process::ExitStatusExt;

    let mut child = command(&["plan", "-", "--cluster", "4xt4"]);
    // Standard input stays open, and nothing is written to it.
    let mut child = child.stdin(Stdio::piped()).spawn().expect("the program starts");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("it exists");
    assert!(sent.success());
    assert_eq!(child.wait().expect("a child").signal(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_a_command_and_its_children() {
    let seconds = &marked("98765.75");
    let folder =
        folder(&[("ended.toml", &of_command(&format!("sleep {seconds} & sleep {seconds}"), "none"))]);
    let output =
        ended(&["bench", "-v", &path(&folder, "ended.toml"), "--allow-exec"], "1 of 1", |_| runs(seconds));
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
        let seconds = |way: usize| marked(&format!("9876{number}.{way}"));
        let escape = |(way, escape): (usize, &str)| {
            // Only running processes can be left behind. The pattern does not match itself.
            let pattern = seconds(way).replacen('9', "[9]", 1);
            let is_there = format!("until grep -qs '{pattern}' /proc/[0-9]*/cmdline; do :; done");
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

/// A shell that becomes the program leaves its background jobs to it.
#[cfg(target_os = "linux")]
#[test]
fn what_ran_before_a_command_survives_it() {
    let (earlier, started) = (&marked("98762.25"), &marked("98762.75"));
    let call = "sleep \"$1\" >/dev/null 2>&1 & echo $!; shift; exec \"$@\"";
    let folder = folder(&[("command.sh", &format!("(setsid sleep {started} &)\necho []\n"))]);
    let solver = format!("exec:bash {}", path(&folder, "command.sh"));
    let program = env!("CARGO_BIN_EXE_stagewright");
    let (model, cluster, out) = (demo("model.json"), demo("cluster.toml"), path(&folder, "plan.json"));
    let plan = [program, "plan", &model, "--cluster", &cluster, "--solver", &solver, "--out", &out];
    let shell = Command::new("bash").args(["-c", call, "bash", earlier]).args(plan).output();
    let said = shell.expect("bash is there").stdout;
    let is_there = runs(earlier);
    let number = String::from_utf8_lossy(&said).lines().next().map(str::to_owned);
    let killed = Command::new("kill").args(number).status().expect("Linux has it");
    assert!(is_there && killed.success());
    assert!(!runs(started), "what the command started is ended");
    assert!(std::path::Path::new(&out).exists());
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
    let seconds = &marked("98763.5");
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
