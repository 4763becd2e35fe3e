//! A real Slurm with two hosts, n1 and n2, both of them this machine: its daemons with private settings, ports and key.
//! They end with the test.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) struct Cluster {
    /// Declared before the folder that they use, so that they are dropped first.
    daemons: Vec<Daemon>,
    folder: TempDir,
}

struct Daemon(Child);

impl Cluster {
    pub(crate) fn start() -> Cluster {
        let mut cluster =
            Cluster { daemons: Vec::new(), folder: tempfile::tempdir().expect("a folder") };
        cluster.furnish();
        let place = cluster.folder.path().display().to_string();
        let munge = ["key-file", "socket", "pid-file", "log-file", "seed-file"];
        let munge = munge.map(|what| format!("--{what}={place}/munge.{what}"));
        // The folders above it are world-writable, which it refuses.
        cluster.begin("munged", &[&["--foreground".to_owned(), "--force".to_owned()][..], &munge]);
        cluster.soon("munged listens", |cluster| cluster.file("munge.socket").exists());
        let settings = ["-f".to_owned(), format!("{place}/slurm.conf")];
        cluster.begin("slurmctld", &[&["-D".to_owned()], &settings]);
        for host in ["n1", "n2"] {
            let name = ["-D".to_owned(), "-N".to_owned(), host.to_owned()];
            cluster.begin("slurmd", &[&name, &settings]);
        }
        cluster.soon("both hosts are there", |cluster| {
            let sinfo = cluster.command("sinfo").args(["-hN", "-o", "%T"]).output();
            sinfo.expect("sinfo runs").stdout == b"idle\nidle\n"
        });
        cluster
    }

    /// A program with the environment of this Slurm.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.file("slurm.conf")).current_dir(self.folder.path());
        command
    }

    /// A file of the cluster's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn furnish(&self) {
        let key = fs::read("/proc/sys/kernel/random/uuid").expect("something random").repeat(8);
        fs::write(self.file("munge.key-file"), key).expect("a file");
        fs::set_permissions(self.file("munge.key-file"), PermissionsExt::from_mode(0o600))
            .expect("a mode");
        fs::create_dir(self.file("state")).expect("a folder");
        // All bound at the same time, so that no port is used twice.
        let ports = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let [control, n1, n2] = ports.map(|port| port.local_addr().expect("an address").port());
        let settings = settings(self.folder.path(), control, [n1, n2]);
        fs::write(self.file("slurm.conf"), settings).expect("a file");
    }

    fn begin(&mut self, program: &str, arguments: &[&[String]]) {
        let log = fs::File::options().create(true).append(true).open(self.file("log"));
        let log = log.expect("a file");
        let mut command = self.command(program);
        command.args(arguments.concat()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("start {program}: {error}"));
        self.daemons.push(Daemon(child));
    }

    fn soon(&self, what: &str, is_so: impl Fn(&Cluster) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            let log = || fs::read_to_string(self.file("log")).unwrap_or_default();
            assert!(begun.elapsed() < Duration::from_secs(120), "not yet: {what}\n{}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn settings(folder: &Path, control: u16, hosts: [u16; 2]) -> String {
    let folder = folder.display();
    let [n1, n2] = hosts;
    format!(
        "ClusterName=test\nSlurmctldHost=localhost(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd-%n.pid\n\
         SlurmctldPort={control}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         SelectType=select/cons_tres\nMpiDefault=none\nReturnToService=2\n\
         SlurmdParameters=config_overrides\n\
         NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={n1} CPUs=2\n\
         NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={n2} CPUs=2\n\
         PartitionName=all Nodes=n[1-2] Default=YES State=UP\n"
    )
}
