//! System packages that the tasks need.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

use crate::{Failure, shell};

/// A required program or library.
#[derive(Debug)]
pub(crate) struct Need {
    /// Debian's package.
    package: &'static str,
    /// A shell command that succeeds if it is installed, from any package.
    probe: &'static str,
    /// The purpose.
    why: &'static str,
}

/// To boot the lab.
pub(crate) const LAB: &[Need] = &[
    need("qemu-system-x86", "command -v qemu-system-x86_64", "the lab's machine"),
    need(
        "busybox-static",
        "command -v busybox && ! ldd \"$(command -v busybox)\"",
        "the lab's first programs",
    ),
    need("kmod", "command -v modprobe", "the lab's kernel modules"),
    need("xz-utils", "command -v xz", "the lab's kernel modules"),
    need("e2fsprogs", "command -v mkfs.ext4", "the lab's disk"),
    need("iproute2", "command -v rdma && command -v tc", "the lab's wires"),
    need("procps", "command -v sysctl", "the lab's wires"),
    need("ibverbs-providers", "test -e /etc/libibverbs.d/rxe.driver", "RDMA in the lab"),
    need("ibverbs-utils", "command -v ibv_devinfo", "to compare with in the lab"),
    need("perftest", "command -v ib_write_bw", "to compare with in the lab"),
    need("tshark", "command -v tshark", "to read captures in the lab"),
    need("openmpi-bin", "command -v /usr/bin/mpirun", "to start MPI programs in the lab"),
    need("libopenmpi-dev", "command -v /usr/bin/mpicc", "to compile MPI programs in the lab"),
    need(
        "nfs-kernel-server",
        "command -v rpc.nfsd && command -v exportfs",
        "to serve files in the lab, and nowhere else",
    ),
    need("nfs-common", "command -v mount.nfs", "to mount them there"),
    need("rpcbind", "command -v rpcbind", "that NFS brings; it is not started"),
];

/// To compare our declarations with C's.
pub(crate) const HEADERS: &[Need] = &[
    need("libibverbs-dev", "test -e /usr/include/infiniband/verbs.h", "to compare layouts with"),
    need("libfabric-dev", "test -e /usr/include/rdma/fabric.h", "to compare layouts with"),
    need("libfabric1", "ldconfig -p | grep -q libfabric.so.1", "to call its providers"),
    need("gcc", "command -v cc", "to compare layouts with"),
    need("curl", "command -v curl", "to call the server as a user would"),
    need("systemd", "command -v systemd-analyze", "to check units, of which none is started"),
    need("tmux", "command -v tmux", "to drive `top` in a real terminal"),
];

/// To reach this machine over ssh, as several hosts.
pub(crate) const HOSTS: &[Need] = &[
    need("openssh-client", "command -v ssh && command -v ssh-keygen", "to reach hosts in tests"),
    need("openssh-server", "test -x /usr/sbin/sshd", "to be reached in tests; none is started"),
    need("iproute2", "command -v ip", "to connect hosts in tests"),
];

/// To start jobs on hosts.
pub(crate) const JOBS: &[Need] = &[
    need("openmpi-bin", "command -v /usr/bin/mpirun", "to start MPI programs in tests"),
    need("libopenmpi-dev", "command -v /usr/bin/mpicc", "to compile MPI programs in tests"),
    need("slurmctld", "command -v slurmctld", "to reach hosts by srun in tests"),
    need("slurmd", "command -v slurmd", "to reach hosts by srun in tests"),
    need("slurm-client", "command -v salloc", "to reach hosts by srun in tests"),
    need("munge", "command -v munged", "authentication for Slurm"),
    need("python3-torch", "/usr/bin/python3 -c 'import torch'", "to add up across hosts in tests"),
    need("python3-venv", "python3 -c 'import venv, ensurepip'", "to get Open MPI 5"),
];

