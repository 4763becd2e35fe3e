//! `exporter --web-config`: TLS, certificates, passwords, headers and a rate limit, as in exporter-toolkit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tempfile::TempDir;

use super::authority::{Authority, Good};
use super::*;

/// `first` and `second` with the lowest bcrypt cost; `first` with the usual one.
const FIRST: &str = "$2y$04$abcdefghijklmnopqrstuuvybHXQqehXl2NdtAhT6BAmwe6EZ8HOi";
const SECOND: &str = "$2y$04$abcdefghijklmnopqrstuu0m4FNu/b0Ul0dVXpD5yXn5kdSneXCgS";
const SLOW_FIRST: &str = "$2b$10$abcdefghijklmnopqrstuuWKt98PEXi.1TuBuGXpEvyHLhRisM9Ya";

/// A folder with a web config file, certificates, and an exporter that uses them.
struct Site {
    folder: TempDir,
    authority: Authority,
}

impl Site {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path(), "ca");
        authority.sign("server", &Good::Now);
        let site = Site { folder, authority };
        site.write(config);
        site
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a plain path").to_owned()
    }

    fn write(&self, config: &str) {
        fs::write(self.file("web.yml"), config).expect("a file");
    }

    fn command(&self) -> Command {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../node/tests/trees/rxe.json");
        let config = self.file("web.yml");
        let listen = ["exporter", "--listen", "127.0.0.1:0", "--no-gpu", "--root", root];
        wirelane(&[&listen[..], &["--web-config", &config]].concat())
    }

    fn start(&self) -> Exporter {
        let mut child = self.command().stderr(Stdio::piped()).spawn().expect("it starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let said = log.by_ref().map(|line| line.expect("text"));
        let mut said = said.skip_while(|line| !line.starts_with("HTTP"));
        let line = said.next().expect("it says where it serves");
        let url = line.split_whitespace().nth(1).expect("a URL").to_owned();
        Exporter { child, url, log }
    }

    /// The error if it does not start.
    fn refused(&self) -> String {
        let output = self.command().output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    }

    /// The status of /metrics with curl and these options, trusting the test's authority; 000: no answer.
    fn code(&self, exporter: &Exporter, options: &[&str]) -> String {
        let ca = self.file("ca.pem");
        let usual = ["-s", "--max-time", "10", "--cacert", &ca, "-o", "/dev/null"];
        let mut curl = Command::new("curl");
        curl.args(usual).args(["-w", "%{http_code}"]).args(options).arg(&exporter.url);
        stdout(&curl.output().expect("curl runs"))
    }

    /// Requests until the status is this: a file is loaded a moment after it was written.
    #[track_caller]
    fn becomes(&self, exporter: &Exporter, options: &[&str], code: &str) {
        let limit = Instant::now() + Duration::from_secs(10);
        while self.code(exporter, options) != code {
            assert!(Instant::now() < limit, "still {}", self.code(exporter, options));
            thread::sleep(Duration::from_millis(50));
        }
    }
}

struct Exporter {
    child: Child,
    url: String,
    log: Lines<BufReader<ChildStderr>>,
}

