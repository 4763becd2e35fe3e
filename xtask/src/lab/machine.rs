//! A QEMU process: starts it, reads its ports, and kills it on exit.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::initramfs::Initramfs;
use super::kernel::cache_folder;
use crate::Failure;

/// The machine to boot.
pub(super) struct Machine<'k> {
    pub(super) cpus: u32,
    pub(super) memory: u32,
    /// A disk, in this file or in a temporary one.
    pub(super) disk: Option<Option<PathBuf>>,
    /// The time limit of the command; `None` for a shell.
    pub(super) limit: Option<Duration>,
    /// Whether the command uses this terminal.
    pub(super) console: bool,
    pub(super) initramfs: Initramfs<'k>,
}

/// How it ended.
pub(super) enum Ending {
    Exited(u8),
    TimedOut,
    /// Without an exit code of the command: the machine did not start, crashed, or was reset.
    WentDown(String),
}

/// How the machine's instructions are executed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accelerator {
    Kvm,
    Emulation,
}

impl Machine<'_> {
    pub(super) fn run(&self, quiet: bool) -> Result<Ending, Failure> {
        let folder = RunFolder::create()?;
        let archive = self.initramfs.archive()?;
        folder.write("initramfs", &archive)?;
        let disk = self.make_disk(&folder)?;
        if kvm_may_work() {
            let (ending, started_command) =
                self.boot(&folder, disk.as_deref(), Accelerator::Kvm, quiet)?;
            if started_command {
                return Ok(ending);
            }
            remember_kvm_refused();
        }
        // An emulated kernel was seen to panic before our first script (6.12 on QEMU 7.2; rare, cause
        // unknown). The command has not started then, so booting again is safe.
        for _ in 1..MAX_BOOTS {
            let (ending, started_command) =
                self.boot(&folder, disk.as_deref(), Accelerator::Emulation, quiet)?;
            if started_command {
                return Ok(ending);
            }
            eprintln!("lab: the machine did not start, trying again");
        }
        Ok(self.boot(&folder, disk.as_deref(), Accelerator::Emulation, quiet)?.0)
    }

    /// Boots and waits for the end; also returns whether the command was started.
    fn boot(
        &self,
        folder: &RunFolder,
        disk: Option<&Path>,
        accelerator: Accelerator,
        quiet: bool,
    ) -> Result<(Ending, bool), Failure> {
        let started = Instant::now();
        let (steps, step) = channel();
        let ports = [
            Port::listen(folder, "out", copy_to(io::stdout))?,
            Port::listen(folder, "err", copy_to(io::stderr))?,
            Port::listen(folder, "step", report_steps(steps))?,
        ];
        let mut qemu = self.start(folder, disk, accelerator)?;
        let limit = self.limit;
        let mut wait = Wait { step, started, limit, quiet, accelerator, up: false, ready: None };
        let ending = wait.for_end(&mut qemu);
        end_process(&mut qemu, &ending);
        for port in ports {
            port.finish();
        }
        folder.keep_console();
        let started_command = wait.ready.is_some() || matches!(ending, Ending::Exited(_));
        let ending = match ending {
            Ending::WentDown(why) => Ending::WentDown(folder.explain(&why)),
            ending => ending,
        };
        Ok((ending, started_command))
    }

    fn start(
        &self,
        folder: &RunFolder,
        disk: Option<&Path>,
        accelerator: Accelerator,
    ) -> Result<Child, Failure> {
        let mut command = Command::new("setpriv");
        // The kernel kills QEMU when we exit.
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        command.args(match accelerator {
            Accelerator::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Accelerator::Emulation => ["-accel", "tcg,thread=multi", "-cpu", EMULATED_CPU],
        });
        command.args(["-smp", &self.cpus.to_string(), "-m", &self.memory.to_string()]);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.arg("-kernel").arg(self.initramfs.kernel.image());
        command.arg("-initrd").arg(folder.path("initramfs"));
        command.args(["-append", KERNEL_ARGUMENTS]);
        command.arg("-serial").arg(format!("file:{}", folder.path("console").display()));
        // The host's files, read-only; its mounts are one tree in the machine, so inode numbers may collide.
        command.args([
            "-fsdev",
            "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device",
            "virtio-9p-pci,fsdev=host,mount_tag=host",
            "-device",
            "virtio-serial-pci",
        ]);
        if self.console {
            command.args(["-chardev", "stdio,id=console,signal=off"]);
            command.args(["-device", "virtconsole,chardev=console,nr=0"]);
        } else {
            command.stdin(Stdio::null());
        }
        for (number, name) in (1..).zip(["out", "err", "step"]) {
            let path = folder.path(name);
            command.arg("-chardev").arg(format!("socket,id={name},path={}", option_path(&path)));
            let device = format!("virtserialport,chardev={name},nr={number},name={name}");
            command.args(["-device", &device]);
        }
        if let Some(disk) = disk {
            let drive = format!("file={},if=none,id=disk,format=raw", option_path(disk));
            command.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"]);
        }
        let log = folder.create_file("qemu")?;
        let spawned = command.stderr(log).spawn();
        spawned.map_err(|error| format!("start qemu-system-x86_64: {error}"))
    }

    fn make_disk(&self, folder: &RunFolder) -> Result<Option<PathBuf>, Failure> {
        let Some(disk) = &self.disk else { return Ok(None) };
        let disk = disk.clone().unwrap_or_else(|| folder.path("disk"));
        if !disk.exists() {
            let created = File::create(&disk).and_then(|file| file.set_len(DISK_BYTES));
            created.map_err(|error| format!("create the disk {}: {error}", disk.display()))?;
        }
        Ok(Some(disk))
    }
}

