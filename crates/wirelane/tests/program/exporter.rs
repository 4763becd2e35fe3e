//! `exporter`, scraped as Prometheus does, with trees of machines and while they change.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::devices::{is_as_in, names, tree};
use super::disk::Small;
use super::exposition::Scrape;
use super::lifecycle::until;
use super::*;

/// The output of `--once` with these arguments.
fn once(root: &str, more: &[&str]) -> String {
    let output = run(&[&["exporter", "--once", "--root", root], more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// Without lines that differ from run to run.
fn steady(text: &str) -> String {
    let differs = ["duration_seconds{", "age_seconds{", "build_info{"];
    let steady = |line: &&str| !differs.iter().any(|mark| line.contains(mark));
    text.lines().filter(steady).map(|line| format!("{line}\n")).collect()
}

/// A snapshot's files and links, in a folder.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn of(name: &str) -> Machine {
        let folder = TempDir::new().expect("a folder");
        let document = json(&std::fs::read_to_string(tree(name)).expect("a tree"));
        let place = |path: &str| {
            let place = folder.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(place.parent().expect("a folder")).expect("folders");
            place
        };
        for (path, contents) in document["files"].as_object().expect("files") {
            if let Some(text) = contents.as_str() {
                std::fs::write(place(path), text).expect("a file");
            }
        }
        for (path, target) in document["links"].as_object().expect("links") {
            symlink(target.as_str().expect("a path"), place(path)).expect("a link");
        }
        Machine { folder }
    }

    fn root(&self) -> &str {
        self.folder.path().to_str().expect("a plain path")
    }

    /// A file of a device, after resolving links.
    fn file(&self, device: &str, file: &str) -> PathBuf {
        let link = self.folder.path().join("sys/class/infiniband").join(device);
        let target = std::fs::read_link(link).expect("a link");
        let target = target.strip_prefix("/").expect("from the root").to_owned();
        self.folder.path().join(target).join(file)
    }

    fn unplug(&self, device: &str) {
        let link = self.folder.path().join("sys/class/infiniband").join(device);
        std::fs::remove_file(link).expect("it is gone");
    }
}

/// An exporter on a free port, ended with the test.
struct Exporter {
    child: Child,
    address: String,
    said: Lines<BufReader<ChildStderr>>,
}

impl Exporter {
    fn start(more: &[&str]) -> Exporter {
        let mut command = wirelane(&["exporter", "--listen", "127.0.0.1:0"]);
        command.args(more);
        Exporter::of(command)
    }

    fn of(mut command: Command) -> Exporter {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = said.by_ref().find_map(|line| {
            let line = line.expect("text");
            Some(line.split_once("http://")?.1.split('/').next()?.to_owned())
        });
        Exporter { child, address: address.expect("an address"), said }
    }

    fn curl(&self, path: &str, more: &[&str]) -> String {
        let url = format!("http://{}{path}", self.address);
        let curl = Command::new("curl").args(["-sS", "--max-time", "30", &url]).args(more).output();
        stdout(&curl.expect("curl runs"))
    }

    fn scrape(&self) -> Scrape {
        Scrape::read(&self.curl("/metrics", &[]))
    }

    fn exit_code(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn metrics_of_every_tree_are_as_known() {
    for name in names() {
        let text = steady(&once(&tree(&name), &[]));
        Scrape::read(&text);
        is_as_in(&format!("{name}.prom"), &text);
    }
}

#[test]
fn compat_adds_the_names_of_node_exporter() {
    let ours = steady(&once(&tree("mlx5-roce"), &[]));
    let both = steady(&once(&tree("mlx5-roce"), &["--compat", "node"]));
    let theirs = both.strip_prefix(&ours).expect("ours are the same");
    is_as_in("mlx5-roce.node.prom", theirs);
    let scrape = Scrape::read(&both);
    let bytes = scrape.value("rdma_port_receive_bytes_total{device=\"mlx5_0\",port=\"1\"}");
    let name = "node_infiniband_port_data_received_bytes_total{device=\"mlx5_0\",port=\"1\"}";
    assert_eq!(scrape.value(name), bytes);
}

#[test]
fn a_folder_and_its_snapshot_give_the_same_metrics() {
    let machine = Machine::of("ndr8");
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("facts.json");
    let file = file.to_str().expect("a plain path");
    assert_eq!(run(&["snapshot", file, "--root", machine.root()]).status.code(), Some(0));
    assert_eq!(steady(&once(file, &[])), steady(&once(machine.root(), &[])));
}

/// Values change while the snapshot is taken; the series do not.
#[test]
fn this_machine_and_its_snapshot_give_the_same_series() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("facts.json");
    let file = file.to_str().expect("a plain path");
    assert_eq!(run(&["snapshot", file]).status.code(), Some(0));
    let series = |text: &str| Scrape::read(&steady(text)).samples.into_keys().collect::<Vec<_>>();
    let live = run(&["exporter", "--once"]);
    assert_eq!(series(&once(file, &[])), series(&stdout(&live)));
}

#[test]
fn lists_choose_devices_and_counters() {
    let one =
        once(&tree("ndr8"), &["--device-include", "mlx5_?", "--device-exclude", "mlx5_[1-7]"]);
    assert!(one.contains("device=\"mlx5_1\""), "brackets are letters like others");
    let more =
        ["--device-include", "mlx5_0", "--counter-include", "rdma_port_*", "--no-host", "--no-gpu"];
    let scrape = Scrape::read(&once(&tree("ndr8"), &more));
    let names: Vec<&str> = scrape.types.keys().map(String::as_str).collect();
    assert!(!names.iter().any(|name| name.contains("gpu") || name.contains("host")), "{names:?}");
    assert!(!names.contains(&"rdma_symbol_errors_total"), "{names:?}");
    assert!(scrape.value("rdma_port_receive_bytes_total{device=\"mlx5_0\",port=\"1\"}") > 0.0);
    assert_eq!(scrape.samples.keys().filter(|series| series.contains("mlx5_1")).count(), 0);
}

#[test]
fn changes_of_a_machine_affect_only_their_metrics() {
    let machine = Machine::of("ndr8");
    let exporter = Exporter::start(&["--root", machine.root(), "--rdma-interval", "0.1"]);
    let of = |metric: &str| format!("rdma_{metric}{{device=\"mlx5_0\",port=\"1\"}}");
    let before = exporter.scrape();
    assert_eq!(before.value(&of("port_state")), 4.0);
    assert_eq!(before.value(&of("counters_reset_total")), 0.0);
    let counter = |name: &str| machine.file("mlx5_0", &format!("ports/1/{name}"));
    // One wraps, one stays, and one is refused as by a driver that does not have it.
    std::fs::write(counter("counters/port_rcv_data"), "1\n").expect("written");
    std::fs::write(counter("counters/symbol_error"), "65535\n").expect("written");
    std::fs::remove_file(counter("hw_counters/out_of_buffer")).expect("removed");
    let mkfifo = Command::new("mkfifo").arg(counter("hw_counters/out_of_buffer")).status();
    assert!(mkfifo.expect("mkfifo runs").success());
    machine.unplug("mlx5_3");
    until("a look after it", || {
        let present =
            exporter.scrape().samples.get("rdma_device_present{device=\"mlx5_3\"}").copied();
        present == Some(0.0)
    });
    let after = exporter.scrape();
    assert_eq!(after.value(&of("port_receive_bytes_total")), 4.0);
    assert_eq!(after.value(&of("counters_reset_total")), 1.0);
    let marked = |metric: &str, more: &str| {
        after.value(&format!("rdma_{metric}{{device=\"mlx5_0\",port=\"1\",counter={more}}}"))
    };
    assert_eq!(marked("counters_saturated", "\"symbol_error\""), 1.0);
    assert_eq!(marked("counters_unreadable", "\"out_of_buffer\",reason=\"EINVAL\""), 1.0);
    assert!(!after.samples.keys().any(|series| series.contains("state{device=\"mlx5_3\"")));
    let ports = |scrape: &Scrape| {
        scrape.samples.keys().filter(|series| series.starts_with("rdma_port_state")).count()
    };
    assert_eq!(ports(&after), ports(&before) - 1);
    assert_eq!(after.value("wirelane_exporter_collector_success{collector=\"rdma\"}"), 1.0);
}

#[test]
fn only_known_paths_are_served() {
    let exporter = Exporter::start(&["--root", &tree("rxe")]);
    assert_eq!(exporter.curl("/healthz", &[]), "ok\n");
    assert!(exporter.curl("/", &[]).contains("href=\"/metrics\""));
    assert!(exporter.curl("/elsewhere", &[]).contains("404 not found; try /, /metrics, /healthz"));
    assert!(exporter.curl("/metrics", &["-X", "POST"]).contains("only GET and HEAD"));
    let head = exporter.curl("/metrics", &["-I"]);
    assert!(head.contains("200 OK") && head.contains("text/plain; version=0.0.4"), "{head}");
    let long = exporter.curl("/metrics", &["-H", &format!("x: {}", "a".repeat(1 << 16)), "-i"]);
    assert!(long.starts_with("HTTP/1.1 431"), "{long}");
    assert!(exporter.scrape().value("wirelane_exporter_scrapes_total") >= 1.0);
    for signal_name in ["-TERM", "-INT"] {
        let exporter = Exporter::start(&["--root", &tree("rxe")]);
        exporter.scrape();
        signal(&exporter.child, signal_name);
        assert_eq!(exporter.exit_code(), Some(0), "{signal_name}");
    }
}

#[test]
fn a_busy_port_names_its_owner_and_the_flag() {
    let exporter = Exporter::start(&["--root", &tree("rxe")]);
    let output = run(&["exporter", "--root", &tree("rxe"), "--listen", &exporter.address]);
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    assert!(text.contains(&format!("wirelane (pid {})", exporter.child.id())), "{text}");
    assert!(text.contains("--listen"), "{text}");
    for wrong in [&["--rdma-interval", "0"][..], &["--listen", "9878"], &["--compat", "statsd"]] {
        assert_eq!(run(&[&["exporter"], wrong].concat()).status.code(), Some(2), "{wrong:?}");
    }
    let nowhere = run(&["exporter", "--once", "--root", "/nowhere/at/all"]);
    assert_eq!(nowhere.status.code(), Some(3));
}

/// Opening a FIFO without a writer blocks forever, like loading a hanging driver's library, with the dynamic linker's
/// lock held.
#[test]
fn a_gpu_library_that_hangs_affects_only_gpu_metrics() {
    let folder = TempDir::new().expect("a folder");
    let fifo = folder.path().join("libnvidia-ml.so.1");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    let mut command = wirelane(&["exporter", "--listen", "127.0.0.1:0"]);
    command.env("LD_LIBRARY_PATH", folder.path());
    let mut exporter = Exporter::of(command);
    let impatient = ["-H", "X-Prometheus-Scrape-Timeout-Seconds: 1"];
    let scrape = || Scrape::read(&exporter.curl("/metrics", &impatient));
    let successes = |scrape: &Scrape| {
        ["gpu", "rdma", "host"].map(|name| {
            scrape.value(&format!("wirelane_exporter_collector_success{{collector=\"{name}\"}}"))
        })
    };
    // On a busy machine the others may be late at first too, but not forever.
    let hung = (0..60).map(|_| scrape()).find(|scrape| successes(scrape) == [0.0, 1.0, 1.0]);
    assert!(hung.expect("only the GPUs fail").value("wirelane_host_cpus") > 0.0);
    assert_eq!(successes(&scrape())[0], 0.0);
    let said = exporter.said.next().expect("a line").expect("text");
    assert!(said.contains("gpu") && said.contains("does not answer"), "{said}");
    signal(&exporter.child, "-TERM");
    assert_eq!(exporter.exit_code(), Some(0));
}

#[test]
fn a_machine_without_a_gpu_logs_it_once() {
    let folder = TempDir::new().expect("a folder");
    // A text file instead of a library gives the same error as a missing one.
    std::fs::write(folder.path().join("libnvidia-ml.so.1"), "no library").expect("a file");
    let mut command = wirelane(&["exporter", "--listen", "127.0.0.1:0", "--gpu-interval", "0.1"]);
    command.env("LD_LIBRARY_PATH", folder.path());
    let mut exporter = Exporter::of(command);
    for _ in 0..3 {
        let scrape = exporter.scrape();
        let name = "wirelane_exporter_collector_success{collector=\"gpu\"}";
        assert_eq!(scrape.value(name), 1.0, "that there is none is an answer");
    }
    signal(&exporter.child, "-TERM");
    let said: Vec<String> = exporter.said.by_ref().map_while(Result::ok).collect();
    let lines = said.iter().filter(|line| line.contains("NVML")).count();
    assert_eq!(lines, 1, "{said:?}");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[test]
fn a_text_file_is_complete_and_readable_and_stays_after_the_end() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("wirelane.prom");
    std::fs::write(folder.path().join(".wirelane-killed.tmp"), "half").expect("a file");
    let path = folder.path().to_str().expect("a plain path");
    let mut child = wirelane(&["exporter", "--textfile", path, "--root", &tree("ndr8")])
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    until("it is written", || file.exists());
    let text = std::fs::read_to_string(&file).expect("text");
    let scrape = Scrape::read(&text);
    assert_eq!(scrape.value("wirelane_exporter_textfile_errors_total"), 0.0);
    assert!(!text.contains("node_infiniband"), "{text}");
    assert_eq!(mode(&file), 0o644);
    signal(&child, "-TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_full_disk_keeps_the_old_text_file_and_is_counted_and_logged_once() {
    let small = Small::mount(1);
    let folder = small.directory.path().to_str().expect("a plain path");
    let more = ["--rdma-interval", "0.1", "--listen", "127.0.0.1:0", "--textfile", folder];
    let root = tree("ndr8");
    let command = small.wirelane(&[&["exporter", "--root", &root][..], &more].concat());
    let mut exporter = Exporter::of(command);
    let file = small.path("wirelane.prom");
    until("it is written", || file.exists());
    std::fs::write(small.path("ballast"), vec![7; 2 << 20]).expect_err("the disk is full");
    let said = exporter.said.next().expect("a line").expect("text");
    assert!(said.contains("wirelane.prom") && said.contains("No space left"), "{said}");
    Scrape::read(&std::fs::read_to_string(&file).expect("the old file is whole"));
    exporter.scrape();
    std::fs::remove_file(small.path("ballast")).expect("there is room again");
    let said = exporter.said.next().expect("a line").expect("text");
    assert!(said.contains("is written again"), "it was said once: {said}");
    until("the file tells of it", || {
        let scrape = Scrape::read(&std::fs::read_to_string(&file).expect("text"));
        scrape.value("wirelane_exporter_textfile_errors_total") >= 1.0
    });
    let names = std::fs::read_dir(small.path("")).expect("a folder");
    let names: Vec<_> = names.map(|entry| entry.expect("a file").file_name()).collect();
    assert!(names.iter().filter(|name| name.to_string_lossy().ends_with(".tmp")).count() <= 1);
}
