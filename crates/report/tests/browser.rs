//! Pages in a real browser without network.
//!
//! Needs Chromium, which the variable WIRELANE_TEST_BROWSER names if it is not called `chromium`; `cargo xtask test` brings
//! it. Screenshots of all pages are left in the folder that is printed.
#![allow(clippy::disallowed_methods, reason = "a test makes the files that it reads")]

mod samples;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use report::Document;
use report::page::render;
use serde_json::Value;

#[test]
fn every_plot_is_visible_and_nothing_is_requested() {
    let folder = folder("plots");
    for (number, document) in samples::all().into_iter().enumerate() {
        let page = render(std::slice::from_ref(&document), Some(&samples::bandwidth(0.9)));
        assert!(page.len() < 1 << 20, "{} bytes", page.len());
        let name = format!("{number}-{}", document.kind.name());
        let seen = inspect(&folder, &name, &page);
        check(&seen, &page);
    }
}

#[test]
fn several_runs_are_one_page() {
    let folder = folder("several");
    let mut runs: Vec<Document> = [1.0, 0.98, 1.01, 0.7].map(samples::bandwidth).into();
    for (day, run) in runs.iter_mut().enumerate() {
        run.when = format!("2026-11-1{day}T10:00:00Z");
    }
    let page = render(&runs, Some(&samples::bandwidth(1.0)));
    let seen = inspect(&folder, "history", &page);
    check(&seen, &page);
    assert!(names(&seen[0]).contains(&"history".to_owned()), "{seen:?}");
}

/// A hostile document is text in the page: nothing of it runs, and it adds no element.
#[test]
fn a_hostile_document_does_nothing_in_a_browser() {
    let folder = folder("hostile");
    let attack = "\"'></style></title></svg><img src=http://example.invalid/x onerror=\"document.title='obeyed'\">\
                  <script>document.title='obeyed'</script>";
    let page = render(&[samples::hostile(attack)], None);
    let seen = inspect(&folder, "hostile", &page);
    let seen = &seen[0];
    assert_eq!(seen["foreign"], 0, "{seen}");
    assert_eq!(seen["requests"], 0, "{seen}");
    assert!(seen["title"].as_str().is_some_and(|title| title != "obeyed"), "{seen}");
}

/// Checks that requests and scripts are detected, with a page that has some.
#[test]
fn a_page_with_requests_is_detected() {
    let folder = folder("asks");
    let page = "<title>x</title><img src='http://example.invalid/x.png'><p>text";
    let seen = inspect(&folder, "asks", page);
    let seen = &seen[0];
    assert!(seen["requests"].as_u64() > Some(0) && seen["foreign"].as_u64() > Some(0), "{seen}");
}

/// On a wide screen and on a narrow one.
fn check(seen: &[Value], page: &str) {
    for (seen, width) in seen.iter().zip(WIDTHS) {
        let there = page.matches("data-plot=").count();
        assert!(there > 0 && names(seen).len() == there, "{there} plots: {seen}");
        for plot in seen["plots"].as_array().expect("a list") {
            let size = |side: &str| plot[side].as_f64().expect("a number");
            assert!(size("width") > 250.0 && size("height") > 30.0, "{plot}");
            assert!(size("right") <= f64::from(width), "beyond the page: {plot}");
            assert!(plot["marks"].as_u64() > Some(0), "nothing is drawn in {plot}");
        }
        assert_eq!(seen["requests"], 0, "{seen}");
        assert_eq!(seen["foreign"], 0, "{seen}");
        // The page itself is not wider than the screen; only on a narrow one tables scroll.
        assert!(width < 1280 || seen["cut"] == 0, "a table is wider than its place: {seen}");
        assert!(seen["wide"].as_u64() <= Some(u64::from(width)), "{seen}");
    }
}

fn names(seen: &Value) -> Vec<String> {
    let plots = seen["plots"].as_array().expect("a list").iter();
    plots.map(|plot| plot["name"].as_str().expect("a name").to_owned()).collect()
}

/// Opens a page in two frames, and measures their contents with a script; the page's own policy applies. Then takes
/// screenshots, wide and light, narrow and dark.
fn inspect(folder: &Path, name: &str, page: &str) -> Vec<Value> {
    let file = |ending: &str| folder.join(format!("{name}{ending}"));
    fs::write(file(".html"), page).expect("a file");
    let around = AROUND.replace("PAGE", &format!("{name}.html"));
    fs::write(file("-around.html"), around).expect("a file");
    let dom = chromium(folder, WIDTHS[0], &["--dump-dom"], &file("-around.html"));
    for (width, scheme, setting) in [(WIDTHS[0], "light", "1"), (WIDTHS[1], "dark", "0")] {
        let picture = file(&format!("-{width}-{scheme}.png"));
        let screenshot = format!("--screenshot={}", picture.display());
        let setting = format!("--blink-settings=preferredColorScheme={setting}");
        chromium(folder, width, &[&screenshot, &setting], &file(".html"));
        let bytes = fs::metadata(&picture).expect("a picture").len();
        assert!(bytes > 1000, "{} is empty", picture.display());
    }
    let found = dom.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_else(|| panic!("the page was not measured: {dom}"));
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let seen: Vec<Value> =
        serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found}"));
    assert_eq!(seen.len(), WIDTHS.len(), "{seen:?}");
    seen
}

fn chromium(folder: &Path, width: u32, more: &[&str], page: &Path) -> String {
    let program = std::env::var("WIRELANE_TEST_BROWSER").unwrap_or_else(|_| "chromium".to_owned());
    let profile = tempfile::tempdir().expect("a folder");
    let output = Command::new("timeout")
        .args(["60", &program, "--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"])
        .args(["--hide-scrollbars", "--allow-file-access-from-files", "--virtual-time-budget=5000"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},2400"))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .current_dir(folder)
        .output()
        .expect("timeout runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {:?} {errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Kept for manual review.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages").join(name);
    fs::create_dir_all(&folder).expect("a folder");
    eprintln!("pages and pictures are in {}", folder.display());
    folder
}

const WIDTHS: [u32; 2] = [1280, 400];

/// A test page with the report in two frames.
const AROUND: &str = r#"<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe src="PAGE" style="border:0;width:1280px;height:2400px"></iframe>
<iframe src="PAGE" style="border:0;width:400px;height:2400px"></iframe>
<pre id="found"></pre>
<script>
const measure = frame => {
  const page = frame.contentDocument, view = frame.contentWindow;
  const plots = [...page.querySelectorAll("[data-plot]")].map(figure => {
    const drawn = figure.querySelector(":scope > svg, table");
    const box = drawn.getBoundingClientRect(), around = figure.getBoundingClientRect();
    const marks = [...drawn.querySelectorAll(".mark, .bar, td[class^=h]")].filter(mark => {
      const size = mark.getBoundingClientRect();
      return size.width > 0 && size.height > 0;
    });
    return { name: figure.dataset.plot, width: box.width, height: box.height, right: around.right, marks: marks.length };
  });
  const cut = [...page.querySelectorAll(".scroll")].filter(table => table.scrollWidth > table.clientWidth).length;
  const foreign = page.querySelectorAll("script, img, link, iframe, object, embed, form, [onload], [onerror]").length;
  const requests = view.performance.getEntriesByType("resource").length;
  return { plots, cut, foreign, requests, title: page.title, wide: page.documentElement.scrollWidth };
};
window.onload = () => {
  const found = [...document.querySelectorAll("iframe")].map(measure);
  document.getElementById("found").textContent = JSON.stringify(found);
};
</script>
"#;
