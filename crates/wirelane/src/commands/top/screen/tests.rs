//! The drawn screen of a tree, in three sizes, compared with files in `tests/golden`; and the keys.

use std::path::Path;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use doctor::monitoring::{MachineSample, Probe, SampledStore};
use node::Tree;
use node::queries::{GpuReading, NvLink, NvmlGpu};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::app::{Action, App};
use super::draw;
use super::picture;
use super::style::TerminalStyle;
use crate::commands::top::feed::{FeedCommand, FeedEvent};
use crate::monitoring::{CollectionPlan, Monitor};
use crate::output::Failure;

const FULL: TerminalStyle = TerminalStyle { colours: true, unicode: true };
const DOWN: u64 = 4;
const PLAIN: TerminalStyle = TerminalStyle { colours: false, unicode: false };

/// A sample of a test machine, with fixed times.
fn first_sample(tree: &str) -> MachineSample {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees").join(tree);
    let open = || Tree::at(&path).map_err(|error| Failure::failed(error.to_string()));
    let monitor = Monitor::start(open, CollectionPlan::default()).expect("collectors");
    let mut sample = monitor.sample(Duration::from_secs(60));
    sample.at_ms = 1_794_772_800_000;
    sample.runs.clear();
    sample
}

/// The same machine some seconds later: traffic that grows, on each port more than on the one before it; errors on the
/// second, the third slower than expected, the fifth down, congestion on the last.
fn later(sample: &MachineSample, second: u64) -> MachineSample {
    let mut sample = sample.clone();
    sample.at_ms += second * 1000;
    let last = sample.devices.len() as u64 - 1;
    let grown = second * (second + 1) / 2;
    for (number, device) in (0..).zip(&mut sample.devices) {
        for counter in device.ports.iter_mut().flat_map(|port| &mut port.counters) {
            let more = match counter.name.as_str() {
                _ if number == DOWN => 0,
                "port_rcv_data" => 100_000_000 * (number % last + 1) * grown,
                "port_xmit_data" => 50_000_000 * (number % last + 1) * grown,
                "port_rcv_packets" | "port_xmit_packets" => 1_200_000 * second,
                "symbol_error" if number == 1 => 12 * second,
                "np_ecn_marked_roce_packets" | "np_cnp_sent" if number == last => 450 * second,
                _ => 0,
            };
            counter.value = counter.value.clone().map(|value| value + more);
        }
    }
    sample.devices[2].ports[0].expected_mbps = Some(800_000);
    sample.devices[DOWN as usize].ports[0].state = Some(1);
    sample.gpus = (0..2).map(|index| gpu(index, second)).collect();
    sample.usage = Some(usage(second));
    sample
}

fn gpu(index: u32, second: u64) -> NvmlGpu {
    let xids = if index == 1 { [(79, 1)].into() } else { Default::default() };
    let bytes = Some(20_000_000_000 * second);
    let link = NvLink { receive_bytes: bytes, transmit_bytes: bytes, ..NvLink::default() };
    let reading = GpuReading {
        temperature_c: Some(61 + index),
        slowdown_temperature_c: Some(87),
        utilization_percent: Some(98 - 40 * index),
        memory_used_bytes: Some(100 << 30),
        memory_total_bytes: Some(141 << 30),
        power_mw: Some(612_000),
        power_limit_mw: Some(700_000),
        clocks_mhz: [("sm".to_owned(), 1980)].into(),
        throttle: [("sw_power_cap".to_owned(), index == 0), ("gpu_idle".to_owned(), true)].into(),
        pcie_receive_bytes_per_second: Some(3_000_000_000),
        pcie_transmit_bytes_per_second: Some(1_000_000_000),
        nvlinks: [(0, link)].into(),
        xids,
        ..GpuReading::default()
    };
    let name = Some("NVIDIA H200".to_owned());
    NvmlGpu { index, name, reading, ..NvmlGpu::default() }
}

fn usage(second: u64) -> node::sampling::Usage {
    let spent = |part: f64| 96.0 * second as f64 * part;
    node::sampling::Usage {
        cpus: Some(96),
        cpu_seconds: [("user".to_owned(), spent(0.25)), ("idle".to_owned(), spent(0.75))].into(),
        load1: Some(24.5),
        memory_bytes: [("total".to_owned(), 1 << 40), ("available".to_owned(), 3 << 38)].into(),
    }
}

fn store(second: u64) -> SampledStore {
    let number = |name: &str, value: f64| (name.to_owned(), value);
    let second = second as f64;
    SampledStore {
        address: "127.0.0.1:8080".to_owned(),
        numbers: [
            number("store_keys", 12_300.0),
            number("store_hits_total", 5_000.0 * second),
            number("store_misses_total", 40.0 * second),
            number("store_puts_total", 700.0 * second),
            number("pool_bytes", 4.0 * 1073741824.0),
            number("pool_used_bytes", 1073741824.0),
            number("rdma_send_latency_ns_p99", 8_200.0),
        ]
        .into(),
        links: [number("verbs", 7.0), number("tcp", 1.0), number("shm", 0.0)].into(),
    }
}

