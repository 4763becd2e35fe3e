//! Every command of the program, run where its output cannot be written, on narrow terminals, and with `--json`.
//!
//! The commands are those of the program's own definitions: a new one needs a row in `ROWS`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;

/// A command, its arguments, and the lines that may be wider than the terminal.
pub(super) struct Row(pub(super) &'static str, pub(super) &'static str, Width);

/// Which lines of an answer fit the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// All of them.
    Fit,
    /// All but those that are indented by four spaces: commands and parts of files.
    FitBesidesFiles,
    /// None: files, manifests, scripts and lists of keys, which other programs read.
    Unchanged,
}

use Width::{Fit, FitBesidesFiles, Unchanged};

/// `{…}` are paths and addresses of `World`.
pub(super) const ROWS: &[Row] = &[
    Row("", "", Fit),
    Row("serve", "--http {http} --listen 127.0.0.1:0", Fit),
    Row("kv put", "--server {links} k v", Fit),
    Row("kv get", "--server {links} there", Unchanged),
    Row("kv delete", "--server {links} missing", Fit),
    Row("kv exists", "--server {links} there", Fit),
    Row("kv stat", "--server {links} there", Fit),
    Row("kv ls", "--server {links} --long", Unchanged),
    Row("kv mget", "--server {links} there", Unchanged),
    Row("kv mput", "--server {links} a=1", Fit),
    Row("kv bench", "--server {links} --ops 50 --keys 5", Fit),
    Row("kv fsck", "{data}", Fit),
    Row("kv backup", "{data} {new}/backup", Fit),
    Row("kv restore", "{backup} {new}/data", Fit),
    Row("bench bw", "--local --count 10 --warmup 0 --no-save", Fit),
    Row("bench lat", "--local --count 10 --warmup 0 --no-save", Fit),
    Row("bench rate", "--local --count 10 --warmup 0 --no-save", Fit),
    Row("bench compare", "--local --time 0.01 --no-save", Fit),
    // Refused at once: two more servers would take long.
    Row("bench mesh", "--hosts 127.0.0.1:1,127.0.0.1:2 --timeout 1 --no-save", Fit),
    Row("bench nccl", "--read {nccl} --root {tree}", Fit),
    Row("bench torch", "--read {nccl} --root {tree}", Fit),
    Row("bench serve", "--listen {http}", Fit),
    Row("bench report", "{document} --output {new}/page.html", Fit),
    Row("bench history", "", Fit),
    Row("bench history show", "last", Fit),
    Row("bench history compare", "last last", Fit),
    Row("bench history baseline set", "last", Fit),
    Row("bench history baseline clear", "last", Fit),
    Row("connect", "{links} --no-measure", Fit),
    Row("token new", "ann", Unchanged),
    Row("token check", "{tokens}", Fit),
    Row("devices", "--wide --root {tree}", Fit),
    Row("topo", "--root {tree}", Fit),
    Row("snapshot", "- --root {tree}", Unchanged),
    Row("doctor", "--all --root {iommu}", Fit),
    Row("explain", "--root {iommu} IBV_WC_LOC_PROT_ERR(4) vendor_err=81", Fit),
    Row("exporter", "--once --root {tree}", Unchanged),
    Row("top", "--once --interval 100ms --root {tree}", Fit),
    Row("install plan", "--root {machine}", FitBesidesFiles),
    Row("install apply", "--yes --root {machine}", FitBesidesFiles),
    Row("env", "--root {tree}", Unchanged),
    Row("exec", "--root {tree} -- true", Fit),
    Row("hosts check", "--hosts {tree},{iommu}", Fit),
    Row("launch", "mpi --explain", Fit),
    Row("setup rdma plan", "--root {machine} --address rxe0=10.0.0.1/24", FitBesidesFiles),
    Row("setup rdma apply", "--yes --root {machine} --address rxe0=10.0.0.1/24", FitBesidesFiles),
    Row("setup mpi plan", "--root {machine}", FitBesidesFiles),
    Row("setup mpi apply", "--yes --root {machine}", FitBesidesFiles),
    Row("nfs server plan", "/srv/data --clients 10.0.0.0/24 --root {machine}", FitBesidesFiles),
    Row("nfs server apply", "/srv/data --clients a --yes --root {machine}", FitBesidesFiles),
    Row("nfs client plan", "10.0.0.1:/data /mnt/data --root {machine}", FitBesidesFiles),
    Row("nfs client apply", "10.0.0.1:/data /mnt/data --yes --root {machine}", FitBesidesFiles),
    Row("nfs verify", "/", Fit),
    Row("nfs remove", "--root {machine}", Fit),
    Row("tune plan", "--root {tree}", FitBesidesFiles),
    Row("tune apply", "--yes --root {machine}", FitBesidesFiles),
    Row("changes", "--root {machine}", Fit),
    Row("revert", "--all --root {machine}", Fit),
    Row("k8s machineconfig", "--memlock --root {tree}", Unchanged),
    Row("k8s policy", "--root {tree}", Unchanged),
    Row("k8s network", "--range 10.1.0.0/16 --root {tree}", Unchanged),
    Row("k8s job", "--image x/y --root {tree}", Unchanged),
    Row("k8s verify", "--image x/y --root {tree}", Unchanged),
    Row("k8s exporter", "--image x/y --root {tree}", Unchanged),
    Row("capture", "--dry-run --root rxe.json", Fit),
    Row("config show", "", Fit),
    Row("config check", "{settings}", Fit),
    Row("config schema", "", Unchanged),
    Row("completions", "bash", Unchanged),
    Row("man", "{new}/man", Fit),
];