/// A path inside a QEMU option, with commas escaped.
fn option_path(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

/// Waits for the exit code of the command.
struct Wait {
    step: Receiver<String>,
    started: Instant,
    limit: Option<Duration>,
    quiet: bool,
    accelerator: Accelerator,
    /// Whether our scripts inside have reported a step.
    up: bool,
    /// When the command was started.
    ready: Option<Instant>,
}

impl Wait {
    fn for_end(&mut self, qemu: &mut Child) -> Ending {
        loop {
            let step = match self.step.recv_timeout(Duration::from_millis(50)) {
                Ok(step) => step,
                // The port closes when QEMU ends; all steps before are read by then.
                Err(RecvTimeoutError::Disconnected) => {
                    return Ending::WentDown("the machine went down".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(ending) = self.timed_out(qemu) {
                        return ending;
                    }
                    // Without a step the port was never opened, and cannot close.
                    if !self.up && matches!(qemu.try_wait(), Ok(Some(_))) {
                        return Ending::WentDown("the machine did not start".to_owned());
                    }
                    continue;
                }
            };
            self.up = true;
            if let Some(code) = exit_code(&step) {
                return Ending::Exited(code);
            }
            if step == "ready" {
                self.ready = Some(Instant::now());
                if !self.quiet {
                    eprintln!("lab: ready after {:.1} s", self.started.elapsed().as_secs_f64());
                }
            }
        }
    }

    /// Booting has a separate timeout; the limit applies only to the command.
    fn timed_out(&self, qemu: &Child) -> Option<Ending> {
        if let Some(ready) = self.ready {
            return (ready.elapsed() > self.limit?).then_some(Ending::TimedOut);
        }
        let elapsed = self.started.elapsed();
        let late = match self.accelerator {
            Accelerator::Kvm if !self.up => elapsed > KVM_TIMEOUT,
            // On a busy host QEMU may have had too little CPU time to boot.
            _ => elapsed > MAX_BOOT_TIME || elapsed > BOOT_TIMEOUT && cpu_time(qemu) > BOOT_TIMEOUT,
        };
        let seconds = elapsed.as_secs();
        late.then(|| Ending::WentDown(format!("the machine did not start within {seconds} s")))
    }
}

/// The CPU time that a process has used; none if it cannot be read.
fn cpu_time(process: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap_or_default();
    // The name, in parentheses, may contain spaces; user and system time are the 12th and 13th fields after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

fn exit_code(step: &str) -> Option<u8> {
    step.strip_prefix("exit ")?.trim().parse().ok()
}

/// After the command the machine powers off, and an exiting QEMU may finish its
/// writes to the disk; after a timeout it is killed.
fn end_process(qemu: &mut Child, ending: &Ending) {
    let timeout = match ending {
        Ending::Exited(_) => POWER_OFF_TIMEOUT,
        Ending::WentDown(_) => Duration::from_secs(2),
        Ending::TimedOut => Duration::ZERO,
    };
    let started = Instant::now();
    while started.elapsed() < timeout {
        if matches!(qemu.try_wait(), Ok(Some(_))) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let _ = qemu.kill();
    let _ = qemu.wait();
}

/// A serial port of the machine: QEMU connects to our socket, a thread reads it to the end.
struct Port {
    path: PathBuf,
    reader: JoinHandle<()>,
}

impl Port {
    fn listen(
        folder: &RunFolder,
        name: &str,
        read: impl FnOnce(UnixStream) + Send + 'static,
    ) -> Result<Self, Failure> {
        let path = folder.path(name);
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)
            .map_err(|error| format!("listen on {}: {error}", path.display()))?;
        let reader = thread::spawn(move || {
            if let Ok((stream, _)) = listener.accept() {
                read(stream);
            }
        });
        Ok(Port { path, reader })
    }

    /// Waits until everything was read. QEMU has ended; if it never connected, we connect instead to end the thread.
    fn finish(self) {
        if !self.reader.is_finished() {
            drop(UnixStream::connect(&self.path));
        }
        let _ = self.reader.join();
    }
}

/// Copies every piece immediately, complete lines or not.
fn copy_to<W: Write>(
    open: impl FnOnce() -> W + Send + 'static,
) -> impl FnOnce(UnixStream) + Send + 'static {
    move |mut stream| {
        let mut to = Some(open());
        let mut piece = [0; 64 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            let write = |to: &mut W| to.write_all(&piece[..length]).and_then(|()| to.flush());
            // A closed output must not stop the machine: continue to read, and discard.
            if to.as_mut().is_some_and(|to| write(to).is_err()) {
                to = None;
            }
        }
    }
}

fn report_steps(steps: Sender<String>) -> impl FnOnce(UnixStream) + Send + 'static {
    move |stream| {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if steps.send(line).is_err() {
                return;
            }
        }
    }
}