/// To build packages for other systems.
pub(crate) const DIST: &[Need] = &[
    need("binutils", "command -v readelf && command -v strip", "to check what the program needs"),
    need("dpkg", "command -v dpkg-deb", "to build the .deb"),
    need("python3-venv", "python3 -c 'import venv, ensurepip'", "to get the linker for old glibc"),
];

/// To call the store from Python.
pub(crate) const PYTHON: &[Need] = &[need(
    "python3-venv",
    "python3 -c 'import venv, ensurepip'",
    "to get what a client in Python needs",
)];

/// To monitor as users do.
pub(crate) const MONITORING: &[Need] = &[
    need(
        "prometheus",
        "command -v prometheus && command -v promtool",
        "to scrape and to check rules",
    ),
    need("npm", "command -v npm && command -v node", "to get Grafana's types"),
];

/// To open reports in a browser.
pub(crate) const BROWSER: &[Need] = &[
    need("chromium", "command -v chromium", "to open reports in"),
    need("fonts-dejavu-core", "fc-list | grep -q .", "fonts for the browser"),
];

/// To fuzz.
pub(crate) const FUZZ: &[Need] = &[need("g++", "command -v c++", "to build libFuzzer")];

/// To compare lanes with other programs.
pub(crate) const COMPARE: &[Need] = &[
    need("ucx-utils", "command -v ucx_perftest", "to compare with"),
    need("iperf3", "command -v iperf3", "to compare with"),
    need("libfabric-bin", "command -v fi_pingpong", "to compare with"),
    need("util-linux", "command -v taskset", "to bind both ends to CPUs"),
];

/// To compare the exporter with node_exporter.
pub(crate) const COMPARE_EXPORTER: &[Need] =
    &[need("prometheus-node-exporter", "command -v prometheus-node-exporter", "to compare with")];

/// To compare with an earlier commit.
pub(crate) const COMPARE_BEFORE: &[Need] =
    &[need("util-linux", "command -v taskset && command -v setpriv", "to bind programs to CPUs")];

/// To count instructions.
pub(crate) const COMPARE_INSTRUCTIONS: &[Need] =
    &[need("valgrind", "command -v valgrind", "to count instructions")];

/// To compare the store with others.
pub(crate) const COMPARE_KV: &[Need] = &[
    need("redis-server", "command -v redis-server", "to compare with"),
    need("redis-tools", "command -v redis-benchmark && command -v redis-cli", "to compare with"),
    need("memcached", "command -v memcached", "to compare with"),
    need("util-linux", "command -v taskset && command -v setpriv", "to bind programs to CPUs"),
];

/// To compare with Mooncake in the lab.
pub(crate) const MOONCAKE: &[Need] = &[
    need("python3-venv", "python3 -c 'import venv, ensurepip'", "to get Mooncake"),
    need("libnuma1", "ldconfig -p | grep -q libnuma.so.1", "Mooncake's"),
    need("libcurl4", "ldconfig -p | grep -q libcurl.so.4", "Mooncake's"),
];

const fn need(package: &'static str, probe: &'static str, why: &'static str) -> Need {
    Need { package, probe, why }
}

/// Installs missing packages: prints them with their size, and asks on a terminal, unless `yes`. Without a
/// terminal it does not ask.
pub(crate) fn ensure(needs: &[&[Need]], yes: bool) -> Result<(), Failure> {
    let yes = yes || shell::is_ci();
    let missing: Vec<&Need> =
        needs.iter().copied().flatten().filter(|need| !need.is_installed()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|need| need.package).collect();
    if !probe("command -v apt-get") {
        return Err(format!(
            "missing packages (Debian's names): {}. Install them with your package manager and \
             run this again",
            names.join(" ")
        ));
    }
    let size = download_size(&names).map_or("size unknown".to_owned(), |size| {
        format!("{:.1} MB to download with all they depend on", size as f64 / 1e6)
    });
    eprintln!("needed from Debian, {size}:");
    for need in &missing {
        eprintln!("  {:20} {}", need.package, need.why);
    }
    if !yes && std::io::stdin().is_terminal() && !agreed()? {
        return Err("nothing was installed".to_owned());
    }
    install(&names)?;
    match missing.iter().find(|need| !need.is_installed()) {
        Some(need) => Err(format!("{} is installed, but `{}` fails", need.package, need.probe)),
        None => Ok(()),
    }
}

