//! Content and usage of the page.

use serde_json::json;
use stagewright::report::units;

use crate::browser::chromium::Browser;
use crate::browser::pages::{chain, demo, plan, run};

/// JavaScript expression for the number of visible boxes of the graph.
const BOXES: &str = "document.querySelectorAll('[role=treeitem]').length";
/// JavaScript expression for the box with a name.
fn box_of(name: &str) -> String {
    let name = json!(name);
    format!(
        "[...document.querySelectorAll('.box')].find((box) => box.querySelector('.title').textContent === {name})"
    )
}

/// Exact value that an element holds.
fn exact(browser: &mut Browser, selector: &str) -> f64 {
    let value = browser.evaluate(&format!("document.querySelector({}).value", json!(selector)));
    value.as_str().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn the_page_says_what_the_plan_says() {
    let Some(mut browser) = Browser::start() else { return };
    let made = demo();
    browser.open(&made.page);
    let value = made.plan["objective"]["value_s"].as_f64().expect("a value");
    assert_eq!(exact(&mut browser, "#value data"), value);
    assert_eq!(browser.text("#value"), units::seconds(value));
    let bound = made.plan["bound"]["value_s"].as_f64().expect("a bound");
    assert_eq!(exact(&mut browser, "#bound data"), bound);
    assert_eq!(browser.text("#gap"), units::percent(made.plan["gap"].as_f64().expect("a gap")));
    assert_eq!(browser.text("#status"), made.plan["status"].as_str().expect("a status"));
    let devices = made.plan["devices"].as_array().expect("devices");
    let rows = browser.evaluate(
        "[...document.querySelectorAll('#device-table tbody tr')].map((row) => \
         [row.cells[0].textContent, ...[...row.querySelectorAll('data')].map((it) => Number(it.value))])",
    );
    let told: Vec<_> = devices
        .iter()
        .map(|device| {
            let row: Vec<_> = ["load_s", "compute_s", "communication_s", "memory_bytes"]
                .map(|field| device[field].clone())
                .into();
            (device["name"].clone(), row)
        })
        .collect();
    for (row, (name, figures)) in rows.as_array().expect("rows").iter().zip(&told) {
        assert_eq!(row[0], *name);
        for (index, figure) in figures.iter().enumerate() {
            assert_eq!(row[index + 1].as_f64(), figure.as_f64(), "{name} {index}");
        }
    }
    assert_eq!(rows.as_array().map(Vec::len), Some(told.len()));
    let held = browser
        .evaluate("JSON.parse(document.getElementById('scene').textContent).graph.operators.group.length");
    let operators: usize = devices.iter().map(|device| device["ops"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!(held.as_u64(), Some(operators as u64));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_run_shows_what_happened_beside_what_was_predicted() {
    let Some(mut browser) = Browser::start() else { return };
    browser.resize(1280, 900);
    browser.open(&run().page);
    assert_eq!(exact(&mut browser, "#predicted data"), 2.0);
    assert_eq!(exact(&mut browser, "#measured data"), 2.1);
    assert_eq!(browser.text("#error"), "-4.8%");
    let rows =
        "[...document.querySelectorAll('#timeline-rows .does')].map((row) => row.textContent).join(' ')";
    assert_eq!(browser.evaluate(rows), "computes sends predicted computes receives predicted");
    // The first activity that the cursor reaches is the first sample of the first device.
    browser.evaluate(
        "document.getElementById('timeline-rows').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))",
    );
    let said = browser.text("#timeline-said");
    assert!(said.starts_with("acc0 computes: sample 0 from 0 s, for 2.1"), "{said}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn boxes_open_and_close_by_click_and_by_key() {
    let Some(mut browser) = Browser::start() else { return };
    let made = demo();
    browser.resize(1280, 900);
    browser.open(&made.page);
    let before = browser.evaluate(BOXES).as_u64().expect("a count");
    let layer = box_of("layer.3");
    let expanded = format!("{layer}.getAttribute('aria-expanded')");
    assert_eq!(browser.evaluate(&expanded), "false");
    browser.click(&format!("{layer}.querySelector('.face')"));
    assert_eq!(browser.evaluate(&expanded), "true");
    let open = browser.evaluate(BOXES).as_u64().expect("a count");
    assert!(open > before, "{open} boxes after a click, {before} before it");
    browser.click(&format!("{layer}.querySelector('.title')"));
    assert_eq!(browser.evaluate(BOXES).as_u64(), Some(before));

    // From here on only the keyboard is used: the clicked box has the focus.
    assert_eq!(browser.evaluate(&format!("document.activeElement === {layer}")), true);
    for key in ["Enter", " ", "ArrowRight"] {
        browser.press(key);
        let is_open = key != " ";
        assert_eq!(browser.evaluate(&expanded), is_open.to_string(), "after {key:?}");
    }
    browser.press("ArrowRight");
    assert_eq!(browser.evaluate(&format!("{layer}.contains(document.activeElement)")), true);
    assert_eq!(browser.evaluate("document.activeElement.hasAttribute('aria-expanded')"), false);
    browser.press("ArrowLeft");
    assert_eq!(browser.evaluate(&format!("document.activeElement === {layer}")), true);
    browser.press("ArrowLeft");
    assert_eq!(browser.evaluate(&expanded), "false");
    browser.press("End");
    let last = "[...document.querySelectorAll('[role=treeitem]')].at(-1)";
    assert_eq!(browser.evaluate(&format!("document.activeElement === {last}")), true);
    browser.press("Home");
    assert_eq!(
        browser.evaluate("document.activeElement === document.querySelector('[role=treeitem]')"),
        true
    );
    // Exactly one box is in the tab order, and its focus is visible.
    assert_eq!(browser.evaluate("document.querySelectorAll('[role=treeitem][tabindex=\"0\"]').length"), 1);
    let outline = "getComputedStyle(document.activeElement.querySelector('.face')).outlineStyle";
    assert_eq!(browser.evaluate(outline), "solid");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn everything_is_reached_by_tab() {
    let Some(mut browser) = Browser::start() else { return };
    browser.resize(1280, 900);
    browser.open(&demo().page);
    let mut reached = Vec::new();
    for _ in 0..60 {
        browser.press("Tab");
        let focused = browser.evaluate(
            "document.activeElement.className || document.activeElement.id || document.activeElement.localName",
        );
        reached.push(focused.as_str().unwrap_or_default().to_owned());
    }
    let place = |name: &str| {
        let place = reached.iter().position(|it| it == name);
        place.unwrap_or_else(|| panic!("{name} is not reached by Tab: {reached:?}"))
    };
    let order = ["skip", "quiet", "graph-expand", "timeline scroll tall"].map(place);
    assert!(order.is_sorted(), "{reached:?}");
    assert!(reached.iter().any(|it| it.starts_with("box")), "{reached:?}");
    assert!(reached.iter().any(|it| it == "summary"), "{reached:?}");
}

#[test]
fn an_operator_tells_its_details() {
    let Some(mut browser) = Browser::start() else { return };
    let made = chain(&[("first", None), ("second", None), ("third", None)], 2, &[]);
    browser.resize(1280, 900);
    browser.open(&made.page);
    browser.point(&format!("{}.querySelector('.face')", box_of("second")));
    let shown = browser.text("#graph-details");
    for word in
        ["second", "acc", units::seconds(1.0).as_str(), "100 B", "Reads from", "first", "Read by", "third"]
    {
        assert!(shown.contains(word), "{word} is not in {shown}");
    }
    browser.evaluate(&format!("{}.focus()", box_of("third")));
    let shown = browser.text("#graph-details");
    assert!(shown.starts_with("third") && shown.contains("second") && !shown.contains("Read by"), "{shown}");
    // The timeline describes the running task, for the pointer and for the keyboard. In the middle of the step, acc0 is
    // already idle: its rows describe nothing, but those of acc1 do.
    let rows = "document.querySelectorAll('#timeline-rows canvas')";
    browser.point(&format!("{rows}[0]"));
    assert!(!browser.text("#timeline-said").contains("acc0"), "{}", browser.text("#timeline-said"));
    browser.point(&format!("{rows}[2]"));
    assert!(browser.text("#timeline-said").contains("acc1 computes"), "{}", browser.text("#timeline-said"));
    browser.evaluate("document.getElementById('timeline-rows').focus()");
    browser.press("ArrowUp");
    browser.press("ArrowUp");
    browser.press("Home");
    assert!(browser.text("#timeline-said").contains("first"), "{}", browser.text("#timeline-said"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_full_pipeline_tells_its_batches_by_pointer_and_by_key() {
    let Some(mut browser) = Browser::start() else { return };
    let made = chain(&[("first", None), ("second", None), ("third", None), ("fourth", None)], 2, &[]);
    browser.resize(1280, 1600);
    browser.open(&made.page);
    let value = made.plan["objective"]["value_s"].as_f64().expect("a value");
    let lead = browser.text("#steady-lead");
    assert!(lead.contains(&format!("{}, the value of the plan", units::seconds(value))), "{lead}");
    assert!(lead.contains("2 batches at once"), "{lead}");
    assert_eq!(browser.evaluate("document.querySelectorAll('#steady-table tbody tr').length"), 2);
    browser.point("document.querySelectorAll('#steady-rows canvas')[0]");
    let said = browser.text("#steady-said");
    assert!(said.starts_with("acc0 computes: ") && said.ends_with(", batch n"), "{said}");
    browser.evaluate("document.getElementById('steady-rows').focus()");
    browser.press("ArrowDown");
    browser.press("ArrowDown");
    browser.press("Home");
    let said = browser.text("#steady-said");
    assert!(said.starts_with("acc1 computes: ") && said.ends_with(", batch n \u{2212} 1"), "{said}");
    // The timeline of the step has a cursor of its own, which has not moved.
    assert!(browser.text("#timeline-said").starts_with("Point at"), "{}", browser.text("#timeline-said"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_plan_that_is_no_pipeline_says_why_it_has_no_steady_state() {
    let Some(mut browser) = Browser::start() else { return };
    let made =
        chain(&[("first", None), ("second", None)], 2, &["--objective", "makespan", "--solver", "heft"]);
    browser.open(&made.page);
    assert_eq!(browser.text("#no-steady"), "No steady state: a plan for makespan runs one batch at a time.");
    assert_eq!(browser.evaluate("document.querySelectorAll('#steady-view').length"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_page_without_a_plan_says_so() {
    let Some(mut browser) = Browser::start() else { return };
    let names: Vec<String> = (0..3).map(|index| format!("operator{index}")).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let operators: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "seconds": {"acc": 1.0}, "parameter_bytes": 1e6}))
        .collect();
    let kind =
        json!({"name": "acc", "class": "acc", "count": 2, "memory_bytes": 1e6, "link": {"bandwidth": 1e6}});
    let cluster = json!({"schema": "stagewright.cluster/1", "kinds": [kind]});
    let graph = json!({"schema": "stagewright.graph/1", "operators": operators, "cluster": cluster});
    let [model, cluster_file] = ["model.json", "cluster.json"].map(|name| folder.path().join(name));
    std::fs::write(&model, graph.to_string()).expect("a file can be written");
    std::fs::write(&cluster_file, cluster.to_string()).expect("a file can be written");
    let made = plan(&model, &cluster_file.display().to_string(), &[]);
    browser.open(&made.page);
    assert_eq!(browser.text("#status"), "infeasible");
    assert_eq!(browser.text("#value"), "none");
    assert!(browser.text(".verdict").contains("There is no plan"));
    let reason = made.plan["reason"].as_str().expect("a reason");
    let first = reason.lines().next().expect("a line");
    assert!(browser.text("#reason").contains(first), "{reason}");
    assert_eq!(browser.evaluate("document.querySelectorAll('#graph, #timeline, #devices').length"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn it_reads_without_scripts() {
    let Some(mut browser) = Browser::start() else { return };
    let made = demo();
    browser.send("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    // Scripts of the page are disabled, but expressions of the test still run.
    browser.open_still(&made.page);
    let value = made.plan["objective"]["value_s"].as_f64().expect("a value");
    assert_eq!(browser.text("#value"), units::seconds(value));
    let visible = |selector: &str| format!("document.querySelector('{selector}').checkVisibility()");
    for selector in [
        "#device-table",
        "#steady-table",
        "#convergence svg",
        ".devices .bar",
        "#graph noscript",
        "#timeline noscript",
    ] {
        browser.evaluate("document.querySelectorAll('details').forEach((it) => { it.open = true; })");
        assert_eq!(browser.evaluate(&visible(selector)), true, "{selector}");
    }
    for selector in ["#graph-view", "#steady-view", "#timeline-view", "#theme"] {
        assert_eq!(browser.evaluate(&visible(selector)), false, "{selector}");
    }
}
