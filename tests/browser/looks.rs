//! Appearance of the page: on a telephone, in light and dark, and the screenshot of this repository.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::browser::chromium::Browser;
use crate::browser::pages::{Made, chain, demo, joint, local, plan, run, serving, workload};

/// Minimum contrast of text according to WCAG 2.2, level AA.
const CONTRAST: f64 = 4.5;

/// JavaScript expression for the minimum contrast over all visible text, with the element that has it.
const LEAST_CONTRAST: &str = "(() => {
  const paint = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const over = (colour, below) => {
    paint.fillStyle = `rgb(${below})`;
    paint.fillRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const behind = (node) => {
    const parent = node.parentElement;
    const below = parent ? behind(parent) : [0, 0, 0];
    return over(getComputedStyle(node).backgroundColor, below);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255).map((part) => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  let least = [99, ''];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const at = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !at.checkVisibility() || at.closest('script, noscript')) continue;
    const below = behind(at);
    const [one, other] = [light(over(getComputedStyle(at).color, below)), light(below)];
    const contrast = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
    if (contrast < least[0]) least = [contrast, `${at.className} ${walk.currentNode.textContent.slice(0, 40)}`];
  }
  return least;
})()";

#[test]
fn text_can_be_read_in_light_and_in_dark() {
    let Some(mut browser) = Browser::start() else { return };
    let made = demo();
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.open(&made.page);
        let least = browser.evaluate(LEAST_CONTRAST);
        assert!(least[0].as_f64().expect("a contrast") >= CONTRAST, "{scheme}: {least}");
        papers.push(browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"));
    }
    assert_ne!(papers[0], papers[1]);
    for schedule in ["1f1b", "interleaved", "zero-bubble"] {
        browser.open(&joint(schedule).page);
        let least = browser.evaluate(LEAST_CONTRAST);
        assert!(least[0].as_f64().expect("a contrast") >= CONTRAST, "{schedule}: {least}");
        let drawn = "document.querySelectorAll('#timeline canvas, #timeline svg').length";
        assert!(browser.evaluate(drawn).as_u64().is_some_and(|count| count > 0), "{schedule}");
    }
    for (page, what) in [(run(), "a run"), (local(), "a local plan"), (serving(), "a serving plan")] {
        browser.open(&page.page);
        let least = browser.evaluate(LEAST_CONTRAST);
        assert!(least[0].as_f64().expect("a contrast") >= CONTRAST, "{what}: {least}");
    }
    browser.open(&made.page);
    // The button overrides the system's scheme; the first click chooses light.
    browser.evaluate("document.getElementById('theme').click()");
    assert_eq!(browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"), papers[0]);
    assert_eq!(browser.text("#theme"), "Theme: light");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

fn assert_fits(browser: &mut Browser, made: &Made, what: &str) {
    browser.open(&made.page);
    // The scroll width equals the width of the widest element.
    let width = browser.evaluate("document.documentElement.scrollWidth");
    assert_eq!(width, 360, "{what}");
    assert_eq!(browser.complaints(), Vec::<String>::new(), "{what}");
}

#[test]
fn a_telephone_does_not_scroll_sideways() {
    let Some(mut browser) = Browser::start() else { return };
    browser.resize(360, 740);
    assert_fits(&mut browser, &demo(), "the demo");
    let long = "a_very_long_name_of_an_operator_without_any_place_to_break_".repeat(3);
    assert_fits(&mut browser, &chain(&[(&long, Some(&long)), ("b", None)], 2, &[]), "a long name");
    assert_fits(&mut browser, &joint("interleaved"), "a joint plan");
    assert_fits(&mut browser, &run(), "a run");
    assert_fits(&mut browser, &local(), "a local plan");
    assert_fits(&mut browser, &serving(), "a serving plan");
    // Touch targets are large enough.
    let smallest = browser.evaluate(
        "Math.min(...[...document.querySelectorAll('button, summary, nav a')].filter((it) => it.checkVisibility()) \
         .map((it) => it.getBoundingClientRect().height))",
    );
    assert!(smallest.as_f64().is_some_and(|height| height >= 40.0), "{smallest}");
}

/// JavaScript expression for the pixels by which the drawing of the graph is wider than its place, by which the page is
/// wider than the window, and between the drawing and the panel beside it.
const BESIDE: &str = "(() => {
  const [canvas, panel] = ['graph-scroll', 'graph-details'].map((id) => document.getElementById(id));
  const [left, right] = [canvas, panel].map((it) => it.getBoundingClientRect());
  const over = (it) => it.scrollWidth - it.clientWidth;
  return [over(canvas), over(document.documentElement), Math.round(right.left - left.right), Math.round(right.top - left.top)];
})()";