impl Need {
    fn is_installed(&self) -> bool {
        probe(self.probe)
    }
}

/// Whether a shell command succeeds, with the administrator's programs on the PATH.
fn probe(command: &str) -> bool {
    let status = Command::new("sh")
        .args(["-c", command])
        .env("PATH", path_with_sbin())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// The PATH with Debian's folders of the administrator's programs.
pub(crate) fn path_with_sbin() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin")
}

fn download_size(names: &[&str]) -> Result<u64, Failure> {
    // Fails where the package lists were never fetched, as on a fresh machine.
    let uris = || {
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--yes", "--no-install-recommends", "--print-uris"]).args(names);
        shell::output(&mut apt)
    };
    let listed = uris().or_else(|_| {
        update()?;
        uris()
    })?;
    // Each line: 'URI' file-name size hash
    let size = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    Ok(listed.lines().filter(|line| line.starts_with('\'')).filter_map(size).sum())
}

fn agreed() -> Result<bool, Failure> {
    eprint!("install them? [Y/n] ");
    let _ = std::io::stderr().flush();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| format!("read the answer: {error}"))?;
    Ok(matches!(line.trim(), "" | "y" | "Y" | "yes"))
}

fn install(names: &[&str]) -> Result<(), Failure> {
    let mut arguments = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    arguments.extend(names);
    let installed = apt(&arguments).or_else(|_| {
        // The lists may be older than the archive.
        update()?;
        apt(&arguments)
    });
    installed.map_err(|error| {
        // Seen with a qemu-utils from backports. It is not removed automatically.
        let fix = "if another QEMU conflicts, this removes it: apt-get install \
                      qemu-system-x86 qemu-utils-";
        if names.contains(&"qemu-system-x86") { format!("{error} ({fix})") } else { error }
    })?;
    let mut installed = SERVICES.iter().filter(|(package, _)| names.contains(package));
    installed.try_for_each(|(_, service)| as_root(&["update-rc.d", service, "disable"]))
}

/// Updates the package lists.
pub(crate) fn update() -> Result<(), Failure> {
    eprintln!("fetching Debian's package lists");
    apt(&["update", "--quiet"])
}

/// apt-get as root. Services of installed packages are not started.
fn apt(arguments: &[&str]) -> Result<(), Failure> {
    let mut words = vec!["sh", "-c", APT, "apt-get"];
    words.extend(arguments);
    as_root(&words).map_err(|error| error.replace(APT, "..."))
}

/// With sudo, if we are not root.
fn as_root(words: &[&str]) -> Result<(), Failure> {
    let root = shell::output(Command::new("id").arg("-u"))?.trim() == "0";
    let mut command = Command::new(if root { "env" } else { "sudo" });
    shell::output(command.args(words).env("PATH", path_with_sbin())).map(drop)
}

/// Debian starts a service as soon as its package is installed, unless this script refuses it.
const APT: &str = r#"
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
fi
DEBIAN_FRONTEND=noninteractive apt-get "$@""#;

/// Packages and their services, which are disabled at boot if we installed them.
const SERVICES: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("memcached", "memcached"),
    ("prometheus", "prometheus"),
    ("prometheus-node-exporter", "prometheus-node-exporter"),
    ("openssh-server", "ssh"),
    ("nfs-kernel-server", "nfs-kernel-server"),
    ("nfs-common", "nfs-common"),
    ("rpcbind", "rpcbind"),
];
