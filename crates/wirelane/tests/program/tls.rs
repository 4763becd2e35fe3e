//! TLS: certificates at both ends, and links with a certificate.

use std::time::Instant;

use tempfile::TempDir;
use tonic::Code;

use super::authority::{Authority, Good};
use super::grpc::{client, put, runtime};
use super::*;

/// A server's certificate, and an authority that signs those of callers.
struct Site {
    folder: TempDir,
    authority: Authority,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path(), "ca");
        authority.sign("server", &Good::Now);
        Site { folder, authority }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a plain path").to_owned()
    }

    fn serve(&self, more: &[&str]) -> Server {
        let [certificate, key, ca] =
            ["server.pem", "server.key", "ca.pem"].map(|name| self.file(name));
        let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca];
        Server::start(&[&["--memory", "64MiB"], &tls[..], more].concat())
    }

    /// `kv` with this certificate, trusting this authority.
    fn kv(&self, server: &Server, ca: &str, name: &str, words: &[&str]) -> Output {
        let [ca, certificate, key] =
            [format!("{ca}.pem"), format!("{name}.pem"), format!("{name}.key")]
                .map(|name| self.file(&name));
        let tls = ["--tls-ca", &ca, "--tls-cert", &certificate, "--tls-key", &key];
        run(&[&["kv", "--server", &server.links, "--deadline", "10"], &tls[..], words].concat())
    }

    /// The HTTP status of a path, and its body.
    fn http(&self, server: &Server, path: &str, options: &[&str]) -> (String, String) {
        let url = format!("https://{}{path}", server.address);
        let ca = self.file("ca.pem");
        let usual = ["-sS", "--max-time", "10", "--cacert", &ca, "-w", "\n%{http_code}", &url];
        let curl = Command::new("curl").args(options).args(usual).output().expect("curl runs");
        let said = stdout(&curl);
        let (body, code) = said.rsplit_once('\n').unwrap_or_default();
        (code.to_owned(), body.to_owned())
    }

    fn metrics(&self, server: &Server) -> String {
        let [certificate, key] = self.authority.sign("operator", &Good::Now);
        self.http(server, "/metrics", &["--cert", &certificate, "--key", &key]).1
    }
}

#[track_caller]
fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

#[test]
fn a_certificate_opens_links_and_http() {
    let site = Site::new();
    let server = site.serve(&[]);
    let [certificate, key] = site.authority.sign("node1", &Good::Now);
    done(&site.kv(&server, "ca", "node1", &["put", "a", "b"]));
    assert_eq!(done(&site.kv(&server, "ca", "node1", &["get", "a"])).trim_end(), "b");
    let ca = site.file("ca.pem");
    let connect = ["connect", &server.links, "--no-measure", "--tls-ca", &ca];
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let link = done(&run(&[&connect[..], &tls].concat()));
    assert!(link.contains("control connection encrypted"), "{link}");
    refused(&run(&["kv", "--server", &server.links, "get", "a"]), &["(unauthenticated)"]);
    let mine = ["--cert", certificate.as_str(), "--key", &key];
    for path in ["/metrics", "/api/v1/transport/status"] {
        assert_eq!(site.http(&server, path, &mine).0, "200");
        assert_eq!(site.http(&server, path, &[]).0, "401");
    }
    assert_eq!(site.http(&server, "/healthz", &[]).0, "200");
    assert!(server.greeting.iter().any(|line| line.contains("clients need a certificate")));
}