impl Exporter {
    /// Ends it, and returns its log.
    fn log(mut self) -> String {
        let _ = self.child.kill();
        self.log.by_ref().map_while(Result::ok).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn users(hash: &str) -> String {
    format!("basic_auth_users:\n  prometheus: {hash}\n")
}

const TLS: &str = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";

#[test]
fn only_the_password_gives_access() {
    let site = Site::new(&users(FIRST));
    let exporter = site.start();
    assert!(exporter.url.starts_with("http://"), "{}", exporter.url);
    let user = |user: &str| site.code(&exporter, &["-u", user]);
    assert_eq!(user("prometheus:first"), "200");
    for wrong in ["prometheus:second", "prometheus:", "root:first", ":", "prometheus:first "] {
        assert_eq!(user(wrong), "401", "{wrong}");
    }
    assert_eq!(site.code(&exporter, &[]), "401");
    assert_eq!(site.code(&exporter, &["-H", "Authorization: Bearer first"]), "401");
    let elsewhere = exporter.url.replace("/metrics", "/nothing");
    let asked = Command::new("curl").args(["-s", "-i", &elsewhere]).output().expect("curl runs");
    let said = stdout(&asked).to_lowercase();
    assert!(said.contains("401") && said.contains("www-authenticate: basic"), "{said}");
}

#[test]
fn a_new_password_needs_no_restart_and_an_invalid_file_changes_nothing() {
    let site = Site::new(&users(FIRST));
    let exporter = site.start();
    assert_eq!(site.code(&exporter, &["-u", "prometheus:first"]), "200");
    site.write(&users(SECOND));
    site.becomes(&exporter, &["-u", "prometheus:second"], "200");
    assert_eq!(site.code(&exporter, &["-u", "prometheus:first"]), "401");
    for broken in ["basic_auth_users:\n  prometheus: second\n", "basic_auth:\n", "", TLS] {
        site.write(broken);
        thread::sleep(Duration::from_millis(300));
        assert_eq!(site.code(&exporter, &["-u", "prometheus:second"]), "200", "{broken}");
        assert_eq!(site.code(&exporter, &[]), "401", "{broken}");
    }
    fs::remove_file(site.file("web.yml")).expect("is there");
    assert_eq!(site.code(&exporter, &[]), "401");
    site.write(&users(FIRST));
    site.becomes(&exporter, &["-u", "prometheus:first"], "200");
    let log = exporter.log();
    let words = "is not a bcrypt hash";
    assert_eq!(log.matches(words).count(), 1, "told once, with two requests: {log}");
    for words in ["web.yml:2:", "web.yml:1:", "is empty", "requires a restart", "No such file"] {
        assert!(log.contains(words), "`{words}` is missing in: {log}");
    }
    assert!(!log.contains("second"), "what was written for a hash is not shown: {log}");
}

#[test]
fn tls_works_and_a_new_certificate_needs_no_restart() {
    let site = Site::new(TLS);
    let exporter = site.start();
    assert!(exporter.url.starts_with("https://127.0.0.1:"), "{}", exporter.url);
    assert_eq!(site.code(&exporter, &[]), "200");
    assert_eq!(site.code(&exporter, &["--http2"]), "200", "by HTTP/1.1");
    let plain = exporter.url.replace("https://", "http://");
    let asked = Command::new("curl").args(["-s", "--max-time", "10", &plain]).output();
    assert!(!asked.expect("curl runs").status.success());
    // Another authority: clients that trust only the first one fail.
    let other = Authority::new(site.folder.path(), "other");
    other.sign("server", &Good::Now);
    let trusting = ["--cacert", &site.file("other.pem")];
    site.becomes(&exporter, &trusting, "200");
    assert_eq!(site.code(&exporter, &[]), "000");
    // A key of another certificate: the old pair stays in force.
    fs::copy(site.file("ca.pem"), site.file("server.pem")).expect("a copy");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(site.code(&exporter, &trusting), "200");
    assert!(exporter.log().contains("the web config file is not reloaded"));
}

#[test]
fn each_kind_of_client_authentication_accepts_the_right_clients() {
    let site = Site::new(TLS);
    let unknown_caller = Authority::new(site.folder.path(), "unknown caller");
    let [signed, signed_key] = site.authority.sign("node1", &Good::Now);
    let [strange, strange_key] = unknown_caller.sign("node2", &Good::Now);
    let callers: [&[&str]; 3] = [
        &[],
        &["--cert", &signed, "--key", &signed_key],
        &["--cert", &strange, "--key", &strange_key],
    ];
    for (kind, ca, codes) in [
        ("NoClientCert", false, ["200", "200", "200"]),
        ("RequestClientCert", false, ["200", "200", "200"]),
        ("RequireAnyClientCert", false, ["000", "200", "200"]),
        ("RequireClientCert", true, ["000", "200", "200"]),
        ("VerifyClientCertIfGiven", true, ["200", "200", "000"]),
        ("RequireAndVerifyClientCert", true, ["000", "200", "000"]),
    ] {
        let ca = if ca { "  client_ca_file: ca.pem\n" } else { "" };
        site.write(&format!("{TLS}  client_auth_type: {kind}\n{ca}"));
        let exporter = site.start();
        for version in [&[][..], &["--tls-max", "1.2"]] {
            let code = |caller: &[&str]| site.code(&exporter, &[caller, version].concat());
            assert_eq!(callers.map(code), codes, "{kind} {version:?}");
        }
    }
}

#[test]
fn only_certificates_with_a_listed_name_are_accepted() {
    let site = Site::new(TLS);
    let [certificate, key] = site.authority.sign("node1", &Good::Now);
    let mine = ["--cert", &certificate, "--key", &key];
    for (name, code) in [("localhost", "200"), ("127.0.0.1", "200"), ("node1", "000")] {
        let auth = "client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem";
        site.write(&format!("{TLS}  {auth}\n  client_allowed_sans: [elsewhere, {name}]\n"));
        assert_eq!(site.code(&site.start(), &mine), code, "{name}");
    }
}

#[test]
fn versions_and_suites_are_those_of_the_file() {
    let suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    let curves = "curve_preferences: [CurveP384, X25519]";
    let site =
        Site::new(&format!("{TLS}  max_version: TLS12\n  cipher_suites: [{suite}]\n  {curves}\n"));
    let exporter = site.start();
    assert_eq!(site.code(&exporter, &["--ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384"]), "200");
    assert_eq!(site.code(&exporter, &["--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"]), "000");
    assert_eq!(site.code(&exporter, &["--tlsv1.3"]), "000");
    assert_eq!(site.code(&exporter, &["--curves", "P-256"]), "000");
    site.write(&format!("{TLS}  min_version: TLS13\n"));
    site.becomes(&exporter, &["--tlsv1.3"], "200");
    assert_eq!(site.code(&exporter, &["--tls-max", "1.2"]), "000");
}

#[test]
fn certificates_may_be_inline() {
    let site = Site::new("");
    let indented =
        |name: &str| fs::read_to_string(site.file(name)).expect("text").replace('\n', "\n    ");
    let (certificate, key) = (indented("server.pem"), indented("server.key"));
    let config = format!("tls_server_config:\n  cert: |\n    {certificate}\n  key: |\n    {key}\n");
    site.write(&config);
    assert_eq!(site.code(&site.start(), &[]), "200");
}

#[test]
fn headers_are_set_and_the_rate_is_limited() {
    let header = "http_server_config:\n  headers:\n    X-Frame-Options: deny\n";
    let site = Site::new(&format!("{header}rate_limit:\n  interval: 1h\n  burst: 2\n"));
    let exporter = site.start();
    let asked = Command::new("curl").args(["-s", "-I", &exporter.url]).output().expect("curl runs");
    assert!(stdout(&asked).to_lowercase().contains("x-frame-options: deny"), "{}", stdout(&asked));
    assert_eq!([(); 2].map(|()| site.code(&exporter, &[])), ["200", "429"]);
}

#[test]
fn invalid_files_are_reported_at_the_start() {
    let site = Site::new("");
    let tls = |line: &str| format!("{TLS}  {line}\n");
    for (config, words) in [
        ("tls_server_config\n", "web.yml:1:"),
        ("tls_server_config:\n\tcert_file: a\n", "starts with a tab"),
        ("basic_auth_users:\n  a: secret\n", "web.yml:2: the password of `a` is not a bcrypt hash"),
        (&tls("key_fille: a"), "web.yml:4: unknown field `key_fille`. Did you mean `key_file`?"),
        (&tls("client_auth_type: Sometimes"), "RequireAndVerifyClientCert"),
        (&tls("client_auth_type: RequireAndVerifyClientCert"), "needs client_ca_file"),
        (&tls("client_ca_file: ca.pem"), "are not asked for a certificate"),
        (&tls("client_allowed_sans: [a]"), "client_allowed_sans needs"),
        (&tls("min_version: TLS10"), "TLS10 is not supported"),
        (&tls("max_version: TLS9"), "TLS12 or TLS13"),
        (&tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]"), "CBC"),
        (&tls("curve_preferences: [CurveP521]"), "CurveP384"),
        ("tls_server_config:\n  cert_file: server.pem\n", "key_file or key"),
        ("tls_server_config:\n  cert_file: a.pem\n  key_file: server.key\n", "a.pem"),
        (
            "tls_server_config:\n  cert_file: ca.pem\n  key_file: server.key\n",
            "use the certificate",
        ),
    ] {
        site.write(config);
        let output = site.command().output().expect("it runs");
        let said = stderr(&output);
        assert!(said.contains(words), "`{words}` is missing in: {said}");
        assert!(matches!(output.status.code(), Some(2 | 3)), "{said}");
        let checked = run(&["config", "check", "--web", &site.file("web.yml")]);
        assert_eq!(checked.status.code(), Some(1), "{config}");
    }
    site.write(TLS);
    fs::set_permissions(site.file("server.key"), PermissionsExt::from_mode(0o644)).expect("a mode");
    assert!(site.refused().contains("every user of this machine"));
    let nowhere = run(&["config", "check", "--web", &site.file("nowhere.yml")]);
    assert_eq!(nowhere.status.code(), Some(3));
}

#[test]
fn many_wrong_passwords_do_not_delay_the_right_one() {
    let site = Site::new(&users(SLOW_FIRST));
    let exporter = site.start();
    let right = ["-u", "prometheus:first"];
    assert_eq!(site.code(&exporter, &right), "200");
    let address =
        exporter.url.trim_start_matches("http://").trim_end_matches("/metrics").to_owned();
    let flood = |thread: usize| {
        let address = address.clone();
        thread::spawn(move || ask(&address, &format!("prometheus:{thread}")))
    };
    let flood: Vec<_> = (0..40).map(flood).collect();
    for _ in 0..10 {
        assert_eq!(site.code(&exporter, &right), "200");
    }
    let answers = flood.into_iter().map(|thread| thread.join().expect("it ends"));
    for answer in answers {
        assert!(matches!(answer.as_str(), "401" | "503"), "{answer}");
    }
    assert_eq!(site.code(&exporter, &right), "200");
}

/// The status that a name and a password get.
fn ask(address: &str, user: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let user = BASE64_STANDARD.encode(user);
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: x\r\nauthorization: Basic {user}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

/// Files that both programs accept or refuse.
#[test]
fn promtool_agrees() {
    if Command::new("promtool").arg("--version").output().is_err() {
        eprintln!("skipped: there is no promtool here; `cargo xtask test` brings it");
        return;
    }
    let site = Site::new("");
    let tls = |line: &str| format!("{TLS}  {line}\n");
    let headers = |line: &str| format!("http_server_config:\n  headers:\n    {line}\n");
    for config in [
        String::new(),
        users(FIRST),
        users("secret"),
        users("$2y$04$short"),
        TLS.to_owned(),
        "tls_server_config:\n  min_version: TLS13\n".to_owned(),
        "tls_server_config:\n  cert_file: server.pem\n".to_owned(),
        "tls_server_config:\n  cert_file: nowhere\n  key_file: server.key\n".to_owned(),
        tls("client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem"),
        tls("client_auth_type: RequireClientCert"),
        tls("client_auth_type: Sometimes"),
        tls("client_ca_file: ca.pem"),
        tls("min_version: TLS12\n  max_version: TLS13"),
        tls("min_version: TLS9"),
        tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]"),
        tls("cipher_suites: [TLS_PROTOCOL_ERROR]"),
        tls("curve_preferences: [X25519, CurveP256]"),
        tls("curve_preferences: [X1]"),
        tls("prefer_server_cipher_suites: no"),
        tls("unknown: 1"),
        headers("X-Frame-Options: sameorigin"),
        headers("X-Frame-Options: somewhere"),
        headers("Server: mine"),
        "http_server_config:\n  http2: false\n".to_owned(),
        "invalid data: {}\n".to_owned(),
        "basic_auth_users: [a, b]\n".to_owned(),
    ] {
        site.write(&config);
        let file = site.file("web.yml");
        let theirs = Command::new("promtool").args(["check", "web-config", &file]).output();
        let theirs = theirs.expect("promtool runs");
        let ours = run(&["config", "check", "--web", &file]);
        let said = format!("{config}\n{}\n{}", stderr(&theirs), stderr(&ours));
        assert_eq!(theirs.status.success(), ours.status.success(), "{said}");
    }
}
