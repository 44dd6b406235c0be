//! Import options are stored in the plan.

use serde_json::json;

use super::{code, command, demo, folder, path, plan_demo, stderr, stdout};

#[test]
fn options_of_the_model_need_not_be_given_again() {
    let folder = folder(&[]);
    let plan = path(&folder, "plan.json");
    let made = plan_demo(&["--batch", "4", "--memory-reserve", "1MiB", "--out", &plan]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    assert!(stdout(&made).contains(" samples per second"), "{}", stdout(&made));
    let text = std::fs::read_to_string(&plan).expect("the plan was written");
    let kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(kept["model"], json!({"batch": 4, "memory_reserve": 1048576}));

    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let check = |more: &[&str]| {
        let arguments = [&["check", &model, &plan, "--cluster", &cluster], more].concat();
        command(&arguments).output().expect("the program starts")
    };
    let again = check(&[]);
    assert!(stdout(&again).contains(" samples per second"), "{}", stdout(&again));
    assert!(!stderr(&again).contains("was made with"), "{}", stderr(&again));
    let other = check(&["--batch", "8"]);
    assert!(stderr(&other).contains("note: --batch is 8"), "{}", stderr(&other));
}

/// An option without effect is an error, not silently ignored.
#[test]
fn options_that_a_format_has_no_use_for_are_refused() {
    for (option, value) in [
        ("--dim", "sequence=4"),
        ("--context", "4"),
        ("--precision", "fp16"),
        ("--fusion", "off"),
        ("--time-unit", "ms"),
        ("--profile-class", "acc"),
        ("--gradients", "reversed"),
    ] {
        let refused = plan_demo(&[option, value]);
        assert_eq!(code(&refused), Some(2), "{option}");
        assert!(stderr(&refused).starts_with("error[U012]: "), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(&format!("--> {option}\n")), "{}", stderr(&refused));
    }
    let told = plan_demo(&["--batch", "4"]);
    assert_eq!(code(&told), Some(0));
    assert!(stderr(&told).contains("--batch 4 does not change the costs of the file"), "{}", stderr(&told));
}

#[test]
fn threads_have_an_upper_bound() {
    let refused = plan_demo(&["--threads", "100000"]);
    assert_eq!(code(&refused), Some(2));
    assert!(stderr(&refused).contains("at most 512"), "{}", stderr(&refused));
}
