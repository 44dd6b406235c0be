//! The cluster of Helix (ASPLOS 2025) in one place.

#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use super::{code, folder, json, path, run, stderr, stdout};

/// Helix's own plan serves 1,289.6 tokens a second.
#[test]
fn a_published_cluster_is_proved_optimal() {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return;
    };
    let problem = std::path::Path::new(&shared).join("data/helix/single24.json").display().to_string();
    let files = folder(&[]);
    let plan = path(&files, "plan.json");
    let made = run(&["plan", &problem, "--json", "--out", &plan]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let answer = json(&made);
    assert_eq!((&answer["status"], answer["value"].as_f64()), (&"optimal".into(), Some(2045.641047336)));
    assert!(answer["bound"]["value"].as_f64().is_some_and(|bound| bound < 2045.6411), "{answer}");
    let checked = run(&["check", &problem, &plan]);
    assert_eq!(code(&checked), Some(0), "{}", stdout(&checked));
    assert!(stdout(&checked).contains("verified"), "{}", stdout(&checked));
}