/// The files of one run, removed at its end, or by the next run after Ctrl-C.
struct RunFolder(PathBuf);

impl RunFolder {
    fn create() -> Result<Self, Failure> {
        remove_old_folders();
        // Short, since the path of a socket has at most 107 bytes.
        let folder = std::env::temp_dir().join(format!("{RUN_FOLDER}{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)
            .map_err(|error| format!("create {}: {error}", folder.display()))?;
        Ok(RunFolder(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn create_file(&self, name: &str) -> Result<File, Failure> {
        let path = self.path(name);
        File::create(&path).map_err(|error| format!("write {}: {error}", path.display()))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.create_file(name)?.write_all(bytes);
        written.map_err(|error| format!("write {}: {error}", self.path(name).display()))
    }

    /// Keeps the kernel's messages after the run, to explain a crash.
    fn keep_console(&self) {
        if let Ok(cache) = cache_folder() {
            let _ = fs::copy(self.path("console"), cache.join("console.log"));
        }
    }

    /// Why the machine went down, with the last messages of QEMU and the kernel.
    fn explain(&self, why: &str) -> String {
        let mut text = format!("{why} before the command had ended");
        for (name, who) in [("qemu", "QEMU"), ("console", "the kernel")] {
            let messages = tail(&self.path(name));
            if !messages.is_empty() {
                text.push_str(&format!("\nlast messages of {who}:\n{messages}"));
            }
        }
        text
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of runs whose process is gone.
fn remove_old_folders() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(RUN_FOLDER)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn tail(file: &Path) -> String {
    let bytes = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// KVM is tried if it is available, and after a failure not again until the host's next boot.
fn kvm_may_work() -> bool {
    let opens = File::options().read(true).write(true).open("/dev/kvm").is_ok();
    let refused = refusal_file().and_then(|file| fs::read_to_string(file).ok());
    opens && refused != Some(boot_id())
}

fn remember_kvm_refused() {
    if let Some(file) = refusal_file() {
        let _ = fs::write(file, boot_id());
    }
}

fn refusal_file() -> Option<PathBuf> {
    Some(cache_folder().ok()?.join("kvm-refused-in-boot"))
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

const RUN_FOLDER: &str = "wirelane-lab-";
/// Without five-level page tables, which the one recorded panic had: whether they caused it is unknown. Without the
/// instructions that libraries and the kernel choose for copying where a CPU has them: emulated, `rep movsb` and AVX are two to
/// three times as slow as plain moves.
const EMULATED_CPU: &str = "max,la57=off,erms=off,fsrm=off,avx=off,avx2=off";
/// `no_timer_check`: the kernel waits for ten timer ticks for a time measured by the CPU, and panics if they are missing
/// ("IO-APIC + timer doesn't work"). An emulated machine on a busy host is sometimes too slow for that.
/// `norandmaps`: QEMU keeps the code that it has translated by address, so a program that is at the same one is not translated
/// again; a command takes a fifth less. `tsc`: the kernel takes the HPET otherwise, since it sees that the CPUs' counters differ by
/// some cycles; each reading of it is an access to an emulated device (tests over verbs take a fifth less).
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off no_timer_check norandmaps \
     tsc=reliable clocksource=tsc";
const DISK_BYTES: u64 = 1 << 30;
/// A kernel under KVM reports its first step within three seconds.
const KVM_TIMEOUT: Duration = Duration::from_secs(15);
/// Of CPU time under emulation; ten seconds are usual.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);
/// However little CPU time it gets.
const MAX_BOOT_TIME: Duration = Duration::from_secs(15 * 60);
/// The unit of `/proc/PID/stat`, the same on every Linux of our architectures.
const TICKS_PER_SECOND: u64 = 100;
const MAX_BOOTS: usize = 4;
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(10);
