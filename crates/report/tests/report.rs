//! Pages of documents, without a browser.

mod samples;

use report::page::render;
use report::{Document, RunKind};

#[test]
fn every_kind_of_run_has_its_plots() {
    let plots = |document: Document| {
        let page = render(&[document], None);
        let names = page.split("data-plot=\"").skip(1);
        names.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(plots(samples::bandwidth(1.0)), ["bandwidth", "rate", "cpu", "distribution"]);
    assert_eq!(plots(samples::latency()), ["latency", "distribution"]);
    assert_eq!(plots(samples::compare()), ["bandwidth", "latency", "cpu", "distribution"]);
    assert_eq!(plots(samples::mesh()), ["mesh", "mesh-latency"]);
    assert_eq!(plots(samples::collective()), ["collective"]);
    assert_eq!(plots(samples::small()), ["distribution"]);
}

#[test]
fn a_page_has_verdict_limits_path_counters_and_command() {
    let page = render(&[samples::bandwidth(0.4)], Some(&samples::bandwidth(1.0)));
    for text in [
        "Below the expected value",
        "40 % of what this link should give.",
        "expected 97.2 Gb/s",
        "x4 of x16 lanes are in use",
        "Fix: reseat the card",
        "::ffff:10.0.0.1",
        "4096, 100 Gb/s",
        "GID 3 is RoCE v2 and routable",
        "out_of_sequence_total",
        "Compared with the baseline",
        "−60 % worse",
        "wirelane bench bw gpu2 --op write --transport verbs --sizes 64,128,",
    ] {
        assert!(page.contains(text), "`{text}` is not in the page");
    }
}

#[test]
fn a_run_can_be_repeated() {
    for (document, command) in [
        (
            samples::latency(),
            "bench lat gpu2 --op write --transport verbs --sizes 8,64,512,4KiB,32KiB",
        ),
        (samples::compare(), "bench compare gpu2<"),
        (samples::mesh(), "bench mesh --hosts gpu1,gpu2,gpu3,gpu4,gpu5,gpu6<"),
        (samples::collective(), "bench nccl --op all_reduce --hosts gpu1:2,gpu2:2<"),
        (samples::small(), "bench rate gpu2 --op write --transport tcp --size 64 --verify<"),
    ] {
        assert!(render(&[document], None).contains(command), "{command}");
    }
}

/// The end of each line is where its last mark is, the slowest operation.
#[test]
fn lines_with_many_points_are_drawn_to_their_end() {
    let page = render(&[samples::latency()], None);
    let plot = page.split("data-plot=\"distribution\"").nth(1).expect("a plot");
    let plot = plot.split("</figure>").next().expect("an end");
    let groups: Vec<&str> =
        plot.split("<g class=\"s").filter(|group| group.contains("title")).collect();
    assert_eq!(groups.len(), 5, "{plot}");
    for group in groups {
        let data: Vec<&str> =
            group.split(" d=\"").skip(1).filter_map(|at| at.split('"').next()).collect();
        let [line, .., slowest] = &data[..] else { panic!("{group}") };
        assert!(line.len() > 1000, "few points: {line}");
        let (_, end) = line.rsplit_once('L').expect("a point");
        assert!(
            slowest.starts_with(&format!("M{end}m")),
            "the line ends at {end}, not at {slowest}"
        );
    }
}

#[test]
fn long_commands_are_complete() {
    let mut wide = samples::mesh();
    let hosts: Vec<String> = (0..300).map(|host| format!("host{host}.example")).collect();
    wide.matrix.as_mut().expect("a matrix").hosts = hosts.clone();
    let page = render(&[wide], None);
    assert!(page.contains(&format!("--hosts {}<", hosts.join(","))));
}

#[test]
fn the_distribution_is_labelled_with_percentiles() {
    let page = render(&[samples::latency()], None);
    for label in [">min<", ">p90<", ">p99<", ">p99.9<", ">p99.99<"] {
        assert!(page.contains(label), "{label}");
    }
    assert!(!page.contains("1 in "));
    // Fifteen million operations: the last labels would overlap.
    let page = render(&[samples::compare()], None);
    assert!(page.contains(">p99.9999<") && !page.contains(">p99.99999<"));
}

#[test]
fn several_runs_are_shown_from_run_to_run() {
    let mut later = samples::bandwidth(0.8);
    later.when = "2026-11-16T09:00:00Z".to_owned();
    let page = render(&[samples::bandwidth(1.0), later], None);
    assert!(page.contains("data-plot=\"history\"") && page.contains("2 benchmark runs"));
    assert!(page.contains("id=\"run1\"") && page.contains("href=\"#run1\""));
}

#[test]
fn a_hostile_document_is_displayed_as_text() {
    for attack in [
        "\"><script>alert(1)</script>",
        "'--></style></title></svg><img src=x onerror=alert(1)>",
        "]]><svg onload=alert(1)>",
        "</td><a href=javascript:alert(1)>",
    ] {
        let hostile = samples::hostile(attack);
        let page = render(&[hostile.clone(), samples::bandwidth(1.0)], Some(&hostile));
        assert!(!page.contains(attack) && page.contains("alert(1)"), "{attack}");
        for name in elements(&page) {
            assert!(KNOWN_ELEMENTS.contains(&name.as_str()), "unexpected element {name}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\""), "an invalid number");
    }
}

#[test]
fn a_page_stays_below_a_megabyte_and_loads_nothing() {
    let mut many = samples::all();
    let mut wide = samples::mesh();
    if let Some(matrix) = &mut wide.matrix {
        matrix.hosts = (0..500).map(|host| format!("host{host}.example")).collect();
        matrix.gbps = vec![vec![Some(97.25); 500]; 500];
        matrix.latency_us = vec![vec![Some(1.25); 500]; 500];
    }
    let mut long = samples::bandwidth(1.0);
    long.points = (0..5000).map(|at| long.points[at % 17].clone()).collect();
    many.extend([wide, long]);
    many.extend((0..200).map(|_| samples::bandwidth(1.0)));
    let page = render(&many, Some(&samples::bandwidth(1.0)));
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    assert!(page.contains("runs are left out") && page.contains("The first 40 of 500 hosts"));
    for outside in ["http:", "https:", "src=", "url(", "@import", "<script", "//"] {
        assert!(!page.contains(outside), "`{outside}` is in the page");
    }
}

#[test]
fn an_empty_document_has_a_page() {
    for kind in [RunKind::Bw, RunKind::Mesh, RunKind::Nccl, RunKind::Compare] {
        let page = render(&[Document::new(kind, String::new(), String::new())], None);
        assert!(page.contains("How to repeat it"), "{kind:?}");
    }
    assert!(render(&[], None).contains("0 benchmark runs"));
}

/// The names of all elements of a page.
fn elements(page: &str) -> Vec<String> {
    let starts =
        page.split('<').skip(1).filter(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    starts.map(|rest| rest.chars().take_while(char::is_ascii_alphanumeric).collect()).collect()
}

const KNOWN_ELEMENTS: [&str; 43] = [
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "section",
    "header",
    "h1",
    "h3",
    "p",
    "div",
    "span",
    "ul",
    "ol",
    "li",
    "b",
    "br",
    "dl",
    "dt",
    "dd",
    "figure",
    "figcaption",
    "svg",
    "g",
    "path",
    "rect",
    "text",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "i",
    "a",
    "pre",
    "code",
    "footer",
    "",
    "",
    "",
];
