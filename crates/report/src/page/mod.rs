//! One HTML page of a run: verdict, plots, all results, and the command to repeat it.
//!
//! The page is self-contained: it loads nothing, runs no script (its content security policy forbids both), and stays
//! below a megabyte. Text of documents cannot become markup, by type: see `markup.rs`.
//!
//! Start at [`render`]. `section` has the parts of a document's page, in order.

mod by_size;
mod collective;
mod comparison;
mod facts;
mod group;
mod markup;
mod measure;
mod mesh;
mod repeat;

mod distribution;
mod plot;
mod summary;
mod table;

use crate::Document;
use markup::Markup;

/// The page of these documents. With a baseline, results that both have are compared.
pub fn render(documents: &[Document], baseline: Option<&Document>) -> String {
    let mut page = Markup::default();
    let title = match documents {
        [one] => format!("{}: {}", summary::title(one), one.host),
        _ => format!("{} benchmark runs", documents.len()),
    };
    page.raw(HEAD)
        .element("title", &[], title)
        .raw("<style>")
        .raw(STYLE)
        .raw("</style></head>\n<body><main>\n");
    if documents.len() > 1 {
        page.append(overview(documents));
    }
    let mut left_out = 0;
    for (number, document) in documents.iter().enumerate() {
        let section = section(number, document, baseline);
        if page.len() + section.len() < MAX_BYTES {
            page.append(section);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        let text = format!(
            "{left_out} runs are left out: the page would be too large. Use fewer runs per page."
        );
        page.element("p", &[("class", &"muted")], text);
    }
    page.raw(FOOT);
    page.into_string()
}

/// A list of several runs with their verdicts, and how results changed from run to run.
fn overview(documents: &[Document]) -> Markup {
    let mut overview = Markup::default();
    overview.raw("<section class=\"run\"><header>");
    overview.element("h1", &[], format!("{} benchmark runs", documents.len()));
    overview.raw("</header><ol class=\"runs\">");
    for (number, document) in documents.iter().enumerate().take(MAX_LISTED) {
        let verdict = document.verdict.as_ref().map_or("", |verdict| verdict.summary.as_str());
        overview.raw("<li>").open("a", &[("href", &format!("#run{number}"))]);
        overview.text(summary::title(document)).raw("</a> ");
        overview.element("span", &[("class", &"muted")], summary::subtitle(document));
        overview.element("p", &[], verdict).raw("</li>");
    }
    overview
        .raw("</ol><div class=\"plots\">")
        .append(comparison::history(documents))
        .raw("</div></section>\n");
    overview
}

fn section(number: usize, document: &Document, baseline: Option<&Document>) -> Markup {
    let mut section = Markup::default();
    section.open("section", &[("class", &"run"), ("id", &format!("run{number}"))]);
    section.raw("<header>").element("h1", &[], summary::title(document));
    section.element("p", &[("class", &"muted")], summary::subtitle(document)).raw("</header>\n");
    section.append(summary::render(document));
    let mut plots = Markup::default();
    plots.append(mesh::plots(document));
    plots.append(collective::plot(document));
    // For a mesh there is a heat map instead of lines.
    if document.matrix.is_none() {
        plots.append(by_size::plots(document, baseline));
        plots.append(distribution::plot(document));
    }
    if let Some(baseline) = baseline {
        plots.append(comparison::baseline(document, baseline));
    }
    if !plots.is_empty() {
        section.raw("<div class=\"plots\">\n").append(plots).raw("</div>\n");
    }
    section.append(facts::paths(document));
    section.append(facts::counters(document));
    section.append(table::measurements(document));
    section.append(repeat::render(document));
    section.raw("</section>\n");
    section
}

/// The policy forbids loading and scripts, in case markup was injected.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
    base-uri 'none'; form-action 'none'\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"wirelane\">\n";
const STYLE: &str = include_str!("style.css");
const FOOT: &str = "<footer>Made by wirelane. This page is self-contained: it loads nothing and runs no script. \
    Point at marks and cells to see values.</footer>\n</main></body></html>\n";

/// A page is below a megabyte, including head and foot.
const MAX_BYTES: usize = 900_000;
const MAX_LISTED: usize = 100;