#[test]
fn the_graph_fits_beside_its_panel() {
    let Some(mut browser) = Browser::start() else { return };
    browser.resize(1280, 900);
    let pages = [
        ("the demo", demo()),
        ("BERT", workload("4xt4", &["bert", "--layers", "6", "--training", "--batch", "4"])),
        ("GNMT", workload("4xt4", &["gnmt", "--training", "--batch", "4"])),
        ("Inception", workload("4xt4", &["inception-v3", "--batch", "4"])),
    ];
    for (what, made) in &pages {
        browser.open(&made.page);
        for button in ["", "graph-expand", "graph-collapse"] {
            if !button.is_empty() {
                browser.evaluate(&format!("document.getElementById('{button}').click()"));
            }
            assert_eq!(browser.evaluate(BESIDE), serde_json::json!([0, 0, 0, 0]), "{what}, {button}");
        }
        // A scale that the reader chose is kept.
        browser.evaluate("for (let i = 0; i < 9; i += 1) document.getElementById('graph-larger').click()");
        browser.evaluate("document.getElementById('graph-expand').click()");
        let scale = browser.evaluate("document.getElementById('graph-tree').style.transform");
        assert_eq!(scale, "scale(2)", "{what}");
        assert_eq!(browser.complaints(), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn small_and_odd_plans_have_pages() {
    let Some(mut browser) = Browser::start() else { return };
    browser.resize(360, 740);
    assert_fits(&mut browser, &chain(&[("alone", None)], 1, &[]), "one operator on one device");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("model.json");
    let graph = r#"{"schema":"stagewright.graph/1","operators":[{"name":"a","seconds":{"acc":0.0}},
        {"name":"b","seconds":{"acc":0.0}}],"tensors":[{"producer":"a","consumers":["b"]}],
        "cluster":{"schema":"stagewright.cluster/1","kinds":[
        {"name":"acc","class":"acc","count":2,"link":{"bandwidth":1.0}}]}}"#;
    std::fs::write(&model, graph).expect("a file can be written");
    let cluster_file = folder.path().join("cluster.json");
    let cluster: Value = serde_json::from_str(graph).expect("JSON");
    std::fs::write(&cluster_file, cluster["cluster"].to_string()).expect("a file can be written");
    assert_fits(&mut browser, &plan(&model, &cluster_file.display().to_string(), &[]), "no time at all");
    let names: Vec<String> = (0..400).map(|index| format!("layer.{index}")).collect();
    let many: Vec<(&str, Option<&str>)> =
        names.iter().map(|name| (name.as_str(), Some(name.as_str()))).collect();
    let made = chain(&many, 200, &["--solver", "equal-time"]);
    assert_fits(&mut browser, &made, "two hundred devices");
    assert_eq!(browser.evaluate("document.querySelectorAll('#device-table tbody tr').length"), 200);
    let distinct = "new Set([...document.querySelectorAll('.devices > li')].map((it) => it.className)).size";
    assert_eq!(browser.evaluate(distinct), 40);
}

/// Writes the screenshot of the README: `make screenshot`.
#[test]
#[ignore = "writes data/screenshots/report.png"]
fn screenshot() {
    let Some(mut browser) = Browser::start() else { return };
    let made =
        workload("4xv100-32gb:fp32@nvlink", &["gnmt", "--variant", "4", "--batch", "128", "--training"]);
    browser.resize(1280, 1900);
    browser.prefer("light");
    browser.open(&made.page);
    let picture = STANDARD.decode(browser.picture(false)).expect("base64");
    assert!(picture.len() < 300_000, "{} bytes", picture.len());
    let folder = Path::new(crate::ROOT).join("data/screenshots");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    std::fs::write(folder.join("report.png"), picture).expect("a file can be written");
}
