//! Searches that start from the plan of a sibling: the same architecture with another length.

use super::{chain, cluster, code, folder, json, path, root, run, stderr, stdout};

const CLUSTER: &str = "--cluster=2xv100:fp32@nvlink";

#[test]
fn a_search_starts_from_the_plan_of_a_sibling() {
    let folder = folder(&[]);
    let in_folder = |name: &str| path(&folder, name);
    for (name, steps) in [("small.json", "4"), ("large.json", "12")] {
        let made = run(&["workload", "rnnlm", "--sequence", steps, "--training", "--out", &in_folder(name)]);
        assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    }
    let (small, large, plan) = (in_folder("small.json"), in_folder("large.json"), in_folder("plan.json"));
    // Counted work, so that the plans are the same on any machine.
    let annealing = ["--objective=makespan", "--solver=annealing", CLUSTER];
    let solved = run(&[&["plan", &small, "--simulations", "3000", "--out", &plan][..], &annealing].concat());
    assert_eq!(code(&solved), Some(0), "{}", stderr(&solved));
    let value = |start: &[&str]| {
        let output =
            run(&[&["plan", &large, "--simulations", "0", "--json"][..], &annealing, start].concat());
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert_eq!(stderr(&output), "", "all operators have a counterpart");
        json(&output)
    };
    let carried = value(&["--start", &plan]);
    let [carried_value, listed] =
        [&carried, &value(&[])].map(|plan| plan["objective"]["value_s"].as_f64().expect("a value"));
    assert!(carried_value < 0.9 * listed, "{carried_value} from the sibling, {listed} by list scheduling");
    // The plan of the large model is taken as it is.
    std::fs::write(&plan, carried.to_string()).expect("room");
    assert_eq!(value(&["--start", &plan])["objective"], carried["objective"]);
    let other = root().join("data/demo/model.json").display().to_string();
    let other = run(&["plan", &other, "--start", &plan, CLUSTER]);
    assert!(stderr(&other).starts_with("error[L006]"), "{}{}", stdout(&other), stderr(&other));
}

#[test]
fn a_suite_starts_from_plans_of_siblings() {
    let suite = "name = \"x\"\ninputs = [\"large.json\"]\nclusters = [\"cluster.toml\"]\nsolvers = [\"mine\", \"auto\"]\n\
                 objectives = [{ objective = \"makespan\" }]\ntime_limit = \"10m\"\n\
                 variants = [{ name = \"mine\", solver = \"auto\", start = \"plans/{}.json\" }]\n";
    let (small, large, cluster) = (chain(2), chain(4), cluster(2));
    let folder = folder(&[
        ("suite.toml", suite),
        ("small.json", &small),
        ("large.json", &large),
        ("cluster.toml", &cluster),
    ]);
    std::fs::create_dir(folder.path().join("plans")).expect("room");
    let bench = || run(&["bench", &path(&folder, "suite.toml")]);
    assert!(stdout(&bench()).contains("error[I001]"), "the plan is missing: {}", stdout(&bench()));
    let (small, plan) = (path(&folder, "small.json"), path(&folder, "plans/large.json"));
    let cluster = path(&folder, "cluster.toml");
    let solved = run(&["plan", &small, "--cluster", &cluster, "--objective", "makespan", "--out", &plan]);
    assert_eq!(code(&solved), Some(0), "{}", stderr(&solved));
    let output = bench();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let rows: Vec<String> =
        stdout(&output).lines().filter(|line| line.contains("| mine ")).map(str::to_owned).collect();
    assert!(rows[0].contains("| optimal |"), "{rows:?}");
}

/// The plan of a workload's sibling is that of `plan` with the variant's solver and the case's objective.
#[test]
fn a_suite_plans_siblings_of_its_workloads() {
    let suite = "name = \"x\"\nsolvers = [\"anew\", \"mine\"]\nseeds = [3]\n\
                 objectives = [{ objective = \"makespan\", simulations = 200 }]\n\
                 variants = [{ name = \"mine\", solver = \"annealing\", sibling = \"10m\" }, \
                 { name = \"anew\", solver = \"annealing\" }]\n\
                 [[workloads]]\nname = \"long\"\nmodel = \"rnnlm\"\nsequence = 6\ntraining = true\n\
                 cluster = \"2xv100:fp32@nvlink\"\nsibling = { sequence = 3 }\n";
    let folder = folder(&[("suite.toml", suite)]);
    let in_folder = |name: &str| path(&folder, name);
    let (file, table, journal) = (in_folder("suite.toml"), in_folder("table.csv"), in_folder("journal"));
    let bench = || {
        let output = run(&["bench", "-v", &file, "--out-csv", &table, "--journal", &journal]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        stderr(&output).matches(" of 2: ").count()
    };
    assert_eq!(bench(), 2);
    for (name, steps) in [("small.json", "3"), ("long.json", "6")] {
        let made = run(&["workload", "rnnlm", "--sequence", steps, "--training", "--out", &in_folder(name)]);
        assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    }
    let plan = |model: &str, more: &[&str]| {
        let call =
            ["plan", model, CLUSTER, "--objective=makespan", "--solver=annealing", "--simulations=200"];
        let output = run(&[&call[..], more].concat());
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        output
    };
    let start = in_folder("start.json");
    plan(&in_folder("small.json"), &["--out", &start]);
    let expected = json(&plan(&in_folder("long.json"), &["--json", "--seed=3", "--start", &start]));
    let expected = expected["objective"]["value_s"].as_f64().expect("a value");
    let rows = super::suites::rows_of(&table);
    let [anew, mine] = [&rows[0], &rows[1]].map(|row| row[4].parse::<f64>().expect("a value"));
    assert!((mine / expected - 1.0).abs() < 1e-9, "{mine} and {expected}");
    assert_ne!(anew, mine, "a search from nothing ends elsewhere");
    assert_eq!(bench(), 0, "nothing is run again");
    std::fs::write(&file, suite.replace("sequence = 3", "sequence = 4")).expect("room");
    assert_eq!(bench(), 1, "the case with the sibling");
}