/// Nine ports, watched for some seconds.
fn watched(style: TerminalStyle) -> App {
    let mut app = App::new(style, Duration::from_secs(1), false);
    let first = first_sample("ndr8.json");
    for second in 1..=12 {
        let mut sample = later(&first, second);
        sample.store = Some(store(second));
        sample.probe = Some(Probe {
            peer: "node7:50051".to_owned(),
            transport: Some("verbs".to_owned()),
            sent: 98,
            p50_ns: Some(5_120),
            p99_ns: Some(9_300),
            jitter_ns: Some(410),
            ..Probe::default()
        });
        app.handle(FeedEvent::Sample(Box::new(sample)), |_| true);
    }
    app
}

fn screen(app: &mut App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw::draw(frame, app)).expect("drawn");
    terminal.backend().buffer().clone()
}

fn drawn(app: &mut App, width: u16, height: u16) -> String {
    let buffer = screen(app, width, height);
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Compares with the file; `WIRELANE_GOLDEN=write` writes it instead, for review.
fn assert_matches_file(file: &str, drawn: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("WIRELANE_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, drawn).expect("is written");
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        drawn == known,
        "golden/{file} differs from the drawn screen; to update it: WIRELANE_GOLDEN=write \
         cargo nextest run -p wirelane --lib top:\n{drawn}"
    );
}

fn press(app: &mut App, keys: &str) -> Action {
    let mut action = Action::Nothing;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            '→' => KeyCode::Right,
            '⇟' => KeyCode::End,
            letter => KeyCode::Char(letter),
        };
        action = app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    action
}

#[test]
fn a_machine_with_nine_ports_is_drawn_in_three_sizes() {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        let text = drawn(&mut watched(FULL), width, height);
        assert_matches_file(&format!("ndr8.top.{width}x{height}.txt"), &text);
    }
    assert_matches_file("ndr8.top.80x24.plain.txt", &drawn(&mut watched(PLAIN), 80, 24));
}

#[test]
fn the_picture_of_the_readme_is_current() {
    assert_matches_file("ndr8.top.svg", &picture::svg(&screen(&mut watched(FULL), 120, 20)));
}

#[test]
fn a_small_terminal_shows_the_main_columns_and_a_tiny_one_a_message() {
    let text = drawn(&mut watched(FULL), 40, 10);
    assert!(text.contains("mlx5_0/1") && text.contains("rx b/s"), "{text}");
    for (width, height) in [(39, 10), (40, 9), (10, 2), (1, 1)] {
        let text = drawn(&mut watched(FULL), width, height);
        assert!(text.starts_with("too small"[..9.min(usize::from(width))].trim_end()), "{text}");
    }
}

/// The memory of an H100, and the power of a GPU with more than a kilowatt.
#[test]
fn numbers_of_gpus_are_not_truncated() {
    let mut app = watched(FULL);
    let mut sample = later(&first_sample("ndr8.json"), 13);
    let reading = &mut sample.gpus[0].reading;
    reading.memory_used_bytes = Some((664 << 30) / 10);
    reading.memory_total_bytes = Some((796 << 30) / 10);
    (reading.power_mw, reading.power_limit_mw) = (Some(1_150_000), Some(1_200_000));
    app.handle(FeedEvent::Sample(Box::new(sample)), |_| true);
    for width in 64..=200 {
        let text = drawn(&mut app, width, 40);
        let row = text.lines().find(|line| line.starts_with("0   ")).expect("the first GPU");
        assert!(row.contains("66.4G/79.6G"), "{width}: {row}");
        assert!(!row.contains("/12") || row.contains("1150/1200W"), "{width}: {row}");
    }
}

#[test]
fn before_the_first_sample_and_without_ports_there_is_a_message() {
    let mut app = App::new(FULL, Duration::from_secs(1), false);
    assert!(drawn(&mut app, 80, 24).contains("reading counters"));
    app.handle(FeedEvent::Sample(Box::default()), |_| true);
    assert!(drawn(&mut app, 80, 24).contains("no RDMA port"));
}

/// The names of the ports from the top.
fn names(app: &mut App) -> Vec<String> {
    let text = drawn(app, 120, 40);
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| name.starts_with("mlx5_")).map(str::to_owned).collect()
}

