//! Jobs planned for the machines in `node`'s trees.

mod golden;
mod host_settings;
mod refused;

use std::path::Path;

use jobs::environment::Mode;
use jobs::launch::{Framework, Job, JobHost, Launch, Mpi, Refusal, Tools, Torch, plan};
use node::{Node, Tree};

/// A machine of the job.
struct Machine {
    name: &'static str,
    address: &'static str,
    slots: Option<u32>,
    node: Node,
    tree: Tree,
    tools: Tools,
}

impl Machine {
    /// From a tree, with its address for the other hosts.
    fn new(name: &'static str, tree: &str, address: &'static str, tools: &Tools) -> Machine {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees");
        let tree = Tree::at(&path.join(format!("{tree}.json"))).expect("a tree");
        Machine {
            name,
            address,
            slots: Some(2),
            node: Node::read(&tree),
            tree,
            tools: tools.clone(),
        }
    }

    fn job_host(&self) -> JobHost<'_> {
        JobHost {
            name: self.name,
            target: self.name,
            is_here: false,
            address: Some(self.address.parse().expect("an address")),
            fabric: None,
            slots: self.slots,
            gpus: None,
            node: &self.node,
            tree: &self.tree,
            tools: &self.tools,
        }
    }
}

fn planned(
    framework: Framework,
    mode: Mode,
    here: &Tools,
    machines: &[Machine],
) -> Result<Launch, Refusal> {
    planned_ranks(framework, mode, here, machines, None)
}

/// With fewer ranks than slots.
fn planned_ranks(
    framework: Framework,
    mode: Mode,
    here: &Tools,
    machines: &[Machine],
    ranks: Option<u32>,
) -> Result<Launch, Refusal> {
    let command = ["./solve".to_owned(), "a file".to_owned()];
    let ssh = ["/usr/bin/ssh", "-o", "BatchMode=yes"].map(str::to_owned);
    let job = Job {
        id: "3f9a",
        framework,
        mode,
        command: &command,
        directory: "/srv/job",
        path: "/usr/bin:/bin",
        ssh: &ssh,
        environment: &[("OMP_NUM_THREADS".to_owned(), "4".to_owned())],
        ranks,
        port: None,
        nccl: None,
    };
    let job_hosts: Vec<JobHost> = machines.iter().map(Machine::job_host).collect();
    plan(&job, here, &job_hosts)
}

/// Two machines of the same tree.
fn pair(tree: &str, address: &'static str, tools: &Tools) -> [Machine; 2] {
    [Machine::new("a", tree, address, tools), Machine::new("b", tree, address, tools)]
}

/// A host with Open MPI and these components.
fn with_mpi(version_line: &str, components: &[&str]) -> Tools {
    let version = version_line.rsplit(' ').next().and_then(|version| version.parse().ok());
    let mpi = Mpi {
        mpirun: "/usr/bin/mpirun".to_owned(),
        version_line: version_line.to_owned(),
        version,
        components: components.iter().map(|name| (*name).to_owned()).collect(),
    };
    Tools { mpi: Some(mpi), ..with_programs() }
}

fn debian() -> Tools {
    with_mpi("mpirun (Open MPI) 4.1.4", &["pml:ucx", "pml:cm", "pml:ob1", "mtl:ofi", "mtl:psm2"])
}

fn five() -> Tools {
    with_mpi("mpirun (Open MPI) 5.0.11", &["pml:ucx", "pml:cm", "pml:ob1", "mtl:ofi"])
}

/// A host with everything but MPI.
fn with_programs() -> Tools {
    Tools {
        uid: Some(1000),
        torch: Some(Torch {
            version: Some("2.9.1".to_owned()),
            torchrun: Some("/usr/bin/torchrun".to_owned()),
        }),
        tensorflow: Some("2.20.0".to_owned()),
        horovodrun: Some("/usr/bin/horovodrun".to_owned()),
        python: Some("/usr/bin/python3".to_owned()),
        program: Some("/srv/job/solve".to_owned()),
        ..Tools::default()
    }
}

/// The command line of the local launcher.
fn launcher_command(launch: &Launch) -> String {
    launch.launcher.as_ref().expect("something runs here").command.join(" ")
}

/// A variable of a host's script.
fn variable<'l>(launch: &'l Launch, host: usize, name: &str) -> Option<&'l str> {
    let found = launch.hosts[host].environment.iter().find(|(one, _)| one == name);
    found.map(|(_, value)| value.as_str())
}