/// A store, and files that commands read. Commands that change a machine get a copy of one.
pub(super) struct World {
    pub(super) server: Server,
    pub(super) folder: tempfile::TempDir,
    used: AtomicUsize,
}

impl World {
    pub(super) fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
        let data = path("data");
        let server = Server::start(&["--memory", "16MiB", "--data-dir", &data]);
        let world = World { server, folder, used: AtomicUsize::new(0) };
        machine(&world.path("machine"));
        world.file("settings", "log_level: info\n");
        world.file("document", &super::reports::result("2026-11-01T10:00:00Z", 40.0));
        fs::create_dir_all(world.path("state/wirelane/bench")).expect("a folder");
        let saved = super::reports::result("2026-11-02T10:00:00Z", 30.0);
        world.file("state/wirelane/bench/20261102-100000-bw.json", &saved);
        world.file("tokens", &stdout(&run(&["token", "new", "ann"])));
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(world.path("tokens"), private).expect("permissions");
        for line in ["kv put --server {links} there v", "kv backup {data} {backup}"] {
            world.ok(line);
        }
        world.ok(&format!("tune apply --yes --root {}", world.path("machine").display()));
        world
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn file(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    fn ok(&self, line: &str) {
        let output = self.command(line, "").output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    }

    /// A command line by a shell, with a redirection. Each has its own `{new}` and `{machine}`.
    pub(super) fn command(&self, line: &str, redirection: &str) -> Command {
        let new = self.path(&format!("run-{}", self.used.fetch_add(1, Relaxed)));
        fs::create_dir(&new).expect("a folder");
        if line.contains("{machine}") {
            let copied = Command::new("cp").arg("-a").arg(self.path("machine")).arg(&new).status();
            assert!(copied.expect("cp runs").success());
        }
        let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
        let of = |name: &str| text(&self.path(name));
        let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/nccl");
        let names = [
            ("http", self.server.address.clone()),
            ("links", self.server.links.clone()),
            ("new", text(&new)),
            ("machine", text(&new.join("machine"))),
            ("data", of("data")),
            ("backup", of("backup")),
            ("tokens", of("tokens")),
            ("settings", of("settings")),
            ("document", of("document")),
            ("nccl", format!("{samples}/sample-v1-all_reduce.log")),
            ("tree", "gpu-no-peermem.json".to_owned()),
            ("iommu", "iommu.json".to_owned()),
        ];
        let filled = names.iter().fold(line.to_owned(), |line, (name, value)| {
            line.replace(&format!("{{{name}}}"), value)
        });
        let program = wirelane(&[]);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec \"$0\" \"$@\" {redirection}")).arg(program.get_program());
        shell.args(filled.split_whitespace()).stdin(Stdio::null());
        shell.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../node/tests/trees"));
        shell.env("WIRELANE_LIBIBVERBS", "/nowhere/libibverbs.so.1").env_remove("COLUMNS");
        shell.env("XDG_STATE_HOME", self.path("state"));
        shell
    }

    /// Runs a command; it must end with an exit code of the program, and not panic.
    pub(super) fn run(&self, line: &str, redirection: &str) -> Output {
        World::output(line, self.command(line, redirection))
    }

    fn output(line: &str, mut command: Command) -> Output {
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0..=3)), "{line}: {}: {said}", output.status);
        assert!(!said.contains("panicked"), "{line}: {said}");
        output
    }
}

