//! Options of the model are kept in the plan.

use serde_json::json;

use super::{code, command, demo, folder, path, plan_demo, stderr, stdout};

#[test]
fn options_of_the_model_need_not_be_given_again() {
    let folder = folder(&[]);
    let plan = path(&folder, "plan.json");
    let made = plan_demo(&["--batch", "4", "--memory-reserve", "1MiB", "--out", &plan]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    assert!(stdout(&made).contains(" samples a second"), "{}", stdout(&made));
    let text = std::fs::read_to_string(&plan).expect("the plan was written");
    let kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(kept["model"], json!({"batch": 4, "memory_reserve": 1048576}));

    let (model, cluster) = (demo("model.json"), demo("cluster.toml"));
    let check = |more: &[&str]| {
        let arguments = [&["check", &model, &plan, "--cluster", &cluster], more].concat();
        command(&arguments).output().expect("the program starts")
    };
    let again = check(&[]);
    assert!(stdout(&again).contains(" samples a second"), "{}", stdout(&again));
    assert!(!stderr(&again).contains("was made with"), "{}", stderr(&again));
    let other = check(&["--batch", "8"]);
    assert!(stderr(&other).contains("note: --batch is 8"), "{}", stderr(&other));
}

#[test]
fn threads_have_an_upper_bound() {
    let refused = plan_demo(&["--threads", "100000"]);
    assert_eq!(code(&refused), Some(2));
    assert!(stderr(&refused).contains("at most 512"), "{}", stderr(&refused));
}