#[test]
fn keys_sort_and_filter_and_the_selection_follows_its_row() {
    let mut app = watched(FULL);
    assert_eq!(names(&mut app)[..2], ["mlx5_0/1", "mlx5_1/1"]);
    press(&mut app, "↓ss");
    let sorted = names(&mut app);
    assert_eq!(sorted[..2], ["mlx5_7/1", "mlx5_6/1"], "by received bytes, descending");
    let Action::Diagnose(_, query) = press(&mut app, "\n") else { panic!("no query") };
    assert_eq!(query.title, "mlx5_1/1", "the selection moved with its row");
    press(&mut app, "\u{1b}S");
    assert_eq!(names(&mut app)[0], "mlx5_4/1", "ascending");
    press(&mut app, "/IB3\n");
    assert_eq!(names(&mut app), ["mlx5_3/1"], "by the net device's name");
    assert_eq!(press(&mut app, "\u{1b}"), Action::Nothing, "clears the filter");
    assert_eq!(names(&mut app).len(), 9);
    press(&mut app, "/IB3\u{1b}");
    assert_eq!(names(&mut app).len(), 9, "also while typing it");
    assert_eq!(press(&mut app, "\u{1b}"), Action::Quit);
}

#[test]
fn enter_queries_the_doctor_about_the_issues_of_a_row() {
    let mut app = watched(FULL);
    let ask = |app: &mut App, keys: &str| match press(app, keys) {
        Action::Diagnose(number, query) => (number, query),
        other => panic!("{other:?}"),
    };
    let (number, query) = ask(&mut app, "↓↓\n");
    assert_eq!(query.subjects, ["mlx5_2 port 1", "mlx5_2"]);
    assert!(query.issues.contains(&crate::commands::top::issue::Issue::Rate));
    assert!(drawn(&mut app, 80, 24).contains("Running checks"));
    app.set_findings(number + 1, vec!["of another".to_owned()]);
    app.set_findings(number, vec!["PROBLEM  reseat the cable".to_owned()]);
    let text = drawn(&mut app, 80, 24);
    assert!(text.contains("reseat the cable") && !text.contains("of another"), "{text}");
    press(&mut app, "\u{1b}");
    let (_, query) = ask(&mut app, "⇟\n");
    assert_eq!((query.title.as_str(), &query.xids[..]), ("GPU 1", &[79][..]));
}

#[test]
fn keys_send_commands() {
    let mut app = watched(FULL);
    assert_eq!(press(&mut app, "p"), Action::Feed(FeedCommand::Pause(true)));
    assert!(drawn(&mut app, 80, 24).contains("PAUSED"));
    assert_eq!(press(&mut app, " "), Action::Feed(FeedCommand::Pause(false)));
    assert_eq!(
        press(&mut app, "+"),
        Action::Feed(FeedCommand::SetInterval(Duration::from_secs(2)))
    );
    assert_eq!(
        press(&mut app, "--"),
        Action::Feed(FeedCommand::SetInterval(Duration::from_millis(500)))
    );
    assert_eq!(press(&mut app, "→"), Action::Nothing, "not a replay");
    assert!(matches!(press(&mut app, "r"), Action::Feed(FeedCommand::Record(Some(_)))));
    app.handle(FeedEvent::Recording(Some(("record".into(), 2048)), None), |_| true);
    assert!(drawn(&mut app, 80, 24).contains("REC 2K record"));
    assert_eq!(press(&mut app, "r"), Action::Feed(FeedCommand::Record(None)));
    app.handle(FeedEvent::Recording(None, Some("no space left".to_owned())), |_| true);
    assert!(drawn(&mut app, 80, 24).contains("no space left"));
    assert_eq!(press(&mut app, "h"), Action::Nothing);
    assert!(drawn(&mut app, 80, 24).contains("quit"));
    assert_eq!(press(&mut app, "q"), Action::Nothing, "closes the window");
    assert_eq!(press(&mut app, "q"), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut app, "/ab");
    assert_eq!(app.key(interrupt), Action::Quit, "also while typing the filter");
}

#[test]
fn a_replay_is_stepped_through() {
    let mut app = App::new(FULL, Duration::from_secs(1), true);
    app.handle(FeedEvent::Position(3, 60), |_| true);
    assert_eq!(press(&mut app, "→"), Action::Feed(FeedCommand::Step(1)));
    let text = drawn(&mut app, 80, 24);
    assert!(text.contains("replay 3/60") && text.contains("PAUSED"), "{text}");
    assert_eq!(press(&mut app, "r"), Action::Nothing);
}

/// A recording must not inject control sequences into the terminal.
#[test]
fn control_characters_in_names_are_not_drawn() {
    let mut sample = first_sample("ndr8.json");
    sample.host = Some("\u{1b}[2J\u{1b}]0;x\u{7}".repeat(50));
    sample.devices[0].name = format!("{}\u{1b}[31m\n", "名".repeat(300));
    sample.devices[1].ports[0].netdev = Some("\u{200b}\u{202e}".repeat(100));
    let mut app = App::new(FULL, Duration::from_secs(1), true);
    app.handle(FeedEvent::Sample(Box::new(sample)), |_| true);
    for (width, height) in [(40, 10), (80, 24), (200, 50)] {
        let text = drawn(&mut app, width, height);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text}");
    }
}