impl Row {
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.0, self.1)
    }
}

/// Runs a check for all rows, on a few threads.
pub(super) fn all(check: impl Fn(&Row) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(row) = ROWS.get(next.fetch_add(1, Relaxed)) {
            check(row);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
}

/// The files of a machine with soft-RoCE, nfs-utils, and a kernel with the modules.
pub(super) fn machine(root: &Path) {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    let device = "sys/devices/virtual/infiniband/rxe0";
    write(&format!("{device}/node_type"), "1: CA\n");
    write(&format!("{device}/parent"), "eth0\n");
    write(&format!("{device}/ports/1/state"), "4: ACTIVE\n");
    write(&format!("{device}/ports/1/link_layer"), "Ethernet\n");
    write("sys/devices/virtual/net/eth0/type", "1\n");
    write("sys/devices/virtual/net/eth0/mtu", "1500\n");
    for (class, name) in [("infiniband", "rxe0"), ("net", "eth0")] {
        let links = root.join(format!("sys/class/{class}"));
        fs::create_dir_all(&links).expect("a folder");
        symlink(format!("../../devices/virtual/{class}/{name}"), links.join(name)).expect("a link");
    }
    for program in ["rpc.nfsd", "exportfs", "mount.nfs"] {
        write(&format!("usr/sbin/{program}"), "");
    }
    write("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
    write("etc/network/interfaces", "source /etc/network/interfaces.d/*\n");
    write("etc/systemd/system/multi-user.target.wants/networking.service", "");
    write("proc/sys/kernel/osrelease", "6.12.0\n");
    let module = "kernel/net/sunrpc/xprtrdma/rpcrdma.ko.xz: kernel/net/sunrpc/sunrpc.ko.xz\n";
    write("lib/modules/6.12.0/modules.dep", module);
    write("proc/self/mountinfo", "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    write("etc/fstab", "/dev/sda1 / ext4 defaults 0 1\n");
    fs::create_dir_all(root.join("srv/data")).expect("a folder");
}

/// The paths of all commands that run by themselves.
fn paths(command: &clap::Command, before: &str, found: &mut BTreeSet<String>) {
    let inner = || command.get_subcommands().filter(|inner| inner.get_name() != "help");
    if inner().next().is_none() || !command.is_subcommand_required_set() {
        found.insert(before.to_owned());
    }
    for inner in inner() {
        paths(inner, format!("{before} {}", inner.get_name()).trim_start(), found);
    }
}

fn definition(path: &str) -> clap::Command {
    let mut root = wirelane::command();
    root.build();
    path.split_whitespace()
        .fold(root, |command, name| command.find_subcommand(name).expect("a command").clone())
}

#[test]
fn every_command_has_a_row() {
    let mut defined = BTreeSet::new();
    paths(&definition(""), "", &mut defined);
    let rows: BTreeSet<String> = ROWS.iter().map(|Row(path, ..)| (*path).to_owned()).collect();
    assert_eq!(rows, defined, "add the command to ROWS");
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let world = World::new();
    all(|row| {
        let line = row.line();
        let usual = world.run(&line, "");
        let code = usual.status.code();
        for redirection in [">&-", ">/dev/full"] {
            let output = world.run(&line, redirection);
            if usual.stdout.is_empty() {
                assert_eq!(output.status.code(), code, "{line} {redirection}: {}", stderr(&output));
                continue;
            }
            assert_eq!(output.status.code(), Some(3), "{line} {redirection}: {}", stderr(&output));
            assert!(
                stderr(&output).contains("stdout"),
                "{line} {redirection}: {}",
                stderr(&output)
            );
        }
        // There is no place for the error.
        let output = world.run(&line, ">&- 2>&-");
        let expected = if usual.stdout.is_empty() { code } else { Some(3) };
        assert_eq!(output.status.code(), expected, "{line} without stdout and stderr");
        let output = world.run(&line, "<&- 2>/dev/full");
        assert_eq!(output.status.code(), code, "{line} without stdin and stderr");
    });
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let world = World::new();
    for line in ["--help", "--version", "kv put --help"] {
        assert_eq!(world.run(line, "").status.code(), Some(0), "{line}");
        for redirection in [">&-", ">/dev/full", "1</dev/null"] {
            let output = world.run(line, redirection);
            assert_eq!(output.status.code(), Some(3), "{line} {redirection}");
            assert!(
                stderr(&output).contains("stdout"),
                "{line} {redirection}: {}",
                stderr(&output)
            );
        }
    }
    assert_eq!(world.run("no-such-command", "2>&-").status.code(), Some(2));
}

#[test]
fn a_closed_stdin_is_an_error_where_it_is_read() {
    let world = World::new();
    for line in ["explain", "bench nccl --read -", "bench torch --read -"] {
        for redirection in ["<&-", "0>/dev/null"] {
            let output = world.run(line, redirection);
            assert_eq!(output.status.code(), Some(3), "{line} {redirection}");
            assert!(stderr(&output).contains("stdin"), "{line} {redirection}: {}", stderr(&output));
        }
    }
}

/// Whether a line fits, or has one word that is too long for it.
fn fits(line: &str, width: usize) -> bool {
    let mut words = line.split_whitespace();
    let last = words.next_back().map_or(0, |word| word.chars().count());
    // Before it only a label (`read:`) or a number can stand.
    let is_one_word = words.count() <= 1 && last + 20 > width;
    line.chars().count() <= width || is_one_word
}

#[test]
fn lines_fit_the_terminal() {
    let world = World::new();
    all(|row| {
        if row.2 == Unchanged {
            return;
        }
        for width in [40, 80] {
            let line = row.line();
            let mut command = world.command(&line, "");
            command.env("COLUMNS", width.to_string());
            let text = stdout(&World::output(&line, command));
            let is_of_file = |line: &str| row.2 == FitBesidesFiles && line.starts_with("    ");
            let wrong = |line: &&str| !is_of_file(line) && !fits(line, width);
            let wrong: Vec<&str> = text.lines().filter(wrong).collect();
            assert!(wrong.is_empty(), "{line}: wider than {width}: {wrong:#?}");
        }
    });
}

#[test]
fn json_is_parsed_where_a_command_has_it() {
    let world = World::new();
    let count = AtomicUsize::new(0);
    all(|row| {
        let has = definition(row.0).get_arguments().any(|argument| argument.get_id() == "json");
        if !has {
            return;
        }
        let line = format!("{} --json {}", row.0, row.1);
        let output = world.run(&line, "");
        let text = stdout(&output);
        assert!(!text.is_empty() || output.status.code() != Some(0), "{line}: nothing is printed");
        let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
        assert!(is_json(&text) || text.lines().all(is_json), "{line}: {text}");
        count.fetch_add(usize::from(!text.is_empty()), Relaxed);
    });
    assert!(count.load(Relaxed) > 30, "{count:?}");
}