#[test]
fn an_expired_certificate_is_refused_and_counted_and_others_are_not_affected() {
    let site = Site::new();
    let server = site.serve(&[]);
    site.authority.sign("node1", &Good::Now);
    site.authority.sign("old", &Good::LongAgo);
    done(&site.kv(&server, "ca", "node1", &["put", "a", "b"]));
    let expired = ["the client's certificate has expired", "--tls-client-ca"];
    refused(&site.kv(&server, "ca", "old", &["get", "a"]), &expired);
    assert_eq!(done(&site.kv(&server, "ca", "node1", &["get", "a"])).trim_end(), "b");
    let counted = "wirelane_access_rejected_total{reason=\"wrong_certificate\"} 1";
    let metrics = site.metrics(&server);
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn an_unknown_caller_is_trusted_by_neither_end() {
    let site = Site::new();
    let server = site.serve(&[]);
    let unknown_caller = Authority::new(site.folder.path(), "unknown caller");
    unknown_caller.sign("node2", &Good::Now);
    let signed = ["does not trust the CA of the client's certificate"];
    refused(&site.kv(&server, "ca", "node2", &["ls"]), &signed);
    refused(
        &site.kv(&server, "unknown caller", "node2", &["ls"]),
        &["the server's certificate is not valid"],
    );
    drop(server);
    site.authority.sign("server", &Good::LongAgo);
    site.authority.sign("node1", &Good::Now);
    let server = site.serve(&[]);
    refused(
        &site.kv(&server, "ca", "node1", &["ls"]),
        &["the server's certificate is not valid", "expired"],
    );
}

#[test]
fn calls_without_tls_are_refused_with_the_reason() {
    let site = Site::new();
    let server = site.serve(&[]);
    runtime().block_on(async {
        let refused = client(&server).await.put(put("a", "b")).await.expect_err("no TLS");
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(refused.message().contains("TLS required"), "{}", refused.message());
    });
    let open = Server::start(&["--memory", "64MiB"]);
    site.authority.sign("node1", &Good::Now);
    let output = site.kv(&open, "ca", "node1", &["ls"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("--tls-cert"), "{}", stderr(&output));
}

#[test]
fn certificate_names_need_a_line_in_the_token_file() {
    let site = Site::new();
    let tokens = site.file("tokens");
    let token = stdout(&run(&["token", "new", "ann"]));
    let lines = format!("node1 cert read-only\nnode2 cert prefix=n2/\n{token}");
    std::fs::write(&tokens, lines).expect("a file");
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("a mode");
    let server = site.serve(&["--token-file", &tokens]);
    for name in ["node1", "node2", "node3", "ann"] {
        site.authority.sign(name, &Good::Now);
    }
    let kv = |name, words: &[&str]| site.kv(&server, "ca", name, words);
    done(&kv("node2", &["put", "n2/a", "b"]));
    refused(&kv("node2", &["put", "a", "b"]), &["permission denied"]);
    assert_eq!(done(&kv("node1", &["get", "n2/a"])).trim_end(), "b");
    refused(&kv("node1", &["put", "n2/a", "c"]), &["permission denied"]);
    let unknown = ["unknown certificate name"];
    refused(&kv("node3", &["ls"]), &unknown);
    refused(&kv("ann", &["ls"]), &unknown);
    let bearer =
        format!("authorization: Bearer {}", token.split(' ').nth(1).expect("a token").trim());
    assert_eq!(site.http(&server, "/metrics", &["-H", &bearer]).0, "200");
    let own = site.file("own");
    std::fs::write(&own, &token).expect("a file");
    std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("a mode");
    done(&run(&["kv", "--server", &server.links, "--token-file", &own, "get", "n2/a"]));
}

#[test]
fn a_new_certificate_needs_no_restart() {
    let site = Site::new();
    site.authority.sign("node1", &Good::Now);
    site.authority.sign("server", &Good::LongAgo);
    let server = site.serve(&[]);
    refused(&site.kv(&server, "ca", "node1", &["ls"]), &["expired"]);
    site.authority.sign("server", &Good::Now);
    server.signal("-HUP");
    let limit = Instant::now() + Duration::from_secs(20);
    while site.kv(&server, "ca", "node1", &["ls"]).status.code() != Some(0) {
        assert!(Instant::now() < limit, "the new certificate is not shown");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn mismatched_files_are_refused_at_the_start() {
    let site = Site::new();
    let [certificate, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|name| site.file(name));
    let [other, _] = site.authority.sign("other", &Good::Now);
    let serve = |certificate: &str, key: &str| {
        let usual = ["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        run(&[&usual[..], &["--tls-cert", certificate, "--tls-key", key]].concat())
    };
    for (certificate, key, words) in [
        (&other, &key, "--tls-key"),
        (&key, &key, "no PEM certificate found"),
        (&certificate, &ca, "no PEM private key found"),
    ] {
        let output = serve(certificate, key);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert_eq!(serve("/nowhere", &key).status.code(), Some(3));
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .expect("a mode");
    let output = serve(&certificate, &key);
    assert!(stderr(&output).contains("can access the file (mode "), "{}", stderr(&output));
}
