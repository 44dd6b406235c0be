//! A page with fifty thousand operators.

use crate::browser::chromium::Browser;
use crate::browser::pages::workload;

/// Maximum size of the page in bytes.
const MOST: u64 = 10_000_000;

#[test]
fn fifty_thousand_operators_are_small_and_folded() {
    let Some(mut browser) = Browser::start() else { return };
    let family = ["gnmt", "--variant", "8", "--batch", "128", "--sequence", "75", "--training"];
    let made = workload("4xv100-32gb:fp32@nvlink", &family);
    let size = std::fs::metadata(&made.page).expect("a page").len();
    browser.resize(1280, 900);
    let seconds = browser.open(&made.page).as_secs_f64();
    let operators = browser.text("#summary .facts dd");
    println!("{operators} operators: {size} bytes, opened in {seconds:.2} s");
    assert!(size < MOST, "{size} bytes");
    // The graph is folded, so that a reader can survey the drawing.
    let shown = browser.evaluate("document.querySelectorAll('[role=treeitem]').length").as_u64();
    assert!(shown.is_some_and(|shown| (8..=100).contains(&shown)), "{shown:?}");
    // Expanding a box does not draw too much either.
    browser.evaluate("document.getElementById('graph-expand').click()");
    let shown = browser.evaluate("document.querySelectorAll('[role=treeitem]').length").as_u64();
    assert!(shown.is_some_and(|shown| (100..=1500).contains(&shown)), "{shown:?}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
