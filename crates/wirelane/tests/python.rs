//! Interfaces for others, tested in Python: a client generated from the published .proto, manifests checked with the
//! schemas of clusters, and measurements with their own schema.
//!
//! Needs a Python with grpcio, grpcio-tools and kubernetes-validate (which brings jsonschema), which the variable WIRELANE_TEST_PYTHON names;
//! `cargo xtask test` brings one. Where WIRELANE_CRDS names a folder of CustomResourceDefinitions, manifests are
//! checked against those too.
#![allow(missing_docs, reason = "a test")]

#[path = "program/authority.rs"]
mod authority;

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use authority::{Authority, Good};

/// A server's process, ended with the test.
struct Server {
    child: Child,
    address: String,
    /// Kept open for its log.
    _log: Lines<BufReader<ChildStderr>>,
}

impl Server {
    fn start(more: &[&str]) -> Self {
        let any = "127.0.0.1:0";
        let mut child = Command::new(env!("CARGO_BIN_EXE_wirelane"))
            .args(["serve", "--http", any, "--listen", any, "--memory", "256MiB"])
            .args(more)
            .env("WIRELANE_LIBIBVERBS", "/nowhere/libibverbs.so.1")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = |line: std::io::Result<String>| {
            Some(line.ok()?.strip_prefix("links ")?.split(' ').next()?.to_owned())
        };
        let address = log.by_ref().find_map(address).expect("an address");
        Server { child, address, _log: log }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a script, which first generates its stubs.
fn run(script: &str, more: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stubs = tempfile::tempdir().expect("a folder");
    let mut python = python(script);
    ends_well(python.arg(here.join("../kv-proto/proto")).arg(stubs.path()).args(more));
}

fn python(script: &str) -> Command {
    let python = std::env::var("WIRELANE_TEST_PYTHON").expect(
        "WIRELANE_TEST_PYTHON names a Python that has grpcio, grpcio-tools and kubernetes-validate",
    );
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script));
    command
}

fn ends_well(python: &mut Command) {
    let output = python.output().expect("Python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{wrong}");
    assert!(said.ends_with("all is well\n"), "{said}{wrong}");
}

#[test]
fn a_client_in_python_uses_every_call() {
    let server = Server::start(&[]);
    run("client.py", &[&server.address]);
}

/// The recipe of the README, with the packages that are here and the address of this test's server.
#[test]
fn the_recipe_of_the_readme_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let block = |begin: &str, has: &str| {
        let mut blocks = readme.split(begin).skip(1).filter_map(|rest| rest.split("```").next());
        blocks.find(|block| block.contains(has)).expect("a block of the README").to_owned()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&[]);
    let hello = block("```python\n", "kv_pb2").replace("localhost:50051", &server.address);
    std::fs::create_dir(folder.path().join("client")).expect("a folder");
    std::fs::write(folder.path().join("client/hello.py"), hello).expect("a file");
    std::os::unix::fs::symlink(root.join("crates"), folder.path().join("crates")).expect("a link");
    let recipe = block("```sh\n", "grpc_tools.protoc");
    let python = std::env::var("WIRELANE_TEST_PYTHON").expect("a Python, see above");
    let lines = recipe.lines().filter(|line| !line.contains("pip install"));
    let script: String =
        lines.map(|line| line.replace("venv/bin/python", &python) + " || exit\n").collect();
    let output = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output();
    let output = output.expect("sh runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "b'world'\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_client_in_python_authenticates_with_a_certificate_or_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let [certificate, key] = authority.sign("server", &Good::Now);
    let [own, own_key] = authority.sign("node1", &Good::Now);
    let [old, old_key] = authority.sign("old", &Good::LongAgo);
    let file = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (ca, tokens) = (file("ca.pem"), file("tokens"));
    let line = format!("reader wlt_{} read-only\nnode1 cert\n", "r".repeat(40));
    std::fs::write(&tokens, line).expect("a file");
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("a mode");
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca];
    let server = Server::start(&[&tls[..], &["--token-file", &tokens]].concat());
    run("secure.py", &[&server.address, &ca, &own, &own_key, &tokens, &old, &old_key]);
}

#[test]
fn manifests_match_the_schemas_of_clusters() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = python("manifests.py");
    python.arg(here.join("tests/python/schemas"));
    for (at, arguments) in MANIFESTS.iter().enumerate() {
        let words: Vec<&str> = arguments.split(' ').collect();
        let root = here.join("../node/tests/trees").join(format!("{}.json", words[0]));
        let output = Command::new(env!("CARGO_BIN_EXE_wirelane"))
            .arg("k8s")
            .args(&words[1..2])
            .arg("--root")
            .arg(root)
            .args(&words[2..])
            .output()
            .expect("the program runs");
        assert!(
            output.status.success(),
            "{arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let file = folder.path().join(format!("{at}-{}.yaml", words[1]));
        std::fs::write(&file, output.stdout).expect("a file");
        python.arg(file);
    }
    ends_well(&mut python);
}

#[test]
fn measurements_match_their_schema() {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench.schema.json");
    ends_well(python("bench.py").arg(env!("CARGO_BIN_EXE_wirelane")).arg(schema));
}

#[test]
fn results_of_nccl_match_the_schema_and_the_script_is_valid_python() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = python("nccl.py");
    python.arg(env!("CARGO_BIN_EXE_wirelane")).arg(here.join("../../docs/bench.schema.json"));
    python
        .arg(here.join("../report/tests/nccl"))
        .arg(here.join("../node/tests/trees/cx3-gpus.json"));
    ends_well(&mut python);
}

/// The tree of a node, and the arguments.
const MANIFESTS: [&str; 18] = [
    "empty job --image i:1 --type multi --launch torch -- train.py",
    "empty job --image i:1 --type multi --launch tensorflow -- python3 train.py",
    "iommu machineconfig",
    "empty machineconfig --memlock --enable-iommu --role infra",
    "ndr8 policy",
    "ndr8 policy --all-nics",
    "mlx5-roce policy --vfs 4",
    "ndr8 network",
    "ndr8 network --all-nics --range 10.9.0.0/16 --exclusive",
    "mlx5-roce network --range fd00::/64 --namespace train",
    "ndr8 job --image example/wirelane:1 --namespace train -- python train.py --lr 1e-3",
    "ndr8 job --image example/wirelane:1 --type multi --replicas 3 --devices 8",
    "empty job --image example/wirelane:1 --mode tcp --type multi --platform kubernetes",
    "empty job --image example/wirelane:1 --mode tcp --job-image example/torch:2 -- true",
    "empty verify --image example/wirelane:1 --name fabric-check",
    "empty verify --image example/wirelane:1 --mode tcp --platform kubernetes",
    "empty exporter --image example/wirelane:1 --namespace monitoring",
    "empty exporter --image example/wirelane:1 --gpu",
];
