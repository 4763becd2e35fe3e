//! A server for a kind of misbehaviour, with the credentials of its clients.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::server::Server;
use super::kinds::AbuseKind;
use crate::{Failure, shell};

pub(super) struct TestServer {
    pub(super) server: Server,
    folder: PathBuf,
    /// Lines of the token file.
    tokens: Vec<String>,
}

impl TestServer {
    pub(super) fn open(kind: AbuseKind, folder: &Path) -> Result<Self, Failure> {
        let (folder, mut tokens) = (folder.to_owned(), Vec::new());
        let server = match kind {
            AbuseKind::FullPool => {
                Server::start_within(ON_SECOND_CPU, "--memory 64MiB --when-full refuse")?
            }
            AbuseKind::FullDisk => on_a_small_disk(&folder.join("data"))?,
            AbuseKind::WrongScope | AbuseKind::ExpiredCertificate | AbuseKind::Replay => {
                tokens = [&["root"][..], &["other", "--prefix", "elsewhere/"]]
                    .map(token)
                    .into_iter()
                    .collect::<Result<Vec<String>, Failure>>()?;
                certify(&folder)?;
                let file = folder.join("tokens");
                write_secret(&file, &tokens.concat())?;
                let path = |name: &str| folder.join(name).display().to_string();
                let arguments = format!(
                    "--token-file {} --tls-cert {} --tls-key {} --tls-client-ca {}",
                    path("tokens"),
                    path("server.pem"),
                    path("server.key"),
                    path("ca.pem")
                );
                Server::start_guarded(ON_SECOND_CPU, &arguments)?
            }
            _ => Server::start_within(ON_SECOND_CPU, "")?,
        };
        Ok(TestServer { server, folder, tokens })
    }

    /// `NAME:TOKEN` of a client, if it needs one.
    pub(super) fn token(&self, name: &str) -> Option<String> {
        let line = self.tokens.iter().find(|line| line.split(' ').next() == Some(name))?;
        Some(format!("{name}:{}", line.split_whitespace().nth(1)?))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Starts it with a small file system as its data folder, in a private mount namespace.
fn on_a_small_disk(folder: &Path) -> Result<Server, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| format!("create {folder:?}: {error}"))?;
    let data = folder.display();
    let mount = format!("mount -t tmpfs -o size=64m none {data} && exec \"$@\"");
    let mut within = vec!["unshare", "--mount", "--propagation", "private", "sh", "-c", &mount];
    within.push("sh");
    within.extend(ON_SECOND_CPU);
    Server::start_within(&within, &format!("--data-dir {data} --memory 64MiB"))
}

/// A line for the token file.
fn token(words: &[&str]) -> Result<String, Failure> {
    let program = shell::target().join("release/wirelane");
    shell::output(Command::new(program).args(["token", "new"]).args(words))
}

/// A certificate authority, a certificate for the server, and one that is already expired.
fn certify(folder: &Path) -> Result<(), Failure> {
    let script = r#"
        new="req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        openssl $new -x509 -days 2 -subj /CN=ca -keyout ca.key -out ca.pem
        printf 'subjectAltName=IP:127.0.0.1' >names
        for name in server late; do
            openssl $new -subj /CN=$name -keyout $name.key -out $name.csr
        done
        openssl x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out server.pem
        openssl x509 -req -days 0 -in late.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out late.pem
        chmod 600 *.key
    "#;
    shell::output(Command::new("sh").args(["-ec", script]).current_dir(folder)).map(drop)
}

fn write_secret(file: &Path, text: &str) -> Result<(), Failure> {
    let written = std::fs::write(file, text)
        .and_then(|()| std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)));
    written.map_err(|error| format!("write {}: {error}", file.display()))
}

/// The server runs on the second CPU; all others run on the first.
const ON_SECOND_CPU: &[&str] = &["taskset", "-c", "1"];
