//! Names that try to inject markup or scripts.

use serde_json::Value;

use crate::browser::chromium::Browser;
use crate::browser::pages::chain;

#[test]
fn hostile_names_are_text() {
    let Some(mut browser) = Browser::start() else { return };
    let long = "x".repeat(10_000);
    let names = [
        "<img src=x onerror=\"document.title='broken'\">",
        "</script><script>document.title='broken'</script>",
        "<!--<script>",
        "\"quoted' & <b>bold</b>",
        "line\u{2028}and\u{2029}paragraph",
        "abc\u{202e}cba\u{2066}",
        "nul\0bell\u{7}",
        "__proto__",
        "constructor",
        "{{script}}",
        "ünïcode 模型",
        long.as_str(),
    ];
    let chained: Vec<(&str, Option<&str>)> =
        names.iter().enumerate().map(|(index, name)| (*name, (index % 3 == 0).then_some(*name))).collect();
    let made = chain(&chained, 2, &[]);
    browser.resize(1280, 900);
    browser.open(&made.page);
    assert_eq!(browser.text("title"), "chain on small");
    assert_eq!(browser.evaluate("document.title"), "chain on small");
    // No name created an element.
    let foreign =
        "document.querySelectorAll('img, b:not(.said b), script:not(:nth-last-of-type(-n + 2))').length";
    assert_eq!(browser.evaluate(foreign), 0);
    browser.evaluate("document.getElementById('graph-expand').click()");
    let told = browser.evaluate(
        "[...document.querySelectorAll('.box:not([aria-expanded])')].map((box) => { \
         box.focus(); return document.querySelector('#graph-details h3').textContent; })",
    );
    let told: Vec<&str> = told.as_array().expect("names").iter().filter_map(Value::as_str).collect();
    assert_eq!(told.len(), names.len());
    for name in &names[..4] {
        assert!(told.contains(name), "{name} is not among {told:?}");
    }
    for name in ["__proto__", "constructor", "{{script}}", "ünïcode 模型"] {
        assert!(told.contains(&name), "{name} is not among {told:?}");
    }
    // Invisible and bidirectional control characters are escaped.
    assert!(told.contains(&"line\\u{2028}and\\u{2029}paragraph"), "{told:?}");
    assert!(told.contains(&"abc\\u{202e}cba\\u{2066}"), "{told:?}");
    assert!(told.contains(&"nul\\0bell\\u{7}"), "{told:?}");
    let short = told.iter().find(|name| name.starts_with("xxx")).expect("the long name");
    assert!(short.contains('…') && short.chars().count() < 300, "{short}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn what_is_no_part_of_the_page_does_not_run() {
    let Some(mut browser) = Browser::start() else { return };
    let made = chain(&[("one", None)], 1, &[]);
    let page = std::fs::read_to_string(&made.page).expect("a page");
    let broken = page.replace("</body>", "<script>document.title = 'broken'</script><p id=tried></p></body>");
    let path = made.page.with_file_name("broken.html");
    std::fs::write(&path, broken).expect("a file can be written");
    browser.open(&path);
    assert_eq!(browser.evaluate("document.getElementById('tried') !== null"), true);
    assert_eq!(browser.evaluate("document.title"), "chain on small");
    // The browser reports a violation of the policy, so the other tests would have seen one for any part of the page.
    assert!(!browser.complaints().is_empty());
}
